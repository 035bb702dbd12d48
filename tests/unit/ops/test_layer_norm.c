/* Layer norm: values, gradients, and the same bits recorded or not. */
#include "op_numbers.h"

/* mean 4, variance 5, so with eps 4 the deviation is 3. */
static const double row[4] = {1, 3, 5, 7};

TEST(values_of_a_small_row)
{
    const double third = 1.0 / 3;
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int axes = 1; axes <= 2; axes++) {
            struct program p = program_new((lk_dtype)type, false);
            lk_shape shape = axes == 1 ? LK_SHAPE(1, 4) : LK_SHAPE(1, 2, 2);
            lk_shape vector = axes == 1 ? LK_SHAPE(4) : LK_SHAPE(2, 2);
            lk_var x = values_leaf(&p, shape, row), y;
            lk_var gamma = values_leaf(&p, vector, (double[]){3, 3, 6, -3});
            lk_var beta = values_leaf(&p, vector, (double[]){10, 20, 30, 40});
            lk_layer_norm_attr a = {.axes = axes, .eps = 4};
            ASSERT_OK(lk_layer_norm(x, gamma, beta, &a, &y));
            values_are(value_of(y), (double[]){7, 19, 32, 37}, 2);
            lk_tensor *seed = NULL;
            ASSERT_OK(lk_tensor_zeros((lk_dtype)type, shape, &seed));
            lk_shape first = {.ndim = axes + 1};
            ASSERT_OK(lk_tensor_set_f64(seed, first, 1));
            ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, 0));
            /* g = (3,0,0,0), mean 3/4; x' = (-1,-1/3,1/3,1), mean of g x' = -3/4 */
            const double dx[4] = {0.5, -third, -third / 2, 0};
            for (int i = 0; i < 4; i++)
                ASSERT_NEAR(tensor_at(p.grad[0], i), dx[i], type == LK_F32 ? 1e-6 : 1e-15);
            values_are(p.grad[1], (double[]){-1, 0, 0, 0}, 2);
            values_are(p.grad[2], (double[]){1, 0, 0, 0}, 0);
            lk_tensor_free(seed);
            program_free(&p);
        }
}

/* Its elements are -0 on the tape; adding them to zeros gives +0. */
TEST(a_gradient_of_nothing_sets_a_leaf_to_zero)
{
    float x[] = {1, 3, 5, 7}, one[] = {1, 1, 1, 1}, dy[] = {-0.0F, -0.0F, -0.0F, -0.0F},
          dx[4] = {9};
    const float zeros[4] = {0};
    lk_tensor *t[4] = {0};
    lk_var in[3], y;
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(1, 4), x, NULL, NULL, &t[0]));
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(1, 4), dx, NULL, NULL, &t[1]));
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(4), one, NULL, NULL, &t[2]));
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(1, 4), dy, NULL, NULL, &t[3]));
    ASSERT_OK(lk_leaf_overwrite(tape, t[0], t[1], &in[0]));
    ASSERT_OK(lk_constant(tape, t[2], &in[1]));
    ASSERT_OK(lk_layer_norm(in[0], in[1], in[1], NULL, &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, t[3]}, 1, 0));
    ASSERT_EQ(memcmp(dx, zeros, sizeof dx), 0);
    lk_tape_free(tape);
    for (int i = 0; i < 4; i++)
        lk_tensor_free(t[i]);
}

/* The mean is 4 and 1 / sqrt(5 + 4) the inverse; with m and v their gradients dx is
 * m / 4 - v c / (4 * 27). */
TEST(statistics_are_outputs_with_gradients)
{
    const lk_op *op = NULL;
    ASSERT_OK(lk_op_find("layer_norm", &op));
    for (int which = 1; which < 4; which++) { /* of the mean, of the inverse, of both */
        struct program p = program_new(LK_F64, false);
        lk_layer_norm_attr a = {.eps = 4};
        lk_var one = program_leaf(&p, LK_SHAPE(4)), x = values_leaf(&p, LK_SHAPE(1, 4), row),
               in[] = {x, one, one}, y[3];
        ASSERT_OK(lk_apply(p.tape, op, in, 3, &a, y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y[1]), LK_SHAPE(1, 1)));
        values_are(value_of(y[1]), (double[]){4}, 0);
        values_are(value_of(y[2]), (double[]){1.0 / 3}, 1);
        lk_var sum, v;
        ASSERT_OK(lk_affine(y[1], which & 1 ? 8 : 0, 0, &sum));
        ASSERT_OK(lk_affine(y[2], which & 2 ? 54 : 0, 0, &v));
        ASSERT_OK(lk_add(sum, v, &sum));
        ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = sum}, 1, 0));
        for (int i = 0; i < 4; i++)
            ASSERT_NEAR(tensor_at(p.grad[1], i),
                        (which & 1 ? 2 : 0) - (which & 2 ? (row[i] - 4) / 2 : 0), 1e-14);
        program_free(&p);
    }
}

TEST(attributes_have_defaults)
{
    struct program p = program_new(LK_F64, false);
    lk_var x = program_leaf(&p, LK_SHAPE(3, 2, 5)), gamma = program_leaf(&p, LK_SHAPE(5)),
           beta = program_leaf(&p, LK_SHAPE(5)), y, z;
    ASSERT_OK(lk_layer_norm(x, gamma, beta, NULL, &y));
    lk_layer_norm_attr a = {.axes = 1, .eps = 1e-5};
    ASSERT_OK(lk_layer_norm(x, gamma, beta, &a, &z));
    ASSERT_TRUE(lk_tensor_is_equal(value_of(y), value_of(z)));
    a.eps = 1e-4;
    ASSERT_OK(lk_layer_norm(x, gamma, beta, &a, &z));
    ASSERT_TRUE(!lk_tensor_is_equal(value_of(y), value_of(z)));
    program_free(&p);
}

TEST(a_recorded_backward_gives_the_same_bits)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p[2];
        for (int k = 0; k < 2; k++) {
            p[k] = program_new((lk_dtype)type, false);
            ASSERT_OK(lk_tape_set_shard_size(p[k].tape, 4));
            lk_var x = program_leaf(&p[k], LK_SHAPE(23, 3, 41)),
                   gamma = program_leaf(&p[k], LK_SHAPE(41)),
                   beta = program_leaf(&p[k], LK_SHAPE(41)), y;
            ASSERT_OK(lk_layer_norm(x, gamma, beta, NULL, &y));
            program_backward(&p[k], y, k == 0 ? 0 : LK_RECORD);
        }
        for (int i = 0; i < 3; i++)
            ASSERT_TRUE(lk_tensor_is_equal(p[0].grad[i], p[1].grad[i]));
        program_free(&p[0]);
        program_free(&p[1]);
    }
}

TEST(equal_elements_give_beta)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = values_leaf(&p, LK_SHAPE(1, 3), (double[]){7, 7, 7}),
           gamma = program_leaf(&p, LK_SHAPE(3)), y;
    lk_var beta = values_leaf(&p, LK_SHAPE(3), (double[]){1, 2, 3});
    ASSERT_OK(lk_layer_norm(x, gamma, beta, NULL, &y));
    values_are(value_of(y), (double[]){1, 2, 3}, 0);
    program_free(&p);
}

TEST(empty_axes_are_fine)
{
    const lk_shape shapes[] = {LK_SHAPE(0, 3), LK_SHAPE(3, 0)};
    for (int k = 0; k < 2; k++) {
        struct program p = program_new(LK_F32, false);
        lk_shape vector = LK_SHAPE(shapes[k].dim[1]);
        lk_var x = program_leaf(&p, shapes[k]), gamma = program_leaf(&p, vector),
               beta = program_leaf(&p, vector), y;
        ASSERT_OK(lk_layer_norm(x, gamma, beta, NULL, &y));
        program_backward(&p, y, 0);
        for (int64_t i = 0; i < vector.dim[0]; i++)
            ASSERT_TRUE(tensor_at(p.grad[1], i) == 0 && tensor_at(p.grad[2], i) == 0);
        program_free(&p);
    }
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 3)), g = program_leaf(&p, LK_SHAPE(3)),
           wrong = program_leaf(&p, LK_SHAPE(2)), wide, y;
    lk_layer_norm_attr a = {.axes = 3};
    ASSERT_FAILS(lk_layer_norm(x, g, g, &a, &y), LK_EINVAL, "f32[2,3] over 3 last axes");
    a.axes = -1;
    ASSERT_FAILS(lk_layer_norm(x, g, g, &a, &y), LK_EINVAL, "over -1 last axes");
    const double eps[] = {-1, (double)INFINITY, (double)NAN, 1e300};
    for (int k = 0; k < LK_COUNT(eps); k++) {
        char text[64];
        snprintf(text, sizeof text, "of f32[2,3] with eps %g", eps[k]);
        a = (lk_layer_norm_attr){.eps = eps[k]};
        ASSERT_FAILS(lk_layer_norm(x, g, g, &a, &y), LK_EINVAL, text);
    }
    ASSERT_FAILS(lk_layer_norm(x, wrong, g, NULL, &y), LK_ESHAPE,
                 "layer_norm of f32[2,3] over 1 last axes with gamma f32[2]: it must be [3]");
    ASSERT_FAILS(lk_layer_norm(x, g, wrong, NULL, &y), LK_ESHAPE, "with beta f32[2]");
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SHAPE(3), 1, &wide));
    ASSERT_FAILS(lk_layer_norm(x, wide, g, NULL, &y), LK_EDTYPE, "with gamma f64[3]");
    program_free(&p);
}

static void normalise(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 16));
    lk_var x = program_leaf(p, LK_SHAPE(200, 7, 31)), gamma = program_leaf(p, LK_SHAPE(7, 31)),
           beta = program_leaf(p, LK_SHAPE(7, 31));
    lk_layer_norm_attr a = {.axes = 2};
    ASSERT_OK(lk_layer_norm(x, gamma, beta, &a, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(normalise);
}
