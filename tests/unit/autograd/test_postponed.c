/* Backward in two halves gives what backward in one gives: gradients by memcmp, hooks in their order; and
 * nothing of a postponed leaf is written before the second half. */
#include "real.h"

#include <lockstep/lockstep.h>

enum { LEAVES = 5, MAX_HOOKS = 2 * LEAVES };

/* Leaf 0 is x, which is not postponed; the others are parameters. */
typedef lk_status graph_fn(const lk_var *v, lk_var *y);

#define GRAPH(name, call)                                     \
    static lk_status graph_##name(const lk_var *v, lk_var *y) \
    {                                                         \
        LK_TRY(call);                                         \
        return LK_OK;                                         \
    }

static const lk_conv_attr padded = {.window = {.pad_lo = {1, 1}, .pad_hi = {1, 1}}};
static const lk_conv_attr strided = {.window = {.stride = {2}, .pad_lo = {1}}, .extra = {1}};
static const lk_conv_attr winograd = {.window = {.pad_lo = {1, 1}, .pad_hi = {1, 1}},
                                      .algorithm = LK_CONV_WINOGRAD};
static const lk_conv_attr local = {.window = {.stride = {2}}};

GRAPH(linear, lk_linear(v[0], v[1], v[2], y))
GRAPH(linear_relu, lk_linear_relu(v[0], v[1], v[2], y))
GRAPH(linear_of_rows, lk_linear(v[0], v[1], v[2], y))
GRAPH(conv, lk_conv(v[0], v[1], v[2], &padded, y))
GRAPH(conv_relu, lk_conv_relu(v[0], v[1], v[2], &padded, y))
GRAPH(winograd, lk_conv(v[0], v[1], v[2], &winograd, y))
GRAPH(conv_transpose, lk_conv_transpose(v[0], v[1], v[2], &strided, y))
GRAPH(local_conv, lk_local_conv(v[0], v[1], &local, y))
GRAPH(local_conv_transpose, lk_local_conv_transpose(v[0], v[1], &local, y))
GRAPH(bias, lk_bias(v[0], v[1], y))
GRAPH(matmul, lk_matmul(v[0], v[1], y))
GRAPH(matmul_left, lk_matmul(v[1], v[0], y))
GRAPH(matmul_trans, lk_matmul_trans(v[0], v[1], false, true, y))
GRAPH(matmul_broadcast, lk_matmul(v[1], v[0], y))
GRAPH(batch_norm, lk_batch_norm(v[0], v[1], v[2], NULL, y, NULL, NULL))
GRAPH(layer_norm, lk_layer_norm(v[0], v[1], v[2], NULL, y))
GRAPH(only_a_postponed_one, lk_linear(v[1], v[1], LK_NO_VAR, y))

static lk_status graph_embedding(const lk_var *v, lk_var *y)
{
    static const int64_t number[] = {3, 0, 3, 1, 2, 3, 0};
    lk_var index;
    LK_TRY(lk_constant_data(v[0].tape, LK_I64, LK_SHAPE(7), number, &index));
    LK_TRY(lk_embedding(v[1], index, y));
    return LK_TRACE(lk_mul(*y, v[0], y));
}

static lk_status graph_rnn(const lk_var *v, lk_var *y)
{
    lk_var last;
    LK_TRY(lk_linear(v[0], v[1], v[2], y));
    return LK_TRACE(lk_rnn(*y, v[3], v[4], NULL, y, &last));
}

static lk_status graph_gru(const lk_var *v, lk_var *y)
{
    lk_var last;
    return LK_TRACE(lk_gru(v[0], v[1], v[2], v[3], NULL, y, &last));
}

static lk_status graph_lstm(const lk_var *v, lk_var *y)
{
    lk_var last[2];
    return LK_TRACE(lk_lstm(v[0], v[1], v[2], v[3], NULL, y, last));
}

/* A weight with three uses by one op, and a bias with three. */
static lk_status graph_three_uses(const lk_var *v, lk_var *y)
{
    *y = v[0];
    for (int i = 0; i < 3; i++) {
        LK_TRY(lk_linear(*y, v[1], v[2], y));
        LK_TRY(lk_tanh(*y, y));
    }
    return LK_OK;
}

/* Parts of either kind in turn: values (a transpose, a sum), and ops; and twice in one call. */
static lk_status graph_mixed_uses(const lk_var *v, lk_var *y)
{
    lk_var t;
    LK_TRY(lk_add(v[0], v[1], y));
    LK_TRY(lk_linear(*y, v[1], v[2], y));
    LK_TRY(lk_transpose(v[1], 0, 1, &t));
    LK_TRY(lk_mul(*y, t, y));
    LK_TRY(lk_linear(*y, v[1], v[2], y));
    LK_TRY(lk_matmul(v[1], v[1], &t));
    LK_TRY(lk_mul(*y, t, y));
    return LK_TRACE(lk_add(*y, v[2], y));
}

/* Layers with and without weights; two leaves whose first use leads away from the loss, and one of no use. */
static lk_status graph_net(const lk_var *v, lk_var *y)
{
    lk_var away;
    LK_TRY(lk_linear(v[0], v[2], LK_NO_VAR, &away));
    LK_TRY(lk_linear(away, v[3], LK_NO_VAR, &away));
    LK_TRY(lk_conv_relu(v[0], v[1], LK_NO_VAR, &(lk_conv_attr){.groups = 1}, y));
    LK_TRY(lk_avg_pool(*y, &(lk_pool_attr){.window = {.kernel = {2}, .stride = {2}}}, y));
    LK_TRY(lk_linear_relu(*y, v[2], LK_NO_VAR, y));
    return LK_TRACE(lk_linear(*y, v[3], LK_NO_VAR, y));
}

static const struct entry {
    const char *name;
    graph_fn *graph;
    int64_t piece; /* samples */
    int n;
    lk_shape shape[LEAVES];
} entries[] = {
#define ENTRY(name, ...)                 \
    {                                    \
#        name, graph_##name, __VA_ARGS__ \
    }
#define S(...) LK_DIMS(__VA_ARGS__)
    ENTRY(linear, 2, 3, {S(5, 7), S(7, 3), S(3)}),
    ENTRY(linear_relu, 2, 3, {S(5, 7), S(7, 3), S(3)}),
    ENTRY(linear_of_rows, 0, 3, {S(4, 6, 7), S(7, 3), S(3)}),
    ENTRY(conv, 2, 3, {S(5, 6, 7, 3), S(3, 3, 3, 4), S(4)}),
    ENTRY(conv_relu, 0, 3, {S(5, 6, 7, 3), S(3, 3, 3, 4), S(4)}),
    ENTRY(winograd, 1, 3, {S(3, 6, 7, 3), S(3, 3, 3, 4), S(4)}),
    ENTRY(conv_transpose, 2, 3, {S(5, 6, 4), S(3, 2, 4), S(2)}),
    ENTRY(local_conv, 2, 2, {S(5, 7, 2), S(3, 3, 2, 4)}),
    ENTRY(local_conv_transpose, 2, 2, {S(5, 3, 4), S(3, 3, 2, 4)}),
    ENTRY(bias, 2, 2, {S(5, 6, 7), S(7)}),
    ENTRY(matmul, 2, 2, {S(5, 7), S(7, 3)}),
    ENTRY(matmul_left, 0, 2, {S(7, 5), S(3, 7)}),
    ENTRY(matmul_trans, 2, 2, {S(5, 7), S(3, 7)}),
    ENTRY(matmul_broadcast, 0, 2, {S(4, 7, 5), S(3, 7)}),
    ENTRY(batch_norm, 2, 3, {S(5, 6, 7), S(7), S(7)}),
    ENTRY(layer_norm, 2, 3, {S(5, 6, 7), S(7), S(7)}),
    ENTRY(only_a_postponed_one, 2, 2, {S(1), S(7, 7)}),
    ENTRY(embedding, 2, 2, {S(7, 5), S(4, 5)}),
    ENTRY(rnn, 2, 5, {S(5, 3, 7), S(7, 4), S(4), S(4, 4), S(5, 4)}),
    ENTRY(gru, 2, 4, {S(5, 3, 12), S(4, 12), S(5, 4), S(4)}),
    ENTRY(lstm, 2, 4, {S(5, 3, 16), S(4, 16), S(5, 4), S(5, 4)}),
    ENTRY(three_uses, 2, 3, {S(5, 7), S(7, 7), S(7)}),
    ENTRY(mixed_uses, 2, 3, {S(7, 7), S(7, 7), S(7)}),
    ENTRY(net, 2, 5, {S(5, 8, 3), S(3, 3, 3), S(3, 4), S(4, 6), S(2)}),
};

struct how {
    lk_dtype dtype;
    bool overwrite, again, late; /* in a segment of lk_recompute(); gradients are named late */
    unsigned flags;
};

/* What a run gives. */
struct result {
    lk_tensor *grad[LEAVES];
    int n_hooks, hook[MAX_HOOKS]; /* leaves */
};

struct run {
    const struct entry *entry;
    lk_tape *tape;
    lk_tensor *value[LEAVES], *seed;
    lk_var v[LEAVES], y;
    struct result *result;
};

static lk_tensor *tensor_make(lk_dtype dtype, lk_shape shape, uint64_t seed)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_fill(dtype, data, lk_tensor_count(t), seed, false);
    return t;
}

static bool same(const lk_tensor *a, const lk_tensor *b)
{
    size_t bytes = (size_t)lk_tensor_count(a) * lk_dtype_size(lk_tensor_dtype(a));
    return memcmp(lk_tensor_data(a), lk_tensor_data(b), bytes) == 0;
}

static lk_status hook(void *arg, const lk_tensor *grad)
{
    struct result *r = ((struct run *)arg)->result;
    for (int i = 0; i < LEAVES; i++)
        if (grad == r->grad[i])
            r->hook[r->n_hooks++] = i;
    return LK_OK;
}

static lk_status segment(lk_tape *tape, void *arg, lk_var *out)
{
    struct run *r = arg;
    (void)tape;
    return LK_TRACE(r->entry->graph(r->v, out));
}

/* Leaves, whose gradients hold something, and the graph. */
static void run_begin(struct run *r, const struct entry *e, struct how how, bool halves,
                      struct result *result)
{
    *r = (struct run){.entry = e, .result = result};
    ASSERT_OK(lk_tape_new(&r->tape));
    ASSERT_OK(lk_tape_set_shard_size(r->tape, e->piece));
    lk_tape_set_grad_hook(r->tape, hook, r);
    for (int i = 0; i < e->n; i++) {
        r->value[i] = tensor_make(how.dtype, e->shape[i], (uint64_t)i + 1);
        result->grad[i] = tensor_make(how.dtype, e->shape[i], (uint64_t)i + 11);
        bool late = how.late && halves && i > 0;
        ASSERT_OK((how.overwrite ? lk_leaf_overwrite : lk_leaf)(
            r->tape, r->value[i], late ? NULL : result->grad[i], &r->v[i]));
        if (halves && i > 0)
            ASSERT_OK(lk_leaf_postpone(r->v[i]));
    }
    if (how.again)
        ASSERT_OK(lk_recompute(r->tape, segment, r, 1, &r->y));
    else
        ASSERT_OK(e->graph(r->v, &r->y));
    r->seed = tensor_make(how.dtype, lk_shape_of(r->y), 5);
}

/* The first half is over: of parameters nothing was written, nor told. */
static void between(const struct run *r, struct how how)
{
    for (int i = 1; i < r->entry->n; i++) {
        lk_tensor *before = tensor_make(how.dtype, r->entry->shape[i], (uint64_t)i + 11);
        ASSERT_TRUE(same(before, r->result->grad[i]));
        lk_tensor_free(before);
    }
    for (int k = 0; k < r->result->n_hooks; k++)
        ASSERT_EQ(r->result->hook[k], 0);
}

static void run_through(const struct entry *e, struct how how, bool halves, struct result *result)
{
    struct run r;
    run_begin(&r, e, how, halves, result);
    for (int pass = 0; pass < (how.flags ? 2 : 1); pass++) {
        ASSERT_OK(lk_backward(r.tape, &(lk_seed){r.y, r.seed}, 1, how.flags));
        if (halves && pass == 0)
            between(&r, how);
        for (int i = 1; how.late && halves && pass == 0 && i < e->n; i++)
            ASSERT_OK(lk_leaf_set_grad(r.v[i], result->grad[i], how.overwrite));
        ASSERT_OK(lk_tape_set_shard_size(r.tape, 3)); /* for what comes next, not for the rest */
        ASSERT_OK(lk_backward_rest(r.tape));
        ASSERT_EQ(lk_tape_shard_size(r.tape), 3);
    }
    ASSERT_OK(lk_backward_rest(r.tape)); /* nothing is left */
    lk_tape_free(r.tape);
    for (int i = 0; i < e->n; i++)
        lk_tensor_free(r.value[i]);
    lk_tensor_free(r.seed);
}

/* Leaves of which there was news, but x, which the halves have first. */
static int parameters_told(const struct result *r, int *leaf)
{
    int n = 0;
    for (int k = 0; k < r->n_hooks; k++)
        if (r->hook[k] > 0)
            leaf[n++] = r->hook[k];
    return n;
}

static void compare(const struct entry *e, struct how how)
{
    struct result one = {.n_hooks = 0}, two = {.n_hooks = 0};
    int told[2][MAX_HOOKS];
    run_through(e, how, false, &one);
    run_through(e, how, true, &two);
    for (int i = 0; i < e->n; i++) {
        if (!same(one.grad[i], two.grad[i]))
            TEST_FAIL("%s, %s, overwrite %d, again %d, late %d, flags %u: leaf %d differs", e->name,
                      lk_dtype_name(how.dtype), how.overwrite, how.again, how.late, how.flags, i);
        lk_tensor_free(one.grad[i]);
        lk_tensor_free(two.grad[i]);
    }
    int n = parameters_told(&one, told[0]);
    ASSERT_EQ(one.n_hooks, two.n_hooks);
    ASSERT_EQ(parameters_told(&two, told[1]), n);
    ASSERT_SAME_BITS(told[0], told[1], (size_t)n * sizeof told[0][0]);
}

TEST(two_halves_give_the_bits_of_one)
{
    for (int k = 0; k < LK_COUNT(entries); k++)
        for (int bits = 0; bits < 32; bits++)
            compare(&entries[k], (struct how){.dtype = bits & 1 ? LK_F64 : LK_F32,
                                              .overwrite = bits & 2,
                                              .again = bits & 4,
                                              .late = bits & 8,
                                              .flags = bits & 16 ? LK_RETAIN_GRAPH : 0});
}
