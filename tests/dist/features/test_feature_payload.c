/* What nodes on split features send, forward and backward: the calls, with the elements, that each must
 * make and no others, and of each the bytes that the formula of its algorithm gives.
 *
 * Started with LK_LOCAL_NODES, each rank is on a node of its own and all goes by messages.
 */
#include "feature_values.h"
#include "made_calls.h"

enum { ROWS = 6, SAMPLES = ROWS / 2, CALLS = 8 };

/* What a call is of: the elements that all ranks give or get together; and whether something is computed
 * meanwhile. */
struct want {
    lk_comm_call call;
    int64_t elements;
    bool hidden;
};

static int64_t elements_of(const formula_call *c)
{
    int64_t sum = 0;
    if (c->call == LK_CALL_ALLREDUCE)
        return c->count;
    for (int r = 0; r < c->size; r++)
        sum += c->gets[r];
    return sum;
}

static void calls_are(lk_comm *comm, const char *what, const struct want *want)
{
    sent_bytes got;
    int n = made_end(comm, &got), k = 0;
    int64_t sent = 0;
    for (; want[k].elements > 0; k++) {
        if (k >= n || made[k].as.call != want[k].call ||
            elements_of(&made[k].as) != want[k].elements)
            TEST_FAIL("%s: call %d of %d is %s of %lld elements, not %s of %lld", what, k, n,
                      k < n ? lk_comm_call_name(made[k].as.call) : "missing",
                      k < n ? (long long)elements_of(&made[k].as) : 0,
                      lk_comm_call_name(want[k].call), (long long)want[k].elements);
        if (made[k].started != want[k].hidden)
            TEST_FAIL("%s: %s is %s", what, lk_comm_call_name(want[k].call),
                      want[k].hidden ? "waited for at once" : "not waited for at once");
        if (!made_as_formula(&made[k]))
            TEST_FAIL("%s: %s %s sent %lld bytes, by its formula %lld", what,
                      lk_comm_call_name(want[k].call), made[k].as.algorithm,
                      (long long)made[k].sent, (long long)formula_bytes(&made[k].as, true, false));
        sent += made[k].sent;
    }
    if (n != k || sent != got.all)
        TEST_FAIL("%s: %d calls, where there should be %d; %lld bytes, of them %lld by calls", what,
                  n, k, (long long)got.all, (long long)sent);
}

/* A net of nodes: from x to y, as one rank does it. */
struct net {
    const char *name;
    int64_t x;  /* features of x, the last axis */
    bool split; /* of which a rank has its own */
    lk_var (*run)(const lk_feature_split *split, lk_tape *tape, lk_var x);
    struct want ahead[CALLS], back[CALLS];
};

static lk_var leaf_new(lk_tape *tape, lk_shape shape)
{
    static _Thread_local float values[40000], gradients[40000];
    int64_t n = 0;
    lk_var v;
    ASSERT_OK(lk_shape_count(shape, &n));
    ASSERT_TRUE(n <= 40000);
    ASSERT_OK(lk_leaf_data(tape, LK_F32, shape, values, gradients, &v));
    return v;
}

static void net_check(lk_comm *comm, const lk_feature_split *split, const struct net *net)
{
    float *dy = NULL;
    int64_t n = 0;
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    lk_var x = leaf_new(tape, LK_SHAPE(ROWS, net->split ? range_of(split, net->x).n : net->x)), y;
    made_begin(comm);
    y = net->run(split, tape, x);
    calls_are(comm, net->name, net->ahead);
    ASSERT_OK(lk_shape_count(lk_shape_of(y), &n));
    dy = array_new(LK_F32, n);
    made_begin(comm);
    backward_from(y, dy);
    calls_are(comm, net->name, net->back);
    free(dy);
    lk_tape_free(tape);
}

/* ---- nodes ---- */

enum { N = 40, OF = 70 };

static lk_var copy_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    (void)tape;
    ASSERT_OK(lk_dist_feature_copy(split, x, OF, "copy", &x));
    return x;
}

static lk_var gather_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    (void)tape;
    ASSERT_OK(lk_dist_feature_gather(split, x, N, "gather", &x));
    return x;
}

static lk_var gather_sum_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    (void)tape;
    ASSERT_OK(lk_dist_feature_gather_sum(split, x, N, OF, "gather_sum", &x));
    return x;
}

static lk_var join_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    (void)tape;
    ASSERT_OK(lk_dist_feature_join(split, x, OF, "join", &x));
    return x;
}

static lk_var linear_run(const lk_feature_split *split, lk_tape *tape, lk_var x,
                         lk_feature_linear_attr a)
{
    bool out = a.cut == LK_FEATURE_OUT;
    int64_t units = out ? range_of(split, a.units).n : a.units;
    lk_var w = leaf_new(tape, LK_SHAPE(out ? a.in : range_of(split, a.in).n, units)), b, y;
    b = leaf_new(tape, LK_SHAPE(units));
    ASSERT_OK(lk_dist_feature_linear(split, &a, x, w, b, "linear", &y));
    return y;
}

static lk_var out_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    return linear_run(split, tape, x, (lk_feature_linear_attr){.in = N, .units = OF});
}

static lk_var scattered_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    return linear_run(split, tape, x,
                      (lk_feature_linear_attr){.sum = LK_FEATURE_SCATTERED, .in = N, .units = OF});
}

static lk_var in_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    return linear_run(split, tape, x,
                      (lk_feature_linear_attr){.cut = LK_FEATURE_IN, .in = N, .units = OF});
}

static lk_var embedding_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    static const int64_t places[] = {0, 5, 1, 3, 3};
    lk_var table = leaf_new(tape, LK_SHAPE(range_of(split, OF).n, N)), index, y;
    (void)x;
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(5), places, &index));
    ASSERT_OK(lk_dist_feature_embedding(split, OF, table, index, "table", &y));
    return y;
}

static lk_var cross_entropy_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    static const int64_t labels[ROWS] = {0, 5, 1, 39, 3, 20};
    lk_var label, y;
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(ROWS), labels, &label));
    ASSERT_OK(lk_dist_feature_cross_entropy(split, N, x, label, LK_LOSS_MEAN, "loss", &y));
    return y;
}

/* ROWS samples of one position. */
static lk_var conv_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    lk_feature_conv_attr a = {.channels = N, .filters = OF};
    lk_var w = leaf_new(tape, LK_SHAPE(1, N, range_of(split, OF).n)), y;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(ROWS, 1, N), &x));
    ASSERT_OK(lk_dist_feature_conv(split, &a, x, w, LK_NO_VAR, "conv", &y));
    return y;
}

/* A group for each channel: blocks have whole groups, and nothing is to be sent. */
static lk_var depthwise_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    lk_feature_conv_attr a = {.conv.groups = N, .channels = N, .filters = N};
    int64_t own = range_of(split, N).n;
    lk_var w = leaf_new(tape, LK_SHAPE(1, 1, own)), y;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(ROWS, 1, own), &x));
    ASSERT_OK(lk_dist_feature_conv(split, &a, x, w, LK_NO_VAR, "conv", &y));
    return y;
}

/* ROWS rows are samples of two times. */
static lk_var recurrent_run(const lk_feature_split *split, lk_tape *tape, lk_var x,
                            lk_feature_recurrent_attr a, bool state)
{
    int64_t own = range_of(split, OF).n, wide = 4 * own;
    lk_var p[] = {leaf_new(tape, LK_SHAPE(N, wide)), leaf_new(tape, LK_SHAPE(OF, wide)),
                  leaf_new(tape, LK_SHAPE(wide))};
    lk_var before[] = {leaf_new(tape, LK_SHAPE(SAMPLES, own)),
                       leaf_new(tape, LK_SHAPE(SAMPLES, own))},
           y;
    a.cell = LK_FEATURE_LSTM;
    a.in = N;
    a.units = OF;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(SAMPLES, 2, lk_shape_of(x).dim[1]), &x));
    ASSERT_OK(lk_dist_feature_recurrent(split, &a, x, p, state ? before : NULL, "lstm", &y, NULL));
    return y;
}

static lk_var from_zeros_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    return recurrent_run(split, tape, x, (lk_feature_recurrent_attr){0}, false);
}

static lk_var from_state_run(const lk_feature_split *split, lk_tape *tape, lk_var x)
{
    return recurrent_run(split, tape, x, (lk_feature_recurrent_attr){.sum = LK_FEATURE_SCATTERED},
                         true);
}

#define CALL(what, n)                           \
    {                                           \
        .call = LK_CALL_##what, .elements = (n) \
    }
#define HIDDEN(what, n)                                         \
    {                                                           \
        .call = LK_CALL_##what, .elements = (n), .hidden = true \
    }

static const struct net nets[] = {
    {"copy", N, false, copy_run, {{0}}, {CALL(ALLREDUCE, ROWS *N)}},
    {"gather", N, true, gather_run, {CALL(ALLGATHER, ROWS *N)}, {{0}}},
    {"gather_sum",
     N,
     true,
     gather_sum_run,
     {CALL(ALLGATHER, ROWS *N)},
     {CALL(REDUCE_SCATTER, ROWS *N)}},
    {"join", N, false, join_run, {CALL(ALLREDUCE, ROWS *N)}, {{0}}},
    {"linear", N, false, out_run, {{0}}, {HIDDEN(ALLREDUCE, ROWS *N)}},
    {"linear of cut inputs",
     N,
     true,
     scattered_run,
     {CALL(ALLGATHER, ROWS *N)},
     {HIDDEN(REDUCE_SCATTER, ROWS *N)}},
    {"embedding by rows", N, false, embedding_run, {CALL(ALLREDUCE, 5 * N)}, {{0}}},
    {"conv", N, false, conv_run, {{0}}, {HIDDEN(ALLREDUCE, ROWS *N)}},
    {"conv of groups", N, true, depthwise_run, {{0}}, {{0}}},
    {"lstm from zeros",
     N,
     false,
     from_zeros_run,
     {CALL(ALLGATHER, SAMPLES *OF)},
     {CALL(REDUCE_SCATTER, SAMPLES *OF), HIDDEN(ALLREDUCE, ROWS *N)}},
    {"lstm of cut inputs, from a state",
     N,
     true,
     from_state_run,
     {CALL(ALLGATHER, ROWS *N), CALL(ALLGATHER, SAMPLES *OF), CALL(ALLGATHER, SAMPLES *OF)},
     {CALL(REDUCE_SCATTER, SAMPLES *OF), CALL(REDUCE_SCATTER, SAMPLES *OF),
      HIDDEN(REDUCE_SCATTER, ROWS *N)}},
    {"cross entropy",
     N,
     true,
     cross_entropy_run,
     {CALL(ALLREDUCE, ROWS), CALL(ALLREDUCE, ROWS), CALL(ALLREDUCE, ROWS)},
     {{0}}},
    {"linear cut in", N, true, in_run, {CALL(ALLREDUCE, ROWS *OF)}, {{0}}},
};

RANKS_TEST(nodes_send_what_they_say)
{
    for (int kind = 0; kind < CUT_RULES && lk_comm_size(comm) > 1; kind++) {
        lk_feature_split *split = split_new(comm, cut_rule_of(lk_comm_size(comm), kind));
        for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
            net_check(comm, split, &nets[i]);
        lk_feature_split_free(split);
    }
}

/* One rank, and axes of one block: all have all. */
RANKS_TEST(what_is_not_cut_sends_nothing)
{
    lk_feature_split *alone = split_new(NULL, (struct cut_rule){8, 1});
    lk_feature_split *whole = split_new(comm, (struct cut_rule){MOST_BLOCKS, 80});
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        struct net quiet = nets[i];
        memset(quiet.ahead, 0, sizeof quiet.ahead);
        memset(quiet.back, 0, sizeof quiet.back);
        net_check(comm, alone, &quiet);
        net_check(comm, whole, &quiet);
    }
    lk_feature_split_free(alone);
    lk_feature_split_free(whole);
}
