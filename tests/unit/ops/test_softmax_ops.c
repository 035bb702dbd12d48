/* The ops softmax and log_softmax along any axis, and their gradients. */
#include "op_numbers.h"

TEST(values_and_gradients_of_a_small_row)
{
    const double ln2 = 0.69314718055994530942, ln5 = 1.60943791243410037460;
    const double x[6] = {0, ln2, ln5, 7, 7, 7};
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p = program_new((lk_dtype)type, false);
        lk_var v = values_leaf(&p, LK_SHAPE(2, 3), x), y, log_y;
        ASSERT_OK(lk_softmax(v, 1, &y));
        ASSERT_OK(lk_log_softmax(v, LK_LAST_AXIS, &log_y));
        const double third = 1.0 / 3, log3 = -1.09861228866810969140;
        values_are(value_of(y), (double[]){0.125, 0.25, 0.625, third, third, third}, 4);
        values_are(value_of(log_y), (double[]){-3 * ln2, -2 * ln2, ln5 - 3 * ln2, log3, log3, log3},
                   4);
        program_free(&p);
    }
}

TEST(gradients_follow_the_formula)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p = program_new((lk_dtype)type, false);
        lk_var v = values_leaf(&p, LK_SHAPE(2), (double[]){3, 3}), y;
        lk_tensor *seed = NULL;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)type, LK_SHAPE(2), &seed));
        ASSERT_OK(lk_tensor_set_f64(seed, LK_AT(0), 8));
        ASSERT_OK(lk_softmax(v, 0, &y));
        ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, 0));
        values_are(p.grad[0], (double[]){2, -2}, 0); /* 1/2 (dy - 4) */
        ASSERT_OK(lk_log_softmax(v, 0, &y));
        ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, 0));
        values_are(p.grad[0], (double[]){2 + 4, -2 - 4}, 2); /* dy - 1/2 * 8 */
        lk_tensor_free(seed);
        program_free(&p);
    }
}

/* Along a middle axis: each column has the bits that it has as a row. */
TEST(any_axis_has_the_bits_of_the_last)
{
    enum { OUTER = 3, N = 37, INNER = 21 };
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int log = 0; log < 2; log++) {
            lk_dtype t = (lk_dtype)type;
            struct program p = program_new(t, false);
            lk_var x = program_leaf(&p, LK_SHAPE(OUTER, N, INNER)), y, row;
            ASSERT_OK(log ? lk_log_softmax(x, 1, &y) : lk_softmax(x, 1, &y));
            ASSERT_OK(lk_retain_value(y));
            program_backward(&p, y, 0);
            for (int64_t o = 0; o < OUTER; o++)
                for (int64_t i = 0; i < INNER; i++) {
                    struct program one = program_new(t, false);
                    lk_tensor *dy = program_tensor(&one, LK_SHAPE(N), 1);
                    double values[N], dys[N];
                    for (int64_t k = 0; k < N; k++) {
                        values[k] = tensor_at(p.value[0], (o * N + k) * INNER + i);
                        dys[k] = tensor_at(p.seed, (o * N + k) * INNER + i);
                        ASSERT_OK(lk_tensor_set_f64(dy, LK_AT(k), dys[k]));
                    }
                    row = values_leaf(&one, LK_SHAPE(N), values);
                    ASSERT_OK(log ? lk_log_softmax(row, 0, &row) : lk_softmax(row, 0, &row));
                    for (int64_t k = 0; k < N; k++)
                        ASSERT_TRUE(value_at(row, k) == value_at(y, (o * N + k) * INNER + i));
                    ASSERT_OK(lk_backward(one.tape, &(lk_seed){row, dy}, 1, 0));
                    for (int64_t k = 0; k < N; k++)
                        ASSERT_TRUE(tensor_at(one.grad[0], k) ==
                                    tensor_at(p.grad[0], (o * N + k) * INNER + i));
                    lk_tensor_free(dy);
                    program_free(&one);
                }
            program_free(&p);
        }
}

TEST(large_logits_do_not_overflow_and_minus_infinity_is_zero)
{
    const double x[6] = {1000, -1000, 1000, 5, -HUGE_VAL, -HUGE_VAL};
    struct program p = program_new(LK_F32, false);
    lk_var v = values_leaf(&p, LK_SHAPE(2, 3), x), y, log_y;
    ASSERT_OK(lk_softmax(v, 1, &y));
    values_are(value_of(y), (double[]){0.5, 0, 0.5, 1, 0, 0}, 0);
    ASSERT_OK(lk_log_softmax(v, 1, &log_y));
    ASSERT_NEAR(value_at(log_y, 1), -2000, 1);
    ASSERT_TRUE(value_at(log_y, 3) == 0 && value_at(log_y, 4) == -HUGE_VAL);
    program_backward(&p, y, 0);
    for (int i = 3; i < 6; i++)
        ASSERT_TRUE(tensor_at(p.grad[0], i) == 0);
    program_free(&p);
}

TEST(a_row_with_nan_is_nan_and_others_are_not)
{
    const double x[4] = {0, (double)NAN, 1, 1};
    struct program p = program_new(LK_F64, false);
    lk_var v = values_leaf(&p, LK_SHAPE(2, 2), x), y;
    ASSERT_OK(lk_softmax(v, 1, &y));
    ASSERT_TRUE(isnan(value_at(y, 0)) && isnan(value_at(y, 1)));
    ASSERT_TRUE(value_at(y, 2) == 0.5 && value_at(y, 3) == 0.5);
    program_free(&p);
}

TEST(empty_axes_are_fine)
{
    const lk_shape shapes[] = {LK_SHAPE(0, 3), LK_SHAPE(3, 0), LK_SHAPE(2, 0, 3)};
    for (int k = 0; k < 3; k++)
        for (int axis = LK_LAST_AXIS; axis < shapes[k].ndim; axis++) {
            struct program p = program_new(LK_F32, false);
            lk_var y, z;
            ASSERT_OK(lk_softmax(program_leaf(&p, shapes[k]), axis, &y));
            ASSERT_OK(lk_log_softmax(y, axis, &z));
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(z), shapes[k]));
            program_backward(&p, z, 0);
            program_free(&p);
        }
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 3)), s = program_leaf(&p, LK_SCALAR), y;
    ASSERT_FAILS(lk_softmax(x, 2, &y), LK_EINVAL, "softmax of f32[2,3] along axis 2");
    ASSERT_FAILS(lk_log_softmax(x, -2, &y), LK_EINVAL, "log_softmax of f32[2,3] along axis -2");
    ASSERT_FAILS(lk_softmax(s, LK_LAST_AXIS, &y), LK_EINVAL, "softmax of f32[] along axis -1");
    ASSERT_FAILS(lk_softmax(values_index(&p, false, LK_SHAPE(1), (int64_t[]){0}), 0, &y), LK_EDTYPE,
                 "softmax of i64[1]");
    program_free(&p);
}

static void last_axis(struct program *p, lk_var *y)
{
    lk_var z;
    ASSERT_OK(lk_softmax(program_leaf(p, LK_SHAPE(300, 117)), LK_LAST_AXIS, &z));
    ASSERT_OK(lk_log_softmax(z, LK_LAST_AXIS, y));
}

static void first_axis(struct program *p, lk_var *y)
{
    lk_var z;
    ASSERT_OK(lk_softmax(program_leaf(p, LK_SHAPE(300, 117)), 0, &z));
    ASSERT_OK(lk_log_softmax(z, 0, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(last_axis);
    test_same_bits_everywhere(first_axis);
}
