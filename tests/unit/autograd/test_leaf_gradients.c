/* Gradients go straight into their leaves, with the bits of lk_grad()'s results added up by hand:
 * whatever a gradient held before, however often its leaf is used, and however it lies in memory. */
#include "faults.h"
#include "odd_op.h"
#include "real.h"

#include <lockstep/lockstep.h>

enum { ROWS = 38, COLS = 61, LEAVES = 3, MAX_PASSES = 2 };

/* From leaves [ROWS, COLS], the same, and [COLS]. */
typedef lk_status graph_fn(const lk_var *v, lk_var *y);

#define GRAPH(name, call)                                     \
    static lk_status graph_##name(const lk_var *v, lk_var *y) \
    {                                                         \
        LK_TRY(call);                                         \
        return LK_OK;                                         \
    }
#define UNARY(name) GRAPH(name, lk_##name(v[0], y))
#define BINARY(name) \
    GRAPH(name, lk_##name(v[0], v[1], y)) GRAPH(name##_row, lk_##name(v[0], v[2], y))

UNARY(relu)
UNARY(exp)
UNARY(log)
UNARY(sigmoid)
UNARY(tanh)
UNARY(gelu)
UNARY(sqrt)
UNARY(square)
UNARY(abs)
UNARY(erf)
UNARY(softplus)
UNARY(sin)
UNARY(cos)
UNARY(neg)
UNARY(copy)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(minimum)
BINARY(pow)
GRAPH(affine, lk_affine(v[0], -0.5, 3, y))
GRAPH(pow_scalar, lk_pow_scalar(v[0], 3, y))
GRAPH(clip, lk_clip(v[0], -0.5, 0.25, y))
GRAPH(elu, lk_elu(v[0], 1.5, y))
GRAPH(leaky_relu, lk_leaky_relu(v[0], 0.1, y))
GRAPH(where, lk_where(v[2], v[0], v[1], y))
GRAPH(softmax, lk_softmax(v[0], LK_LAST_AXIS, y))
GRAPH(softmax_columns, lk_softmax(v[0], 0, y))
GRAPH(softmax_far, lk_softmax(v[1], LK_LAST_AXIS, y))
GRAPH(log_softmax_far, lk_log_softmax(v[1], LK_LAST_AXIS, y))
GRAPH(log_softmax, lk_log_softmax(v[0], LK_LAST_AXIS, y))
GRAPH(layer_norm, lk_layer_norm(v[0], v[2], v[2], NULL, y))
GRAPH(layer_norm_far, lk_layer_norm(v[1], v[2], v[2], NULL, y))
GRAPH(layer_norm_of_gamma, lk_layer_norm(v[0], v[1], v[1], &(lk_layer_norm_attr){.axes = 2}, y))
GRAPH(batch_norm_inference, lk_batch_norm_inference(v[0], v[2], v[2], v[2], v[2], NULL, y))
GRAPH(squared, lk_mean_squared_error(v[0], v[1], LK_LOSS_MEAN, y))
GRAPH(squared_of_self, lk_sum_squared_error(v[0], v[0], LK_LOSS_NONE, y))
GRAPH(logistic, lk_logistic_cross_entropy(v[0], v[1], LK_LOSS_SUM, y))
GRAPH(entropy, lk_softmax_cross_entropy(v[0], v[1], LK_LOSS_MEAN, y))
GRAPH(sum, lk_sum(v[0], NULL, y))
GRAPH(sum_rows, lk_sum(v[0], LK_AXES(0), y))
GRAPH(sum_columns, lk_sum(v[0], LK_AXES(1), y))
GRAPH(mean, lk_mean(v[0], LK_AXES(1), y))
GRAPH(max, lk_max(v[0], LK_AXES(1), y))
GRAPH(norm, lk_norm(v[0], LK_AXES(1), y))
GRAPH(transpose, lk_transpose(v[0], 0, 1, y))
GRAPH(reshape, lk_reshape(v[0], LK_SHAPE((int64_t)ROWS *COLS), y))
GRAPH(slice, lk_slice(v[0], 1, 3, COLS, 2, y))
GRAPH(slice_columns, lk_slice(v[0], 1, 3, COLS - 2, 1, y))
GRAPH(slice_rows, lk_slice(v[0], 0, 0, 5, 1, y))
GRAPH(dropout, lk_dropout(v[0], &(lk_dropout_attr){.keep = 0.5}, y))
GRAPH(prod, lk_prod(v[0], LK_AXES(1), y))
GRAPH(broadcast, lk_broadcast(v[2], LK_SHAPE(ROWS, COLS), y))
GRAPH(pad, lk_pad(v[0], &(lk_pad_attr){.before = {2, 1}, .after = {0, 3}}, y))
GRAPH(concat_rows, lk_concat(v, 2, 0, y))
GRAPH(concat_columns, lk_concat(v, 2, 1, y))
GRAPH(stack, lk_stack(v, 2, 1, y))
GRAPH(concat_twice, lk_concat((lk_var[]){v[0], v[1], v[0]}, 3, 1, y))
GRAPH(square_by_mul, lk_mul(v[0], v[0], y))
GRAPH(linear, lk_matmul_trans(v[0], v[1], false, true, y))
GRAPH(bias, lk_bias(v[0], v[2], y))

static lk_status graph_targets(const lk_var *v, lk_var *y)
{
    lk_var t;
    LK_TRY(lk_stop_gradient(v[1], &t));
    return LK_TRACE(lk_sum_squared_error(v[0], t, LK_LOSS_SUM, y));
}

static lk_status graph_pool(const lk_var *v, lk_var *y)
{
    lk_pool_attr attr = {.window = {.kernel = {2}, .stride = {2}}};
    LK_TRY(lk_reshape(v[0], LK_SHAPE(1, ROWS, COLS), y));
    LK_TRY(lk_avg_pool(*y, &attr, y));
    return LK_TRACE(lk_max_pool(*y, &attr, y, NULL));
}

/* Rows by number, some twice. */
static lk_status graph_gather(const lk_var *v, lk_var *y)
{
    static const int64_t row[] = {1, 0, 2, 1};
    lk_var index;
    LK_TRY(lk_constant_data(v[0].tape, LK_I64, LK_SHAPE(4), row, &index));
    return LK_TRACE(lk_gather_index(v[0], 0, index, y));
}

/* Rows and columns of two matrices change places. */
static lk_status graph_permute(const lk_var *v, lk_var *y)
{
    LK_TRY(lk_reshape(v[0], LK_SHAPE(2, ROWS / 2, COLS), y));
    LK_TRY(lk_permute(*y, (int[]){0, 2, 1}, y));
    return LK_TRACE(lk_mul(*y, *y, y));
}

/* Leaves that are used in several nodes, of which a view is the last one. */
static lk_status graph_mixed(const lk_var *v, lk_var *y)
{
    lk_var a, b;
    LK_TRY(lk_transpose(v[1], 0, 1, &b));
    LK_TRY(lk_sum(v[0], LK_AXES(1), &a));
    LK_TRY(lk_mul(b, a, &b));
    LK_TRY(lk_transpose(b, 0, 1, &b));
    LK_TRY(lk_mul(b, v[0], &b));
    LK_TRY(lk_add(b, v[2], &b));
    LK_TRY(lk_relu(b, &b));
    return LK_TRACE(lk_mul(b, v[1], y));
}

#define ENTRY(name)         \
    {                       \
#        name, graph_##name \
    }

static const struct entry {
    const char *name;
    graph_fn *graph;
} entries[] = {
    ENTRY(relu),
    ENTRY(exp),
    ENTRY(log),
    ENTRY(sigmoid),
    ENTRY(tanh),
    ENTRY(gelu),
    ENTRY(sqrt),
    ENTRY(square),
    ENTRY(abs),
    ENTRY(erf),
    ENTRY(softplus),
    ENTRY(sin),
    ENTRY(cos),
    ENTRY(neg),
    ENTRY(copy),
    ENTRY(add),
    ENTRY(add_row),
    ENTRY(sub),
    ENTRY(sub_row),
    ENTRY(mul),
    ENTRY(mul_row),
    ENTRY(div),
    ENTRY(div_row),
    ENTRY(maximum),
    ENTRY(maximum_row),
    ENTRY(minimum),
    ENTRY(minimum_row),
    ENTRY(pow),
    ENTRY(pow_row),
    ENTRY(affine),
    ENTRY(pow_scalar),
    ENTRY(clip),
    ENTRY(elu),
    ENTRY(leaky_relu),
    ENTRY(where),
    ENTRY(softmax),
    ENTRY(log_softmax),
    ENTRY(layer_norm),
    ENTRY(layer_norm_far),
    ENTRY(layer_norm_of_gamma),
    ENTRY(batch_norm_inference),
    ENTRY(squared),
    ENTRY(squared_of_self),
    ENTRY(targets),
    ENTRY(logistic),
    ENTRY(entropy),
    ENTRY(sum),
    ENTRY(sum_rows),
    ENTRY(sum_columns),
    ENTRY(mean),
    ENTRY(max),
    ENTRY(gather),
    ENTRY(norm),
    ENTRY(transpose),
    ENTRY(reshape),
    ENTRY(slice),
    ENTRY(slice_columns),
    ENTRY(slice_rows),
    ENTRY(dropout),
    ENTRY(prod),
    ENTRY(broadcast),
    ENTRY(pad),
    ENTRY(concat_rows),
    ENTRY(stack),
    ENTRY(concat_twice),
    ENTRY(square_by_mul),
    ENTRY(linear),
    ENTRY(bias),
    ENTRY(pool),
    ENTRY(mixed),
    ENTRY(concat_columns),
    ENTRY(softmax_columns),
    ENTRY(softmax_far),
    ENTRY(log_softmax_far),
    ENTRY(permute),
};

/* What is varied. */
struct how {
    lk_dtype dtype;
    bool unset, gaps, again; /* gradients are not set; lie every other element; by lk_recompute() */
    bool halves;             /* leaves are postponed */
    unsigned flags;          /* of lk_backward(), which is called twice where it can be */
};

/* Leaves, their gradients, and what these were at first. */
struct nets {
    lk_tape *tape;
    lk_tensor *value[LEAVES], *wide[LEAVES], *grad[LEAVES], *start[LEAVES], *seed;
    lk_var v[LEAVES], y;
    graph_fn *graph;
};

/* With zeros of either sign, and values whose products are. */
static lk_tensor *tensor_make(lk_dtype dtype, lk_shape shape, uint64_t seed)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_fill(dtype, data, lk_tensor_count(t), seed, true);
    return t;
}

/* Some elements of the second leaf lie far apart, so that their exponentials are zeros. */
static void spread(lk_tensor *t)
{
    void *data = NULL;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i += 5)
        real_set(lk_tensor_dtype(t), data, i, 2000 * real_get(lk_tensor_dtype(t), data, i));
}

/* Every other element of a tensor, if there are to be gaps. */
static lk_tensor *with_gaps(struct how how, lk_shape shape, uint64_t seed)
{
    int last = shape.ndim - 1;
    if (!how.gaps || last < 0)
        return tensor_make(how.dtype, shape, seed);
    shape.dim[last] *= 2;
    lk_tensor *wide = tensor_make(how.dtype, shape, seed), *view = NULL;
    ASSERT_OK(lk_tensor_slice(wide, last, 0, shape.dim[last], 2, &view));
    lk_tensor_free(wide);
    return view;
}

static lk_tensor *dense(const lk_tensor *t)
{
    lk_tensor *copy = NULL;
    ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), &copy));
    return copy;
}

static lk_status run_again(lk_tape *tape, void *arg, lk_var *out)
{
    struct nets *n = arg;
    (void)tape;
    return LK_TRACE(n->graph(n->v, out));
}

/* Values, gradients and the graph on a tape. */
static lk_status nets_make(struct nets *n, struct how how, graph_fn *graph)
{
    *n = (struct nets){.graph = graph};
    ASSERT_OK(lk_tape_new(&n->tape));
    for (int i = 0; i < LEAVES; i++) {
        lk_shape shape = i == 2 ? LK_SHAPE(COLS) : LK_SHAPE(ROWS, COLS), twice = shape;
        int last = shape.ndim - 1;
        twice.dim[last] *= how.gaps ? 2 : 1;
        n->value[i] = tensor_make(how.dtype, shape, (uint64_t)i + 1);
        if (i == 1)
            spread(n->value[i]);
        n->wide[i] = tensor_make(how.dtype, twice, (uint64_t)i + 11);
        ASSERT_OK(
            lk_tensor_slice(n->wide[i], last, 0, twice.dim[last], how.gaps ? 2 : 1, &n->grad[i]));
        n->start[i] = dense(n->grad[i]);
        LK_TRY(
            (how.unset ? lk_leaf_overwrite : lk_leaf)(n->tape, n->value[i], n->grad[i], &n->v[i]));
        if (how.halves)
            LK_TRY(lk_leaf_postpone(n->v[i]));
    }
    if (how.again)
        LK_TRY(lk_recompute(n->tape, run_again, n, 1, &n->y));
    else
        LK_TRY(graph(n->v, &n->y));
    n->seed = with_gaps(how, lk_shape_of(n->y), 5);
    return LK_OK;
}

static void nets_free(struct nets *n)
{
    lk_tape_free(n->tape);
    for (int i = 0; i < LEAVES; i++) {
        lk_tensor_free(n->value[i]);
        lk_tensor_free(n->wide[i]);
        lk_tensor_free(n->grad[i]);
        lk_tensor_free(n->start[i]);
    }
    lk_tensor_free(n->seed);
}

/* sum = sum + g, element by element, unless g is zeros: the graph does not use the leaf. */
static void add_by_hand(lk_tensor *sum, const lk_tensor *g)
{
    lk_dtype dtype = lk_tensor_dtype(sum);
    int64_t n = lk_tensor_count(sum);
    lk_tensor *flat = dense(g), *zeros = NULL;
    const void *x = lk_tensor_data(flat);
    void *y = NULL;
    ASSERT_OK(lk_tensor_zeros(dtype, lk_tensor_shape(sum), &zeros));
    ASSERT_OK(lk_tensor_writable_data(sum, &y));
    bool used = memcmp(x, lk_tensor_data(zeros), (size_t)n * lk_dtype_size(dtype)) != 0;
    for (int64_t i = 0; used && i < n; i++)
        real_set(dtype, y, i, real_add(dtype, real_get(dtype, y, i), real_get(dtype, x, i)));
    lk_tensor_free(flat);
    lk_tensor_free(zeros);
}

/* What leaf gradients must be after backward with lk_grad()'s results, which go into n->start. */
static void expect_by_grad(const struct nets *n, struct how how, int passes)
{
    struct nets r;
    lk_var seed, g[LEAVES];
    ASSERT_OK(nets_make(&r, (struct how){.dtype = how.dtype, .again = how.again}, n->graph));
    ASSERT_OK(lk_constant(r.tape, n->seed, &seed));
    ASSERT_OK(lk_grad(r.tape, &r.y, &seed, 1, r.v, LEAVES, 0, g));
    for (int i = 0; i < LEAVES; i++) {
        const lk_tensor *t = NULL;
        ASSERT_OK(lk_value(g[i], &t));
        if (how.unset)
            ASSERT_OK(lk_tensor_fill_f64(n->start[i], 0));
        for (int k = 0; k < passes; k++)
            add_by_hand(n->start[i], t);
    }
    nets_free(&r);
}

/* The gradients are the ones expected, and what lies between their elements is as before. */
static void expect_gradients(const struct nets *n, struct how how, const char *name)
{
    for (int i = 0; i < LEAVES; i++) {
        lk_tensor *got = dense(n->grad[i]), *before = NULL;
        size_t size = lk_dtype_size(how.dtype);
        if (memcmp(lk_tensor_data(got), lk_tensor_data(n->start[i]),
                   (size_t)lk_tensor_count(got) * size) != 0)
            TEST_FAIL("%s, %s, unset %d, gaps %d, again %d, halves %d, flags %u: leaf %d differs",
                      name, lk_dtype_name(how.dtype), how.unset, how.gaps, how.again, how.halves,
                      how.flags, i);
        before = tensor_make(how.dtype, lk_tensor_shape(n->wide[i]), (uint64_t)i + 11);
        for (int64_t k = 1; how.gaps && k < lk_tensor_count(before); k += 2)
            ASSERT_SAME_BITS((const char *)lk_tensor_data(n->wide[i]) + (size_t)k * size,
                             (const char *)lk_tensor_data(before) + (size_t)k * size, size);
        lk_tensor_free(got);
        lk_tensor_free(before);
    }
}

static void compare(const struct entry *e, struct how how)
{
    struct nets n;
    ASSERT_OK(nets_make(&n, how, e->graph));
    int passes = how.flags == 0 ? 1 : MAX_PASSES;
    expect_by_grad(&n, how, passes);
    for (int k = 0; k < passes; k++) {
        ASSERT_OK(lk_backward(n.tape, &(lk_seed){n.y, n.seed}, 1, how.flags));
        ASSERT_OK(lk_backward_rest(n.tape));
    }
    expect_gradients(&n, how, e->name);
    nets_free(&n);
}

TEST(leaves_get_the_bits_of_plain_addition)
{
    const unsigned flags[] = {0, LK_RETAIN_GRAPH, LK_RECORD};
    for (int k = 0; k < LK_COUNT(entries); k++)
        for (int bits = 0; bits < 32; bits++)
            for (int f = 0; f < LK_COUNT(flags); f++)
                compare(&entries[k], (struct how){.dtype = bits & 1 ? LK_F64 : LK_F32,
                                                  .unset = bits & 2,
                                                  .gaps = bits & 4,
                                                  .again = bits & 8,
                                                  .halves = bits & 16,
                                                  .flags = flags[f]});
}

/* The seed lies in one tensor with a leaf's gradient, from row `row` on. */
static void seed_over_a_gradient(const struct entry *e, int leaf, int64_t row)
{
    struct how how = {.dtype = LK_F32};
    struct nets n;
    lk_tensor *both = tensor_make(LK_F32, LK_SHAPE((int64_t)2 * ROWS, COLS), 7), *seed = NULL;
    ASSERT_OK(nets_make(&n, how, e->graph));
    lk_tape_reset(n.tape);
    lk_tensor_free(n.grad[leaf]);
    lk_tensor_free(n.start[leaf]);
    ASSERT_OK(lk_tensor_slice(both, 0, 0, ROWS, 1, &n.grad[leaf]));
    n.start[leaf] = dense(n.grad[leaf]);
    for (int i = 0; i < LEAVES; i++)
        ASSERT_OK(lk_leaf(n.tape, n.value[i], n.grad[i], &n.v[i]));
    ASSERT_OK(e->graph(n.v, &n.y));
    ASSERT_OK(lk_tensor_slice(both, 0, row, row + ROWS, 1, &seed));
    ASSERT_OK(lk_tensor_copy(seed, n.seed));
    expect_by_grad(&n, how, 1);
    ASSERT_OK(lk_backward(n.tape, &(lk_seed){n.y, seed}, 1, 0));
    expect_gradients(&n, how, e->name);
    lk_tensor_free(seed);
    lk_tensor_free(both);
    nets_free(&n);
}

TEST(a_seed_may_share_elements_with_a_gradient)
{
    static const struct entry some[] = {ENTRY(mul), ENTRY(add), ENTRY(sub), ENTRY(relu)};
    for (int k = 0; k < LK_COUNT(some); k++)
        for (int leaf = 0; leaf < 2; leaf++)
            for (int64_t row = 0; row <= ROWS; row += row == 1 ? ROWS - 1 : 1)
                seed_over_a_gradient(&some[k], leaf, row);
}

TEST(leaves_that_share_a_gradient_add_in_the_order_of_inputs)
{
    static const struct entry some[] = {ENTRY(mul), ENTRY(sub),     ENTRY(div),
                                        ENTRY(pow), ENTRY(maximum), ENTRY(concat_rows)};
    for (int k = 0; k < LK_COUNT(some); k++) {
        struct how how = {.dtype = LK_F32};
        struct nets n, r;
        lk_var seed, g[2];
        ASSERT_OK(nets_make(&n, how, some[k].graph));
        lk_tape_reset(n.tape);
        for (int i = 0; i < LEAVES; i++)
            ASSERT_OK(lk_leaf(n.tape, n.value[i], i == 2 ? NULL : n.grad[0], &n.v[i]));
        ASSERT_OK(n.graph(n.v, &n.y));
        ASSERT_OK(lk_backward(n.tape, &(lk_seed){n.y, n.seed}, 1, 0));
        ASSERT_OK(nets_make(&r, how, some[k].graph));
        ASSERT_OK(lk_constant(r.tape, n.seed, &seed));
        ASSERT_OK(lk_grad(r.tape, &r.y, &seed, 1, r.v, 2, 0, g));
        for (int i = 0; i < 2; i++) {
            const lk_tensor *t = NULL;
            ASSERT_OK(lk_value(g[i], &t));
            add_by_hand(n.start[0], t);
        }
        const float *got = lk_tensor_data(n.grad[0]), *want = lk_tensor_data(n.start[0]);
        for (int64_t i = 0; i < lk_tensor_count(n.start[0]); i++) /* of two NaN either may stay */
            if (!real_same((double)got[i], (double)want[i]))
                TEST_FAIL("%s: element %lld is %g, not %g", some[k].name, (long long)i,
                          (double)got[i], (double)want[i]);
        nets_free(&r);
        nets_free(&n);
    }
}

TEST(a_constant_may_share_elements_with_a_gradient)
{
    for (int k = 0; k < 4; k++) {
        int64_t row = k / 2,
                at = row * COLS; /* where the gradient begins; the constant in the other */
        lk_tape *tape = NULL;
        lk_tensor *both = tensor_make(LK_F64, LK_SHAPE(ROWS + 1, COLS), 3), *old = dense(both);
        lk_tensor *x = tensor_make(LK_F64, LK_SHAPE(ROWS, COLS), 1), *grad, *c, *seed = dense(x);
        lk_var in[2], y;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tensor_slice(both, 0, row, row + ROWS, 1, &grad));
        ASSERT_OK(lk_tensor_slice(both, 0, 1 - row, 1 - row + ROWS, 1, &c));
        ASSERT_OK(lk_leaf(tape, x, grad, &in[0]));
        ASSERT_OK(lk_constant(tape, c, &in[1]));
        ASSERT_OK(k % 2 ? lk_apply(tape, &odd_op, in, 2, NULL, &y) : lk_mul(in[0], in[1], &y));
        ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
        const double *was = lk_tensor_data(old), *is = lk_tensor_data(both);
        const double *s = lk_tensor_data(seed);
        for (int64_t i = 0; i < (int64_t)ROWS * COLS; i++) {
            double factor = was[i + COLS - at];
            double want = was[i + at] + (k % 2 ? factor : s[i] * factor);
            ASSERT_SAME_BITS(&is[i + at], &want, sizeof want);
        }
        lk_tape_free(tape);
        lk_tensor *const all[] = {both, old, x, grad, c, seed};
        for (int i = 0; i < LK_COUNT(all); i++)
            lk_tensor_free(all[i]);
    }
}

/* What the tape holds at most is the output: neither the seed nor a gradient is written to it. */
TEST(nothing_of_a_gradient_is_written_to_the_tape)
{
    static const struct entry some[] = {ENTRY(relu),    ENTRY(exp),           ENTRY(mul),
                                        ENTRY(add),     ENTRY(sub),           ENTRY(sum_columns),
                                        ENTRY(sum),     ENTRY(mean),          ENTRY(concat_columns),
                                        ENTRY(clip),    ENTRY(sigmoid),       ENTRY(copy),
                                        ENTRY(softmax), ENTRY(log_softmax),   ENTRY(pad),
                                        ENTRY(slice),   ENTRY(slice_columns), ENTRY(dropout)};
    for (int k = 0; k < LK_COUNT(some); k++) {
        struct nets n;
        ASSERT_OK(nets_make(&n, (struct how){.dtype = LK_F64, .unset = true}, some[k].graph));
        int64_t before = lk_tape_stats_of(n.tape).live_bytes;
        ASSERT_OK(lk_backward(n.tape, &(lk_seed){n.y, n.seed}, 1, LK_RETAIN_GRAPH));
        if (lk_tape_stats_of(n.tape).peak_bytes > before + (int64_t)ROWS * COLS)
            TEST_FAIL("%s: %lld bytes, and %lld while backward ran", some[k].name,
                      (long long)before, (long long)lk_tape_stats_of(n.tape).peak_bytes);
        nets_free(&n);
    }
}

TEST(a_gradient_beside_its_value_is_no_change_of_the_value)
{
    static const struct entry some[] = {ENTRY(square), ENTRY(sum_rows), ENTRY(transpose)};
    for (int k = 0; k < 2 * LK_COUNT(some); k++) {
        lk_tape *tape = NULL;
        lk_tensor *both = tensor_make(LK_F64, LK_SHAPE(2, ROWS, COLS), 3), *value, *grad, *seed;
        lk_var v, y;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tensor_select(both, 0, 0, &value));
        ASSERT_OK(lk_tensor_select(both, 0, 1, &grad));
        ASSERT_OK((k % 2 ? lk_leaf_overwrite : lk_leaf)(tape, value, grad, &v));
        ASSERT_OK(some[k / 2].graph(&v, &y));
        seed = tensor_make(LK_F64, lk_shape_of(y), 5);
        ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, LK_RETAIN_GRAPH));
        ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
        lk_tape_free(tape);
        lk_tensor *const all[] = {both, value, grad, seed};
        for (int i = 0; i < LK_COUNT(all); i++)
            lk_tensor_free(all[i]);
    }
}

static struct nets kept; /* its tensors, for the scenario below */

static lk_status every_graph(void)
{
    lk_status st = LK_OK;
    lk_tape *tape = NULL;
    LK_TRY_TO(done, lk_tape_new(&tape));
    for (int k = 0; st == LK_OK && k < LK_COUNT(entries); k++) {
        lk_var v[LEAVES], y, sum;
        for (int i = 0; i < LEAVES; i++)
            LK_TRY_TO(done, (k % 2 ? lk_leaf_overwrite : lk_leaf)(tape, kept.value[i], kept.grad[i],
                                                                  &v[i]));
        LK_TRY_TO(done, entries[k].graph(v, &y));
        LK_TRY_TO(done, lk_sum(y, NULL, &sum));
        LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = sum}, 1, LK_RETAIN_GRAPH));
        if (lk_shape_is_equal(lk_shape_of(y), lk_tensor_shape(kept.seed)))
            LK_TRY_TO(done, lk_backward(tape, &(lk_seed){y, kept.seed}, 1, 0));
        lk_tape_reset(tape);
    }
done:
    lk_tape_free(tape);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_OK(nets_make(&kept, (struct how){.dtype = LK_F64}, graph_relu));
    ASSERT_TRUE(test_every_allocation_fails(every_graph) > 5);
    nets_free(&kept);
}
