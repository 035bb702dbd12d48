/* conv, conv_transpose and conv_weights against their definition. */
#include "conv_relation.h"
#include "faults.h"

#include <lockstep/extra/conv.h>
#include <lockstep/extra/map.h>

struct conv_case {
    lk_shape x, w;
    lk_conv_attr attr;
};

static const struct conv_case cases[] = {
    {LK_DIMS(2, 5, 1), LK_DIMS(3, 1, 1), {.groups = 0}},
    {LK_DIMS(3, 7, 2),
     LK_DIMS(3, 2, 5),
     {.window.stride = {2}, .window.pad_lo = {1}, .window.pad_hi = {2}}},
    {LK_DIMS(1, 9, 4),
     LK_DIMS(3, 2, 6),
     {.window.dilation = {3}, .window.stride = {2}, .groups = 2}},
    {LK_DIMS(2, 6, 3), LK_DIMS(4, 1, 3), {.window.pad_lo = {2}, .window.pad_hi = {1}, .groups = 3}},
    {LK_DIMS(2, 5, 4, 3), LK_DIMS(3, 2, 3, 4), {.window.stride = {1, 2}, .window.pad_lo = {1, 1}}},
    {LK_DIMS(2, 6, 5, 2), LK_DIMS(2, 3, 2, 3), {.window.stride = {4, 3}, .window.pad_hi = {0, 3}}},
    {LK_DIMS(1, 5, 5, 4),
     LK_DIMS(2, 2, 1, 8),
     {.window.dilation = {2, 1}, .window.pad_lo = {-1}, .groups = 4}},
    {LK_DIMS(2, 3, 4, 3, 2),
     LK_DIMS(2, 3, 2, 2, 3),
     {.window.stride = {1, 1, 2}, .window.pad_lo = {1, 0, 1}}},
    {LK_DIMS(2, 1, 1, 1, 1), LK_DIMS(1, 1, 1, 1, 1), {.groups = 1}},
    {LK_DIMS(2, 2, 1), LK_DIMS(2, 1, 1), {.window.pad_lo = {5}, .window.pad_hi = {4}}},
};

static void expect(lk_var v, int64_t n, const double *values)
{
    ASSERT_EQ(lk_tensor_count(value_of(v)), n);
    for (int64_t i = 0; i < n; i++)
        ASSERT_EQ(value_at(v, i), values[i]);
}

#define EXPECT(v, ...) \
    expect(v, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

TEST(a_filter_slides_over_a_line)
{
    struct program p = program_new(LK_F64, true);
    lk_var x = program_leaf(&p, LK_SHAPE(1, 4, 1)), w = program_leaf(&p, LK_SHAPE(2, 1, 1)), y;
    for (int64_t i = 0; i < 4; i++)
        ASSERT_OK(lk_tensor_set_f64(p.value[0], LK_AT(0, i, 0), (double)(i + 1)));
    ASSERT_OK(lk_tensor_set_f64(p.value[1], LK_AT(0, 0, 0), 1));
    ASSERT_OK(lk_tensor_set_f64(p.value[1], LK_AT(1, 0, 0), 10));
    ASSERT_OK(lk_conv(x, w, LK_NO_VAR, NULL, &y));
    EXPECT(y, 21, 32, 43);
    ASSERT_OK(
        lk_conv(x, w, LK_NO_VAR, &(lk_conv_attr){.window.stride = {2}, .window.pad_lo = {1}}, &y));
    EXPECT(y, 10, 32);
    ASSERT_OK(lk_conv_transpose(x, w, LK_NO_VAR, NULL, &y));
    EXPECT(y, 1, 12, 23, 34, 40);
    ASSERT_OK(lk_conv_transpose(x, w, LK_NO_VAR, &(lk_conv_attr){.window.stride = {2}}, &y));
    EXPECT(y, 1, 10, 2, 20, 3, 30, 4, 40);
    program_free(&p);
}

TEST(conv_agrees_with_its_definition)
{
    for (int i = 0; i < 2 * LK_COUNT(cases); i++) {
        const struct conv_case *k = &cases[i / 2];
        struct program p = program_new(i % 2 ? LK_F32 : LK_F64, true);
        lk_shape bias = LK_SHAPE(k->w.dim[k->w.ndim - 1]);
        lk_var x = program_leaf(&p, k->x), w = program_leaf(&p, k->w), b = program_leaf(&p, bias),
               y;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, i % 3));
        ASSERT_OK(lk_conv(x, w, b, &k->attr, &y));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        struct relation r = relation_of(k->x, lk_shape_of(y), k->w.dim, &k->attr);
        double *dx = relation_zeros(p.value[0]), *dw = relation_zeros(p.value[1]),
               *sum = relation_zeros(p.seed), *db = relation_zeros(p.value[2]);
        struct relation_sums values = {p.value[0], p.value[1], NULL, NULL, NULL, sum},
                             grads = {p.value[0], p.value[1], p.seed, dx, dw, NULL};
        relation_each(&r, relation_add, &values);
        relation_each(&r, relation_add, &grads);
        for (int64_t e = 0; e < lk_tensor_count(p.seed); e++)
            db[e % bias.dim[0]] += tensor_at(p.seed, e);
        relation_expect("y", value_of(y), sum, p.value[2]);
        relation_expect("dx", p.grad[0], dx, NULL);
        relation_expect("dw", p.grad[1], dw, NULL);
        relation_expect("db", p.grad[2], db, NULL);
        program_free(&p);
    }
}

/* Where the convolution of a case maps x, the transpose maps back. */
TEST(conv_transpose_agrees_with_its_definition)
{
    for (int i = 0; i < 2 * LK_COUNT(cases); i++) {
        const struct conv_case *k = &cases[i / 2];
        struct program p = program_new(i % 2 ? LK_F32 : LK_F64, true);
        int last = k->x.ndim - 1;
        lk_conv_attr a = k->attr;
        lk_shape from = k->x;
        for (int d = 0; d < last - 1; d++) {
            int64_t stride = a.window.stride[d] ? a.window.stride[d] : 1,
                    dilation = a.window.dilation[d] ? a.window.dilation[d] : 1;
            ASSERT_OK(lk_conv_out(k->x.dim[d + 1], k->w.dim[d], stride, dilation,
                                  a.window.pad_lo[d], a.window.pad_hi[d], &from.dim[d + 1]));
            a.extra[d] = (k->x.dim[d + 1] + a.window.pad_lo[d] + a.window.pad_hi[d] -
                          dilation * (k->w.dim[d] - 1) - 1) %
                         stride;
        }
        from.dim[last] = k->w.dim[last];
        lk_var x = program_leaf(&p, from), w = program_leaf(&p, k->w),
               b = program_leaf(&p, LK_SHAPE(k->x.dim[last])), y;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, i % 3));
        ASSERT_OK(lk_conv_transpose(x, w, b, &a, &y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), k->x));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        struct relation r = relation_of(k->x, from, k->w.dim, &k->attr);
        double *dx = relation_zeros(p.value[0]), *dw = relation_zeros(p.value[1]),
               *sum = relation_zeros(p.seed);
        struct relation_sums values = {NULL, p.value[1], p.value[0], sum, NULL, NULL},
                             grads = {p.seed, p.value[1], p.value[0], NULL, dw, dx};
        relation_each(&r, relation_add, &values);
        relation_each(&r, relation_add, &grads);
        relation_expect("y", value_of(y), sum, p.value[2]);
        relation_expect("dx", p.grad[0], dx, NULL);
        relation_expect("dw", p.grad[1], dw, NULL);
        program_free(&p);
    }
}

TEST(a_transpose_without_extra_is_the_smallest)
{
    struct program p = program_new(LK_F64, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 4, 3)), w = program_leaf(&p, LK_SHAPE(3, 5, 3)), y;
    ASSERT_OK(lk_conv_transpose(x, w, LK_NO_VAR, &(lk_conv_attr){.window.stride = {2}}, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 9, 5)));
    ASSERT_OK(lk_conv_transpose(x, w, LK_NO_VAR,
                                &(lk_conv_attr){.window.stride = {2}, .extra = {1}}, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 10, 5)));
    ASSERT_FAILS(
        lk_conv_transpose(x, w, LK_NO_VAR, &(lk_conv_attr){.window.stride = {2}, .extra = {2}}, &y),
        LK_EINVAL, "with extra 2, there would be 11 positions");
    program_free(&p);
}

/* The gradient of w for samples [first, last) of a batch of 8. */
static lk_tensor *weights_grad(int64_t first, int64_t last, int64_t piece)
{
    struct program p = program_new(LK_F32, false);
    lk_tensor *x = program_tensor(&p, LK_SHAPE(8, 6, 5, 3), 1), *part,
              *seed = program_tensor(&p, LK_SHAPE(8, 6, 5, 4), 2), *part_seed;
    ASSERT_OK(lk_tensor_slice(x, 0, first, last, 1, &part));
    ASSERT_OK(lk_tensor_slice(seed, 0, first, last, 1, &part_seed));
    lk_var v = program_own(&p, part),
           w = program_own(&p, program_tensor(&p, LK_SHAPE(3, 3, 3, 4), 3)), y;
    ASSERT_OK(lk_tape_set_shard_size(p.tape, piece));
    ASSERT_OK(lk_conv(v, w, LK_NO_VAR,
                      &(lk_conv_attr){.window.pad_lo = {1, 1}, .window.pad_hi = {1, 1}}, &y));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, part_seed}, 1, 0));
    lk_tensor *grad = lk_tensor_retain(p.grad[1]);
    lk_tensor_free(x);
    lk_tensor_free(seed);
    lk_tensor_free(part_seed);
    program_free(&p);
    return grad;
}

TEST(two_halves_of_a_batch_join_to_the_bits_of_the_whole)
{
    for (int64_t piece = 0; piece <= 4; piece++) {
        lk_tensor *whole = weights_grad(0, 8, piece), *low = weights_grad(0, 4, piece),
                  *high = weights_grad(4, 8, piece);
        bool cut = piece == 1 || piece == 2 || piece == 4, same = true;
        for (int64_t i = 0; i < lk_tensor_count(whole); i++)
            same &= real_add(LK_F32, tensor_at(low, i), tensor_at(high, i)) == tensor_at(whole, i);
        ASSERT_EQ(same, cut);
        lk_tensor_free(whole);
        lk_tensor_free(low);
        lk_tensor_free(high);
    }
}

TEST(a_piece_of_0_is_one_piece)
{
    lk_tensor *none = weights_grad(0, 8, 0), *all = weights_grad(0, 8, 8),
              *beyond = weights_grad(0, 8, INT64_MAX), *ones = weights_grad(0, 8, 1);
    ASSERT_TRUE(lk_tensor_is_equal(none, all) && lk_tensor_is_equal(none, beyond));
    ASSERT_TRUE(!lk_tensor_is_equal(none, ones));
    lk_tensor_free(none);
    lk_tensor_free(all);
    lk_tensor_free(beyond);
    lk_tensor_free(ones);
}

TEST(empty_axes_work)
{
    struct program p = program_new(LK_F32, false);
    lk_var none = program_leaf(&p, LK_SHAPE(0, 6, 2)), w = program_leaf(&p, LK_SHAPE(3, 2, 4)),
           b = program_leaf(&p, LK_SHAPE(4)), flat = program_leaf(&p, LK_SHAPE(2, 0, 2)), y;
    ASSERT_OK(lk_conv(none, w, b, NULL, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(0, 4, 4)));
    program_backward(&p, y, 0);
    ASSERT_OK(lk_conv(flat, w, b, NULL, &y)); /* a rank without a row of the image */
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 0, 4)));
    program_backward(&p, y, 0);
    ASSERT_OK(lk_conv(flat, w, b, &(lk_conv_attr){.window.pad_lo = {2}, .window.pad_hi = {2}}, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 2, 4))); /* nothing but padding: b */
    ASSERT_SAME_BITS(lk_tensor_data(value_of(y)), lk_tensor_data(p.value[2]), 4 * sizeof(float));
    program_backward(&p, y, 0);
    for (int64_t i = 0; i < 24; i++)
        ASSERT_TRUE(tensor_at(p.grad[1], i) == 0);
    program_free(&p);
}

TEST(what_does_not_fit_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 4, 4, 6)), w = program_leaf(&p, LK_SHAPE(5, 3, 6, 4)),
           v = program_leaf(&p, LK_SHAPE(3, 3, 6, 4)), b = program_leaf(&p, LK_SHAPE(6)),
           matrix = program_leaf(&p, LK_SHAPE(2, 4)), wide, y;
    int64_t kernel[] = {3, 3};
    ASSERT_FAILS(
        lk_conv(x, w, LK_NO_VAR, NULL, &y), LK_ESHAPE,
        "conv of f32[2,4,4,6]: along spatial axis 0 a kernel of 5 with dilation 1 does not "
        "fit in 4 positions");
    ASSERT_FAILS(
        lk_conv(x, matrix, LK_NO_VAR, NULL, &y), LK_ESHAPE,
        "conv of f32[2,4,4,6] with weights f32[2,4]: they must be [2 axes of the kernel, 6");
    ASSERT_FAILS(lk_conv(matrix, v, LK_NO_VAR, NULL, &y), LK_ESHAPE, "1 to 3 spatial axes");
    ASSERT_FAILS(lk_conv(x, v, b, NULL, &y), LK_ESHAPE, "a bias f32[6]: it must be [4]");
    ASSERT_FAILS(lk_conv(x, v, LK_NO_VAR, &(lk_conv_attr){.groups = 4}, &y), LK_EINVAL,
                 "groups is 4, must divide the 6 channels");
    ASSERT_FAILS(lk_conv(x, v, LK_NO_VAR, &(lk_conv_attr){.groups = 2}, &y), LK_ESHAPE,
                 "[2 axes of the kernel, 3, out channels]");
    ASSERT_FAILS(lk_conv(x, v, LK_NO_VAR, &(lk_conv_attr){.window.stride = {-1}}, &y), LK_EINVAL,
                 "stride is -1");
    ASSERT_FAILS(lk_conv(x, v, LK_NO_VAR, &(lk_conv_attr){.extra = {0, 1}}, &y), LK_EINVAL,
                 "extra[1] is 1");
    ASSERT_FAILS(lk_conv(x, v, LK_NO_VAR, &(lk_conv_attr){.window.pad_lo = {INT64_MAX}}, &y),
                 LK_EOVERFLOW, "pads");
    ASSERT_FAILS(lk_conv_transpose(x, v, LK_NO_VAR, NULL, &y), LK_ESHAPE,
                 "conv_transpose of f32[2,4,4,6] with weights f32[3,3,6,4]");
    ASSERT_FAILS(lk_conv_transpose(program_leaf(&p, LK_SHAPE(2, 4, 0, 4)), v, LK_NO_VAR, NULL, &y),
                 LK_ESHAPE,
                 "conv_transpose of f32[2,4,0,4]: spatial axis 1 is empty, and with kernel 3 and "
                 "extra 0 there would be 2 positions");
    ASSERT_FAILS(lk_conv_weights(x, x, NULL, kernel, &y), LK_ESHAPE,
                 "conv_weights of f32[2,4,4,6] and f32[2,4,4,6]: no convolution");
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SHAPE(3, 3, 6, 4), 1, &wide));
    ASSERT_FAILS(lk_conv(x, wide, LK_NO_VAR, NULL, &y), LK_EDTYPE, "f64[3,3,6,4]");
    program_free(&p);
}

/* Two layers with a transposed one between them, and a step of gradient descent. */
static lk_status step(lk_tape *tape, lk_tensor *const *value, lk_tensor *const *grad)
{
    lk_status st;
    lk_var v[6], y;
    const lk_conv_attr down = {
        .window.stride = {2, 2}, .window.pad_lo = {1, 1}, .window.pad_hi = {1, 1}};
    for (int i = 0; i < 6; i++)
        LK_TRY_TO(done,
                  i ? lk_leaf(tape, value[i], grad[i], &v[i]) : lk_constant(tape, value[i], &v[i]));
    LK_TRY_TO(done, lk_conv(v[0], v[1], v[2], &down, &y));
    LK_TRY_TO(done, lk_conv_transpose(y, v[3], LK_NO_VAR, &down, &y));
    LK_TRY_TO(done, lk_conv(y, v[4], v[5], NULL, &y));
    LK_TRY_TO(done, lk_mul(y, y, &y));
    LK_TRY_TO(done, lk_sum_to(y, LK_SCALAR, &y));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
    for (int i = 1; i < 6; i++) {
        void *data = NULL;
        LK_TRY_TO(done, lk_tensor_writable_data(value[i], &data));
        LK_TRY_TO(done, lk_map2(LK_F32, LK_MAP2_AXPY, -1e-4, lk_tensor_count(value[i]),
                                lk_tensor_data(grad[i]), data, data));
    }
done:
    lk_tape_reset(tape);
    return st;
}

static const lk_shape step_shape[6] = {LK_DIMS(4, 9, 9, 3), LK_DIMS(3, 3, 3, 8), LK_DIMS(8),
                                       LK_DIMS(3, 3, 4, 8), LK_DIMS(2, 2, 4, 2), LK_DIMS(2)};

TEST(a_training_loop_allocates_nothing_after_its_first_step)
{
    struct program p = program_new(LK_F32, false);
    for (int i = 0; i < 6; i++)
        program_leaf(&p, step_shape[i]);
    lk_tape_reset(p.tape);
    ASSERT_OK(lk_tape_set_shard_size(p.tape, 2));
    ASSERT_OK(step(p.tape, p.value, p.grad));
    int64_t calls = lk_alloc_stats_now().calls;
    for (int i = 0; i < 4; i++)
        ASSERT_OK(step(p.tape, p.value, p.grad));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    program_free(&p);
}

static struct program faulty;

static lk_status one_step(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    LK_TRY(lk_tape_new(&tape));
    LK_TRY_TO(done, step(tape, faulty.value, faulty.grad));
done:
    lk_tape_free(tape);
    return st;
}

TEST(every_failed_allocation_is_survived)
{
    faulty = program_new(LK_F32, false);
    for (int i = 0; i < 6; i++)
        program_leaf(&faulty, step_shape[i]);
    lk_tape_reset(faulty.tape);
    ASSERT_TRUE(test_every_allocation_fails(one_step) > 20);
    program_free(&faulty);
}

static void several_layers(struct program *p, lk_var *y)
{
    const lk_conv_attr same = {.window.pad_lo = {1, 1}, .window.pad_hi = {1, 1}},
                       down = {.window.stride = {2, 2}, .extra = {1, 0}},
                       depth = {.groups = 21, .window.dilation = {2, 1}},
                       wino = {.window.pad_lo = {1, 0}, .algorithm = LK_CONV_WINOGRAD};
    lk_var x = program_leaf(p, LK_SHAPE(5, 12, 13, 7)), w = program_leaf(p, LK_SHAPE(3, 3, 7, 21)),
           b = program_leaf(p, LK_SHAPE(21)), v = program_leaf(p, LK_SHAPE(2, 2, 9, 21)),
           u = program_leaf(p, LK_SHAPE(2, 2, 1, 21)), t = program_leaf(p, LK_SHAPE(3, 3, 9, 3));
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 2));
    ASSERT_OK(lk_conv(x, w, b, &same, y));
    ASSERT_OK(lk_conv(*y, u, LK_NO_VAR, &depth, y));
    ASSERT_OK(lk_conv_transpose(*y, v, LK_NO_VAR, &down, y));
    ASSERT_OK(lk_conv(*y, t, LK_NO_VAR, &wino, y));
}

TEST(the_bits_are_the_same_everywhere)
{
    test_same_bits_everywhere(several_layers);
}
