/* local_conv, its transpose and the gradient of its weights against their definition. */
#include "conv_relation.h"
#include "faults.h"

struct local_case {
    lk_shape x, w;
    lk_conv_attr attr;
};

static const struct local_case cases[] = {
    {LK_DIMS(2, 5, 1), LK_DIMS(3, 3, 1, 1), {.groups = 0}},
    {LK_DIMS(3, 7, 2),
     LK_DIMS(4, 3, 2, 5),
     {.window.stride = {2}, .window.pad_lo = {1}, .window.pad_hi = {1}}},
    {LK_DIMS(1, 9, 4),
     LK_DIMS(2, 3, 4, 3),
     {.window.dilation = {3}, .window.stride = {2}, .groups = 1}},
    {LK_DIMS(2, 5, 4, 3),
     LK_DIMS(4, 2, 3, 2, 3, 4),
     {.window.stride = {1, 2}, .window.pad_lo = {1, 1}}},
    {LK_DIMS(2, 4, 4, 2),
     LK_DIMS(2, 2, 2, 3, 2, 1),
     {.window.stride = {2, 2}, .window.pad_hi = {0, 2}}},
    {LK_DIMS(2, 3, 2, 3, 2), LK_DIMS(3, 1, 2, 2, 2, 2, 2, 3), {.window.pad_lo = {1, 0, 0}}},
    {LK_DIMS(2, 1, 1), LK_DIMS(7, 2, 1, 1), {.window.pad_lo = {4}, .window.pad_hi = {3}}},
};

/* The shape of y, which local_conv makes of x. */
static lk_shape out_of(const struct local_case *k)
{
    lk_shape y = k->x;
    int ndim = k->x.ndim - 2;
    for (int d = 0; d < ndim; d++)
        y.dim[d + 1] = k->w.dim[d];
    y.dim[ndim + 1] = k->w.dim[2 * ndim + 1];
    return y;
}

static struct relation untied_relation(const struct local_case *k)
{
    struct relation r = relation_of(k->x, out_of(k), &k->w.dim[k->x.ndim - 2], &k->attr);
    r.untied = true;
    return r;
}

TEST(local_conv_agrees_with_its_definition)
{
    for (int i = 0; i < 2 * LK_COUNT(cases); i++) {
        const struct local_case *k = &cases[i / 2];
        struct program p = program_new(i % 2 ? LK_F32 : LK_F64, true);
        lk_var x = program_leaf(&p, k->x), w = program_leaf(&p, k->w), y;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, i % 3));
        ASSERT_OK(lk_local_conv(x, w, &k->attr, &y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), out_of(k)));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        struct relation r = untied_relation(k);
        double *dx = relation_zeros(p.value[0]), *dw = relation_zeros(p.value[1]),
               *sum = relation_zeros(p.seed);
        struct relation_sums values = {p.value[0], p.value[1], NULL, NULL, NULL, sum},
                             grads = {p.value[0], p.value[1], p.seed, dx, dw, NULL};
        relation_each(&r, relation_add, &values);
        relation_each(&r, relation_add, &grads);
        relation_expect("y", value_of(y), sum, NULL);
        relation_expect("dx", p.grad[0], dx, NULL);
        relation_expect("dw", p.grad[1], dw, NULL);
        program_free(&p);
    }
}

TEST(the_transpose_agrees_with_its_definition)
{
    for (int i = 0; i < 2 * LK_COUNT(cases); i++) {
        const struct local_case *k = &cases[i / 2];
        struct program p = program_new(i % 2 ? LK_F32 : LK_F64, true);
        lk_conv_attr a = k->attr;
        for (int d = 0; d < k->x.ndim - 2; d++) {
            int64_t stride = a.window.stride[d] ? a.window.stride[d] : 1;
            int64_t reach = (a.window.dilation[d] ? a.window.dilation[d] : 1) *
                            (k->w.dim[k->x.ndim - 2 + d] - 1);
            a.extra[d] = (k->x.dim[d + 1] + a.window.pad_lo[d] + a.window.pad_hi[d] - reach - 1) %
                         stride;
        }
        lk_var x = program_leaf(&p, out_of(k)), w = program_leaf(&p, k->w), y;
        ASSERT_OK(lk_local_conv_transpose(x, w, &a, &y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), k->x));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        struct relation r = untied_relation(k);
        double *dx = relation_zeros(p.value[0]), *dw = relation_zeros(p.value[1]),
               *sum = relation_zeros(p.seed);
        struct relation_sums values = {NULL, p.value[1], p.value[0], sum, NULL, NULL},
                             grads = {p.seed, p.value[1], p.value[0], NULL, dw, dx};
        relation_each(&r, relation_add, &values);
        relation_each(&r, relation_add, &grads);
        relation_expect("y", value_of(y), sum, NULL);
        relation_expect("dx", p.grad[0], dx, NULL);
        relation_expect("dw", p.grad[1], dw, NULL);
        program_free(&p);
    }
}

/* With the same filter everywhere, the chains are those of convolution. */
TEST(tied_filters_give_the_bits_of_conv)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1)) {
        struct program p = program_new(dtype, false), q = program_new(dtype, false);
        const lk_conv_attr a = {
            .window.stride = {2, 1}, .window.pad_lo = {1, 1}, .window.pad_hi = {1, 2}};
        lk_var x = program_leaf(&p, LK_SHAPE(3, 7, 6, 4)),
               w = program_leaf(&p, LK_SHAPE(3, 4, 4, 5)), y, u, z;
        lk_tensor *tied, *many;
        ASSERT_OK(lk_conv(x, w, LK_NO_VAR, &a, &y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(3, 4, 6, 5)));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        ASSERT_OK(lk_tensor_broadcast(p.value[1], LK_SHAPE(4, 6, 3, 4, 4, 5), &tied));
        ASSERT_OK(lk_tensor_clone(tied, dtype, &many));
        x = program_leaf(&q, LK_SHAPE(3, 7, 6, 4));
        u = program_own(&q, many);
        ASSERT_OK(lk_local_conv(x, u, &a, &z));
        program_backward(&q, z, LK_RETAIN_GRAPH);
        ASSERT_TRUE(lk_tensor_is_equal(value_of(y), value_of(z)));
        ASSERT_TRUE(lk_tensor_is_equal(p.grad[0], q.grad[0]));
        lk_tensor_free(tied);
        program_free(&p);
        program_free(&q);
    }
}

/* The gradient of w for samples [first, last) of a batch of 8, in pieces of 2. */
static lk_tensor *weights_grad(int64_t first, int64_t last)
{
    struct program p = program_new(LK_F32, false);
    lk_tensor *x = program_tensor(&p, LK_SHAPE(8, 6, 3), 1), *part,
              *seed = program_tensor(&p, LK_SHAPE(8, 5, 4), 2), *part_seed;
    ASSERT_OK(lk_tensor_slice(x, 0, first, last, 1, &part));
    ASSERT_OK(lk_tensor_slice(seed, 0, first, last, 1, &part_seed));
    lk_var v = program_own(&p, part),
           w = program_own(&p, program_tensor(&p, LK_SHAPE(5, 3, 3, 4), 3)), y;
    ASSERT_OK(lk_tape_set_shard_size(p.tape, 2));
    ASSERT_OK(lk_local_conv(v, w, &(lk_conv_attr){.window.pad_lo = {1}}, &y));
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
    lk_tensor *whole = weights_grad(0, 8), *low = weights_grad(0, 4), *high = weights_grad(4, 8);
    for (int64_t i = 0; i < lk_tensor_count(whole); i++)
        ASSERT_TRUE(real_add(LK_F32, tensor_at(low, i), tensor_at(high, i)) == tensor_at(whole, i));
    lk_tensor_free(whole);
    lk_tensor_free(low);
    lk_tensor_free(high);
}

TEST(empty_axes_work)
{
    struct program p = program_new(LK_F32, false);
    lk_var none = program_leaf(&p, LK_SHAPE(0, 4, 2)), w = program_leaf(&p, LK_SHAPE(3, 2, 2, 1)),
           x = program_leaf(&p, LK_SHAPE(2, 4, 0)), v = program_leaf(&p, LK_SHAPE(3, 2, 0, 1)), y;
    ASSERT_OK(lk_local_conv(none, w, NULL, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(0, 3, 1)));
    program_backward(&p, y, 0);
    for (int64_t i = 0; i < 12; i++)
        ASSERT_TRUE(tensor_at(p.grad[1], i) == 0);
    ASSERT_OK(lk_local_conv(x, v, NULL, &y));
    for (int64_t i = 0; i < 6; i++)
        ASSERT_TRUE(value_at(y, i) == 0);
    program_backward(&p, y, 0);
    program_free(&p);
}

TEST(what_does_not_fit_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 4, 3)), w = program_leaf(&p, LK_SHAPE(3, 2, 3, 1)),
           wrong = program_leaf(&p, LK_SHAPE(4, 2, 3, 1)),
           flat = program_leaf(&p, LK_SHAPE(2, 3, 1)), y;
    int64_t kernel = 2;
    ASSERT_FAILS(lk_local_conv(x, wrong, NULL, &y), LK_ESHAPE,
                 "local_conv of f32[2,4,3] with weights f32[4,2,3,1]: for this kernel they must be "
                 "[3,2,3,1]");
    ASSERT_FAILS(lk_local_conv(x, flat, NULL, &y), LK_ESHAPE,
                 "local_conv of f32[2,4,3] with weights f32[2,3,1]: they must be [1 axes");
    ASSERT_FAILS(lk_local_conv(x, w, &(lk_conv_attr){.groups = 3}, &y), LK_EINVAL,
                 "groups is 3, must be 1");
    ASSERT_FAILS(lk_local_conv(x, w, &(lk_conv_attr){.algorithm = LK_CONV_WINOGRAD}, &y), LK_EINVAL,
                 "algorithm is 1, must be direct");
    ASSERT_FAILS(lk_local_conv_transpose(x, w, NULL, &y), LK_ESHAPE,
                 "local_conv_transpose of f32[2,4,3] with weights f32[3,2,3,1]");
    ASSERT_FAILS(lk_local_conv_transpose(program_leaf(&p, LK_SHAPE(2, 0, 1)),
                                         program_leaf(&p, LK_SHAPE(0, 2, 3, 1)), NULL, &y),
                 LK_ESHAPE, "local_conv_transpose of f32[2,0,1]: spatial axis 0 is empty");
    ASSERT_FAILS(lk_local_conv_weights(x, x, NULL, &kernel, &y), LK_ESHAPE,
                 "local_conv_weights of f32[2,4,3] and f32[2,4,3]: no convolution");
    program_free(&p);
}

/* Filter, and reconstruct with the same weights: a layer of a sparse autoencoder. */
static lk_status autoencode(lk_tape *tape, lk_tensor *const *value, lk_tensor *const *grad)
{
    lk_status st;
    lk_var x, w, y;
    LK_TRY_TO(done, lk_constant(tape, value[0], &x));
    LK_TRY_TO(done, lk_leaf(tape, value[1], grad[1], &w));
    LK_TRY_TO(done, lk_local_conv(x, w, NULL, &y));
    LK_TRY_TO(done, lk_local_conv_transpose(y, w, NULL, &y));
    LK_TRY_TO(done, lk_mul(y, y, &y));
    LK_TRY_TO(done, lk_sum_to(y, LK_SCALAR, &y));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
done:
    lk_tape_reset(tape);
    return st;
}

static struct program shared;

static lk_status one_step(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    LK_TRY(lk_tape_new(&tape));
    LK_TRY_TO(done, autoencode(tape, shared.value, shared.grad));
done:
    lk_tape_free(tape);
    return st;
}

TEST(a_loop_allocates_nothing_after_its_first_step_and_survives_faults)
{
    shared = program_new(LK_F32, false);
    program_leaf(&shared, LK_SHAPE(4, 6, 5, 2));
    program_leaf(&shared, LK_SHAPE(4, 4, 3, 2, 2, 3));
    lk_tape_reset(shared.tape);
    ASSERT_OK(autoencode(shared.tape, shared.value, shared.grad));
    int64_t calls = lk_alloc_stats_now().calls;
    for (int i = 0; i < 4; i++)
        ASSERT_OK(autoencode(shared.tape, shared.value, shared.grad));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_TRUE(test_every_allocation_fails(one_step) > 3);
    program_free(&shared);
}

static void filter_and_reconstruct(struct program *p, lk_var *y)
{
    const lk_conv_attr a = {.window.pad_lo = {1, 0}, .window.pad_hi = {1, 0}};
    lk_var x = program_leaf(p, LK_SHAPE(17, 10, 9, 8)),
           w = program_leaf(p, LK_SHAPE(10, 7, 3, 3, 8, 9));
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 4));
    ASSERT_OK(lk_local_conv(x, w, &a, y));
    ASSERT_OK(lk_local_conv_transpose(*y, w, &a, y));
}

TEST(the_bits_are_the_same_everywhere)
{
    test_same_bits_everywhere(filter_and_reconstruct);
}
