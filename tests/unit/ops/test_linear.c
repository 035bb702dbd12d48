/* linear, the gradient of its weights, and bias. */
#include "op_program.h"

static void set(lk_tensor *t, const double *values)
{
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        real_set(lk_tensor_dtype(t), data, i, values[i]);
}

static void expect(const lk_tensor *t, int64_t n, const double *values)
{
    ASSERT_EQ(lk_tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        if (tensor_at(t, i) != values[i])
            TEST_FAIL("element %lld is %g, not %g", (long long)i, tensor_at(t, i), values[i]);
}

#define EXPECT(t, ...) \
    expect(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

TEST(linear_is_a_product_and_a_bias)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1))
        for (int64_t piece = 0; piece < 3; piece++) {
            struct program p = program_new(dtype, true);
            lk_var x = program_leaf(&p, LK_SHAPE(3, 2)), w = program_leaf(&p, LK_SHAPE(2, 2)),
                   b = program_leaf(&p, LK_SHAPE(2)), y;
            set(p.value[0], (double[]){1, 2, 3, 4, 5, 6});
            set(p.value[1], (double[]){1, -1, 10, 2});
            set(p.value[2], (double[]){100, 200});
            ASSERT_OK(lk_tape_set_shard_size(p.tape, piece));
            ASSERT_OK(lk_linear(x, w, b, &y));
            EXPECT(value_of(y), 121, 203, 143, 205, 165, 207);
            lk_tensor *seed = program_tensor(&p, LK_SHAPE(3, 2), 1);
            set(seed, (double[]){1, 0, 0, 1, 2, 3});
            ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, LK_RETAIN_GRAPH));
            EXPECT(p.grad[0], 1, 10, -1, 2, -1, 26);
            EXPECT(p.grad[1], 11, 18, 14, 22);
            EXPECT(p.grad[2], 3, 4);
            lk_tensor_free(seed);
            ASSERT_OK(lk_linear(x, w, LK_NO_VAR, &y));
            EXPECT(value_of(y), 21, 3, 43, 5, 65, 7);
            program_free(&p);
        }
}

TEST(all_leading_axes_are_rows)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(3, 4, 2, 5)), w = program_leaf(&p, LK_SHAPE(5, 7)),
           b = program_leaf(&p, LK_SHAPE(7)), y, flat;
    ASSERT_OK(lk_linear(x, w, b, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(3, 4, 2, 7)));
    lk_tensor *rows;
    ASSERT_OK(lk_tensor_reshape(p.value[0], LK_SHAPE(24, 5), &rows));
    ASSERT_OK(lk_linear(program_own(&p, rows), w, b, &flat));
    ASSERT_SAME_BITS(lk_tensor_data(value_of(y)), lk_tensor_data(value_of(flat)),
                     24 * 7 * sizeof(float));
    program_free(&p);
}

/* The gradients of w and b for samples [first, last) of a batch of 8, each of 3 rows. */
static void part_of_batch(int64_t first, int64_t last, int64_t piece, lk_tensor **dw,
                          lk_tensor **db)
{
    struct program p = program_new(LK_F32, false);
    lk_tensor *x = program_tensor(&p, LK_SHAPE(8, 3, 5), 1), *part,
              *seed = program_tensor(&p, LK_SHAPE(8, 3, 4), 2), *part_seed;
    ASSERT_OK(lk_tensor_slice(x, 0, first, last, 1, &part));
    ASSERT_OK(lk_tensor_slice(seed, 0, first, last, 1, &part_seed));
    lk_var v = program_own(&p, part), w = program_own(&p, program_tensor(&p, LK_SHAPE(5, 4), 3)),
           b = program_own(&p, program_tensor(&p, LK_SHAPE(4), 4)), y;
    ASSERT_OK(lk_tape_set_shard_size(p.tape, piece));
    ASSERT_OK(lk_linear(v, w, b, &y));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, part_seed}, 1, 0));
    *dw = lk_tensor_retain(p.grad[1]);
    *db = lk_tensor_retain(p.grad[2]);
    lk_tensor_free(x);
    lk_tensor_free(seed);
    lk_tensor_free(part_seed);
    program_free(&p);
}

static bool sum_is(const lk_tensor *a, const lk_tensor *b, const lk_tensor *whole)
{
    bool same = true;
    for (int64_t i = 0; i < lk_tensor_count(whole); i++)
        same &= real_add(LK_F32, tensor_at(a, i), tensor_at(b, i)) == tensor_at(whole, i);
    return same;
}

TEST(two_halves_of_a_batch_join_to_the_bits_of_the_whole)
{
    for (int64_t piece = 0; piece <= 4; piece++) {
        lk_tensor *dw[3], *db[3];
        part_of_batch(0, 8, piece, &dw[0], &db[0]);
        part_of_batch(0, 4, piece, &dw[1], &db[1]);
        part_of_batch(4, 8, piece, &dw[2], &db[2]);
        bool cut = piece == 1 || piece == 2 || piece == 4; /* the tree splits between the halves */
        ASSERT_EQ(sum_is(dw[1], dw[2], dw[0]), cut);
        ASSERT_TRUE(!cut || sum_is(db[1], db[2], db[0]));
        for (int i = 0; i < 3; i++) {
            lk_tensor_free(dw[i]);
            lk_tensor_free(db[i]);
        }
    }
}

TEST(bias_is_added_along_the_last_axis)
{
    struct program p = program_new(LK_F64, true);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 2, 3)), b = program_leaf(&p, LK_SHAPE(3)), y;
    set(p.value[0], (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    set(p.value[1], (double[]){100, 200, 300});
    ASSERT_OK(lk_bias(x, b, &y));
    EXPECT(value_of(y), 101, 202, 303, 104, 205, 306, 107, 208, 309, 110, 211, 312);
    lk_tensor *seed = program_tensor(&p, LK_SHAPE(2, 2, 3), 1);
    set(seed, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, 0));
    EXPECT(p.grad[0], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    EXPECT(p.grad[1], 22, 26, 30);
    lk_tensor_free(seed);
    program_free(&p);
}

TEST(an_empty_batch_works)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(0, 3)), w = program_leaf(&p, LK_SHAPE(3, 2)),
           b = program_leaf(&p, LK_SHAPE(2)), y;
    ASSERT_OK(lk_linear(x, w, b, &y));
    ASSERT_OK(lk_bias(y, b, &y));
    program_backward(&p, y, 0);
    for (int64_t i = 0; i < 6; i++)
        ASSERT_TRUE(tensor_at(p.grad[1], i) == 0);
    lk_var none = program_leaf(&p, LK_SHAPE(2, 0)), v = program_leaf(&p, LK_SHAPE(0, 2));
    ASSERT_OK(lk_linear(none, v, b, &y)); /* no inputs: the bias */
    ASSERT_SAME_BITS(lk_tensor_data(value_of(y)), lk_tensor_data(p.value[2]), 2 * sizeof(float));
    program_free(&p);
}

TEST(shapes_that_do_not_meet_are_refused)
{
    struct program p = program_new(LK_F64, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 3)), w = program_leaf(&p, LK_SHAPE(2, 3)),
           b = program_leaf(&p, LK_SHAPE(3)), ok = program_leaf(&p, LK_SHAPE(3, 2)), other, y;
    ASSERT_FAILS(lk_linear(x, w, LK_NO_VAR, &y), LK_ESHAPE,
                 "linear of f64[2,3] with weights f64[2,3]: they must be [3, out]");
    ASSERT_FAILS(lk_linear(x, ok, b, &y), LK_ESHAPE,
                 "linear of f64[2,3] with a bias f64[3]: it must be [2]");
    ASSERT_FAILS(lk_linear(b, ok, LK_NO_VAR, &y), LK_ESHAPE, "[batch, ..., in]");
    ASSERT_FAILS(lk_bias(ok, b, &y), LK_ESHAPE, "bias of f64[3,2] with a bias f64[3]");
    ASSERT_FAILS(lk_linear_weights(x, ok, &y), LK_ESHAPE,
                 "linear_weights of f64[2,3] and f64[3,2]");
    ASSERT_OK(lk_full(p.tape, LK_F32, LK_SHAPE(3), 1, &other));
    ASSERT_FAILS(lk_bias(x, other, &y), LK_EDTYPE, "bias f32[3]");
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SCALAR, 1, &other));
    ASSERT_FAILS(lk_bias(other, b, &y), LK_ESHAPE, "no axis");
    ASSERT_FAILS(lk_linear_weights(b, b, &y), LK_ESHAPE, "linear_weights of f64[3] and f64[3]");
    program_free(&p);
}

static void two_layers(struct program *p, lk_var *y)
{
    lk_var x = program_leaf(p, LK_SHAPE(30, 9, 67)), w = program_leaf(p, LK_SHAPE(67, 130)),
           b = program_leaf(p, LK_SHAPE(130)), v = program_leaf(p, LK_SHAPE(130, 19)),
           c = program_leaf(p, LK_SHAPE(19));
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 4));
    ASSERT_OK(lk_linear(x, w, b, y));
    ASSERT_OK(lk_linear(*y, v, LK_NO_VAR, y));
    ASSERT_OK(lk_bias(*y, c, y));
}

TEST(the_bits_are_the_same_everywhere)
{
    test_same_bits_everywhere(two_layers);
}
