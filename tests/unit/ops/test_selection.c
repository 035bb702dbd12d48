/* Ops that choose among elements: clip, maximum, minimum, where; and stop_gradient. */
#include "unit/ops/elementwise.h"

static lk_status clip(lk_var x, lk_var *out)
{
    return lk_clip(x, -1, 2, out);
}

static lk_status clip_above(lk_var x, lk_var *out)
{
    return lk_clip(x, -INF, 2, out);
}

static lk_status pin(lk_var x, lk_var *out)
{
    return lk_clip(x, 3, 3, out);
}

TEST(clip_passes_the_gradient_at_its_limits)
{
    POINTS1(clip, {0.5, 0.5, 1}, {-1, -1, 1}, {2, 2, 1}, {-1.5, -1, 0}, {2.5, 2, 0}, {INF, 2, 0},
            {-INF, -1, 0}, {NOT_A_NUMBER, NOT_A_NUMBER, 0});
    POINTS1(clip_above, {-1e30, -1e30, 1}, {-INF, -INF, 1}, {5, 2, 0});
    POINTS1(pin, {1, 3, 0}, {3, 3, 1}, {4, 3, 0});
}

TEST(ties_give_the_gradient_to_x)
{
    POINTS2(lk_maximum, {1, 2, 2, 0, 1}, {2, 1, 2, 1, 0}, {3, 3, 3, 1, 0}, {-INF, INF, INF, 0, 1});
    POINTS2(lk_minimum, {1, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, {3, 3, 3, 1, 0}, {-INF, INF, -INF, 1, 0});
    POINTS2(lk_maximum, {0, -0.0, 0, 1, 0}, {-0.0, 0, -0.0, 1, 0});
}

TEST(a_choice_with_nan_is_nan)
{
    POINTS2(lk_maximum, {NOT_A_NUMBER, 1, NOT_A_NUMBER, 1, 0},
            {1, NOT_A_NUMBER, NOT_A_NUMBER, 1, 0});
    POINTS2(lk_minimum, {NOT_A_NUMBER, 1, NOT_A_NUMBER, 1, 0},
            {1, NOT_A_NUMBER, NOT_A_NUMBER, 1, 0});
}

/* ---- where ---- */

static lk_tape *tape;
static lk_tensor *cx, *cy, *dx, *dy;
static lk_var vx, vy;

/* x and y of this shape, 1, 2, ... and -1, -2, ..., with gradients. */
static void pair_begin(lk_dtype t, lk_shape shape)
{
    double up[MAX_POINTS], down[MAX_POINTS];
    for (int i = 0; i < MAX_POINTS; i++) {
        up[i] = i + 1;
        down[i] = -i - 1;
    }
    ASSERT_OK(lk_tape_new(&tape));
    cx = tensor_of(t, shape, up);
    cy = tensor_of(t, shape, down);
    ASSERT_OK(lk_tensor_zeros(t, shape, &dx));
    ASSERT_OK(lk_tensor_zeros(t, shape, &dy));
    ASSERT_OK(lk_leaf(tape, cx, dx, &vx));
    ASSERT_OK(lk_leaf(tape, cy, dy, &vy));
}

static void pair_end(void)
{
    lk_tape_free(tape);
    lk_tensor_free(cx);
    lk_tensor_free(cy);
    lk_tensor_free(dx);
    lk_tensor_free(dy);
}

static void sum_backward(lk_var z)
{
    lk_var sum;
    ASSERT_OK(lk_sum_to(z, LK_SCALAR, &sum));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
}

TEST(conditions_have_any_dtype)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int d = 0; d < LK_N_DTYPES; d++) {
            lk_tensor *real, *condition;
            lk_var vc, z;
            pair_begin((lk_dtype)type, LK_SHAPE(4));
            real = tensor_of(LK_F64, LK_SHAPE(4), (double[]){1, 0, 2, 0});
            ASSERT_OK(lk_tensor_clone(real, (lk_dtype)d, &condition));
            ASSERT_OK(lk_constant(tape, condition, &vc));
            ASSERT_OK(lk_where(vc, vx, vy, &z));
            static const double want[] = {1, -2, 3, -4};
            for (int i = 0; i < 4; i++)
                ASSERT_TRUE(var_at(z, i) == want[i]);
            sum_backward(z);
            for (int i = 0; i < 4; i++) {
                ASSERT_TRUE(tensor_at(dx, i) == (i + 1) % 2);
                ASSERT_TRUE(tensor_at(dy, i) == i % 2);
            }
            lk_tensor_free(real);
            lk_tensor_free(condition);
            pair_end();
        }
}

TEST(minus_zero_is_no_condition_and_nan_is_one)
{
    static const lk_dtype with_sign[] = {LK_F32, LK_F64, LK_F16, LK_BF16};
    for (size_t k = 0; k < sizeof with_sign / sizeof with_sign[0]; k++) {
        lk_tensor *real, *condition;
        lk_var vc, z;
        pair_begin(LK_F32, LK_SHAPE(3));
        real = tensor_of(LK_F64, LK_SHAPE(3), (double[]){-0.0, NOT_A_NUMBER, -1});
        ASSERT_OK(lk_tensor_clone(real, with_sign[k], &condition));
        ASSERT_OK(lk_constant(tape, condition, &vc));
        ASSERT_OK(lk_where(vc, vx, vy, &z));
        ASSERT_TRUE(var_at(z, 0) == -1 && var_at(z, 1) == 2 && var_at(z, 2) == 3);
        lk_tensor_free(real);
        lk_tensor_free(condition);
        pair_end();
    }
}

TEST(where_broadcasts_all_three)
{
    lk_tensor *condition = tensor_of(LK_F32, LK_SHAPE(2, 1), (double[]){0, 1});
    lk_var vc, y, z;
    pair_begin(LK_F64, LK_SHAPE(3));
    ASSERT_OK(lk_constant(tape, condition, &vc));
    ASSERT_OK(lk_sum_to(vy, LK_SHAPE(1), &y)); /* -6 */
    ASSERT_OK(lk_where(vc, vx, y, &z));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(z), LK_SHAPE(2, 3)));
    static const double want[] = {-6, -6, -6, 1, 2, 3};
    for (int i = 0; i < 6; i++)
        ASSERT_TRUE(var_at(z, i) == want[i]);
    sum_backward(z);
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(tensor_at(dx, i) == 1 && tensor_at(dy, i) == 3);
    lk_tensor_free(condition);
    pair_end();
}

TEST(what_was_not_selected_spoils_only_its_own_gradient)
{
    lk_tensor *condition;
    lk_var vc, bad, z;
    pair_begin(LK_F64, LK_SHAPE(2));
    ASSERT_OK(lk_tensor_zeros(LK_U8, LK_SHAPE(2), &condition));
    ASSERT_OK(lk_constant(tape, condition, &vc));
    ASSERT_OK(lk_affine(vx, 1e300, 0, &bad));
    ASSERT_OK(lk_exp(bad, &bad)); /* infinite */
    ASSERT_OK(lk_where(vc, bad, vy, &z));
    sum_backward(z);
    ASSERT_TRUE(tensor_at(dy, 1) == 1);
    ASSERT_TRUE(isnan(tensor_at(dx, 1))); /* 0 * infinity, in the backward of exp */
    lk_tensor_free(condition);
    pair_end();
}

TEST(what_does_not_fit_is_refused)
{
    lk_var c, other, z;
    pair_begin(LK_F64, LK_SHAPE(3));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(3), 1, &other));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2), 1, &c));
    ASSERT_FAILS(lk_where(other, vx, other, &z), LK_EDTYPE, "where selects from f64[3] and f32[3]");
    ASSERT_FAILS(lk_where(c, vx, vy, &z), LK_ESHAPE, "where of shapes [2] and [3]");
    ASSERT_FAILS(lk_clip(vx, 2, 1, &z), LK_EINVAL, "clip between lo 2 and hi 1");
    ASSERT_FAILS(lk_clip(vx, NOT_A_NUMBER, 1, &z), LK_EINVAL, "clip between");
    pair_end();
}

/* ---- stop_gradient ---- */

TEST(stop_gradient_makes_a_constant)
{
    lk_var stopped, z;
    const lk_tensor *a = NULL;
    pair_begin(LK_F64, LK_SHAPE(3));
    ASSERT_OK(lk_stop_gradient(vx, &stopped));
    ASSERT_TRUE(!lk_needs_grad(stopped));
    ASSERT_OK(lk_value(stopped, &a));
    ASSERT_TRUE(lk_tensor_data(a) == lk_tensor_data(cx)); /* a view */
    ASSERT_OK(lk_mul(stopped, vx, &z));
    sum_backward(z);
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(tensor_at(dx, i) == i + 1); /* without it: 2 x */
    pair_end();
}

TEST(stop_gradient_takes_any_dtype_and_strides)
{
    lk_tensor *index;
    lk_var v, wide, stopped;
    const lk_tensor *t = NULL;
    pair_begin(LK_F64, LK_SHAPE(3));
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(2), &index));
    ASSERT_OK(lk_constant(tape, index, &v));
    ASSERT_OK(lk_stop_gradient(v, &stopped));
    ASSERT_TRUE(lk_dtype_of(stopped) == LK_I64);
    ASSERT_OK(lk_broadcast(vx, LK_SHAPE(4, 3), &wide));
    ASSERT_OK(lk_stop_gradient(wide, &stopped));
    ASSERT_OK(lk_value(stopped, &t));
    ASSERT_EQ(lk_tensor_strides(t)[0], 0);
    double last = 0;
    ASSERT_OK(lk_tensor_get_f64(t, LK_AT(3, 2), &last));
    ASSERT_TRUE(last == 3);
    lk_tensor_free(index);
    pair_end();
}
