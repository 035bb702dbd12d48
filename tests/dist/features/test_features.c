/* Feature splits and the nodes that go into and out of cut layers: who has what, the tree over blocks
 * against plain loops, and who is told of mistakes. */
#include "feature_values.h"

/* ---- who has what ---- */

RANKS_TEST(ranks_have_all_features_between_them)
{
    int size = lk_comm_size(comm);
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(size, kind);
        lk_feature_split *split = split_new(comm, rule);
        ASSERT_EQ(split->held.first, split->first[split->rank]);
        for (int64_t n = 0; n < 150; n++) {
            int64_t next = 0, block = plain_block(rule, n);
            ASSERT_EQ(lk_feature_is_cut(split, n), plain_blocks(rule, n) > 1);
            for (int r = 0; r < size; r++) {
                lk_range range = lk_feature_range(split, r, n);
                if (!lk_feature_is_cut(split, n)) {
                    ASSERT_TRUE(range.first == 0 && range.n == n);
                    continue;
                }
                ASSERT_EQ(range.first, next);
                ASSERT_TRUE(range.n == 0 || range.first % block == 0);
                next += range.n;
            }
            ASSERT_TRUE(next == n || !lk_feature_is_cut(split, n));
        }
        lk_feature_split_free(split);
    }
}

/* ---- sums over blocks ---- */

/* What one block says of element i; odd values among them, -0 in all blocks for some. */
static double block_value(lk_dtype t, int64_t block, int64_t i)
{
    float v;
    double x;
    uint64_t seed = (uint64_t)(block * 1000003 + i);
    if (i % 7 == 3)
        return -0.0;
    real_fill(LK_F32, &v, 1, seed, true);
    real_fill(LK_F64, &x, 1, seed, true);
    return t == LK_F32 ? (double)v : x;
}

/* The tree over the blocks from..to of element i. */
static double blocks_sum(lk_dtype t, int64_t from, int64_t to, int64_t i)
{
    double v[MOST_BLOCKS];
    for (int64_t b = from; b < to; b++)
        v[b - from] = block_value(t, b, i);
    return lk__ref_tree(t, v, to - from);
}

/* What this rank has of a sum over the blocks of an axis of `of`: garbage if it has none of them; the
 * whole sum if the axis is not cut. */
static void *partial_new(lk_dtype t, const lk_feature_split *split, struct cut_rule rule,
                         int64_t of, int64_t count)
{
    void *p = array_new(t, count);
    int64_t blocks = plain_blocks(rule, of), from = split->held.first, to = from + split->held.n;
    if (blocks == 1)
        from = 0, to = 1;
    to = to < blocks ? to : blocks;
    for (int64_t i = 0; i < count; i++)
        real_set(t, p, i, from < to ? blocks_sum(t, from, to, i) : (double)NAN);
    return p;
}

static void *sum_new(lk_dtype t, struct cut_rule rule, int64_t of, int64_t count)
{
    void *p = array_new(t, count);
    for (int64_t i = 0; i < count; i++)
        real_set(t, p, i, blocks_sum(t, 0, plain_blocks(rule, of), i));
    return p;
}

/* ---- the nodes ---- */

enum node { COPY, GATHER, GATHER_SUM, JOIN, NODES };

struct feature_case {
    enum node node;
    lk_dtype dtype;
    int64_t rows, n, of;
};

static lk_var node_apply(const lk_feature_split *split, const struct feature_case *k, lk_var x)
{
    lk_var y;
    switch (k->node) {
    case COPY: ASSERT_OK(lk_dist_feature_copy(split, x, k->of, "copy", &y)); break;
    case GATHER: ASSERT_OK(lk_dist_feature_gather(split, x, k->n, "gather", &y)); break;
    case GATHER_SUM:
        ASSERT_OK(lk_dist_feature_gather_sum(split, x, k->n, k->of, "gather_sum", &y));
        break;
    default: ASSERT_OK(lk_dist_feature_join(split, x, k->of, "join", &y)); break;
    }
    return y;
}

/* Operands of [rows][n] as the node takes and gives them. */
static void case_run(const lk_feature_split *split, struct cut_rule rule,
                     const struct feature_case *k)
{
    bool gathers = k->node == GATHER || k->node == GATHER_SUM;
    bool sums_back = k->node == COPY || k->node == GATHER_SUM;
    lk_range all = {0, k->n}, own = gathers ? range_of(split, k->n) : all;
    int64_t count = k->rows * k->n;
    void *whole = real_new(k->dtype, count, 5, true), *sum = sum_new(k->dtype, rule, k->of, count);
    void *partial = partial_new(k->dtype, split, rule, k->of, count);
    void *in = k->node == JOIN ? array_part(k->dtype, partial, k->rows, k->n, 1, all)
                               : array_part(k->dtype, whole, k->rows, k->n, 1, own);
    void *dx = array_new(k->dtype, k->rows * own.n);
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, k->dtype, LK_SHAPE(k->rows, own.n), in, dx, &x));
    y = node_apply(split, k, x);
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(k->rows, k->n)));
    assert_part_of(k->dtype, value_of(y), k->node == JOIN ? sum : whole, k->rows, k->n, 1, all);
    backward_from(y, sums_back ? partial : whole);
    /* a leaf's gradient is 0 + dx, which makes +0 of -0 */
    for (int64_t i = 0; i < count; i++) {
        real_set(k->dtype, sum, i, real_add(k->dtype, 0, real_get(k->dtype, sum, i)));
        real_set(k->dtype, whole, i, real_add(k->dtype, 0, real_get(k->dtype, whole, i)));
    }
    assert_part_of(k->dtype, dx, sums_back ? sum : whole, k->rows, k->n, 1, own);
    lk_tape_free(tape);
    free(whole), free(sum), free(partial), free(in), free(dx);
}

static void on_all_cases(lk_comm *comm, enum node node)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 50};
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *split = split_new(comm, rule);
        for (int i = 0; i < 25; i++) {
            struct feature_case k = {.node = node,
                                     .dtype = i % 2 ? LK_F64 : LK_F32,
                                     .rows = i % 4 == 3 ? 0 : 1 + i % 4,
                                     .n = sizes[i % 5],
                                     .of = sizes[i / 5]};
            case_run(split, rule, &k);
        }
        lk_feature_split_free(split);
    }
}

RANKS_TEST(copies_join_what_blocks_say_of_gradients)
{
    on_all_cases(comm, COPY);
}

RANKS_TEST(gathers_take_their_features_of_gradients)
{
    on_all_cases(comm, GATHER);
}

RANKS_TEST(gathers_join_what_blocks_say_of_gradients)
{
    on_all_cases(comm, GATHER_SUM);
}

RANKS_TEST(joins_add_by_the_tree_over_blocks)
{
    on_all_cases(comm, JOIN);
}

/* ---- mistakes and rehearsals ---- */

RANKS_TEST(what_one_rank_was_given_wrong_all_hear)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    bool last = rank == size - 1;
    lk_feature_split *s = NULL;
    ASSERT_FAILS(lk_feature_split_new(comm, rank, size, last ? size - 1 : size, 1, &s), LK_EINVAL,
                 "there must be at least as many blocks");
    ASSERT_TRUE(!s);
    ASSERT_FAILS(lk_feature_split_new(comm, rank, size, size, last ? 0 : 1, &s), LK_EINVAL,
                 "blocks of at least 0 features");
    ASSERT_FAILS(lk_feature_split_new(comm, rank, last ? size + 1 : size, 2 * size, 1, &s),
                 LK_EINVAL, "of the communicator");
    ASSERT_FAILS(lk_feature_split_new(comm, rank, size, size, 1, last ? NULL : &s), LK_EINVAL,
                 "out is NULL");
}

RANKS_TEST(values_that_are_not_what_a_rank_has_are_refused)
{
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1}), *alone;
    float x[16] = {0};
    lk_tape *tape;
    lk_var v, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(1, 16), x, &v));
    ASSERT_FAILS(lk_dist_feature_gather(NULL, v, 8, "x", &y), LK_EINVAL, "split is NULL");
    ASSERT_FAILS(lk_dist_feature_gather(s, v, 8, "x", NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_dist_feature_copy(s, LK_NO_VAR, 8, "x", &y), LK_EINVAL, "no value");
    ASSERT_FAILS(lk_dist_feature_copy(s, v, -8, "x", &y), LK_EINVAL, "an axis of -8 features");
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_dist_feature_gather(s, v, 8, "x", &y), LK_ESHAPE,
                     "x is f32[1,16], where this rank has");
    ASSERT_OK(lk_feature_split_new(NULL, 1, 3, 4, 1, &alone));
    ASSERT_FAILS(lk_dist_feature_join(alone, v, 8, "x", &y), LK_ESTATE, "without a communicator");
    lk_tape_free(tape);
    lk_feature_split_free(alone);
    lk_feature_split_free(s);
}

/* As any rank of four, without the others. */
RANKS_TEST(rehearsals_send_nothing)
{
    const float zeros[32] = {0};
    for (int rank = 0; rank < 4 && lk_comm_rank(comm) == 0; rank++) {
        lk_feature_split *s;
        ASSERT_OK(lk_feature_split_new(NULL, rank, 4, 8, 1, &s));
        s->rehearses = true;
        for (int node = 0; node < NODES; node++) {
            struct feature_case k = {.node = (enum node)node, .dtype = LK_F32, .n = 16, .of = 16};
            bool gathers = node == GATHER || node == GATHER_SUM;
            float in[32] = {0}, dx[32];
            lk_tape *tape;
            lk_var x, y;
            ASSERT_OK(lk_tape_new(&tape));
            ASSERT_OK(lk_leaf_data(tape, LK_F32, LK_SHAPE(2, gathers ? 4 : 16), in, dx, &x));
            y = node_apply(s, &k, x);
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 16)));
            ASSERT_SAME_BITS(value_of(y), zeros, sizeof zeros);
            backward_from(y, zeros);
            lk_tape_free(tape);
        }
        lk_feature_split_free(s);
    }
}
