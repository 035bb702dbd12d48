/* Arrays whose features are cut over ranks, for tests: whole operands, what a rank has of them, and blocks
 * as a plain program has them.
 */
#ifndef LK_TEST_FEATURE_VALUES_H
#define LK_TEST_FEATURE_VALUES_H

#include "kernel/reference/reference.h"
#include "ranks.h"
#include "real.h"

#include <lockstep/lockstep.h>

enum { MOST_BLOCKS = 16 };

/* How a run is cut. */
struct cut_rule {
    int64_t blocks, least;
};

/* As many blocks as ranks and more, powers of two and not, small and not. */
enum { CUT_RULES = 4 };

static inline struct cut_rule cut_rule_of(int size, int kind)
{
    const struct cut_rule rules[CUT_RULES] = {
        {size, 1}, {size < 4 ? 4 : 8, 2}, {size < 6 ? 6 : 12, 3}, {MOST_BLOCKS, 16}};
    return rules[kind];
}

/* ---- blocks, plainly ---- */

/* Features of a block. */
static inline int64_t plain_block(struct cut_rule rule, int64_t n)
{
    int64_t unit = rule.least < 16 ? rule.least : 16, size = unit;
    while (size * rule.blocks < n)
        size += unit;
    return size > rule.least ? size : rule.least;
}

/* Blocks that have features; one: the axis is not cut. */
static inline int64_t plain_blocks(struct cut_rule rule, int64_t n)
{
    int64_t size = plain_block(rule, n), blocks = 0;
    while (blocks * size < n)
        blocks++;
    return blocks;
}

/* ---- arrays ---- */

static inline void *array_new(lk_dtype dtype, int64_t n)
{
    void *p = calloc((size_t)n + 1, lk_dtype_size(dtype));
    ASSERT_TRUE(p);
    return p;
}

/* A range of the middle axis of [outer][n][inner], dense. */
static inline void *array_part(lk_dtype dtype, const void *whole, int64_t outer, int64_t n,
                               int64_t inner, lk_range range)
{
    size_t elem = lk_dtype_size(dtype);
    char *part = array_new(dtype, outer * range.n * inner);
    for (int64_t o = 0; o < outer; o++)
        memcpy(part + (size_t)(o * range.n * inner) * elem,
               (const char *)whole + (size_t)((o * n + range.first) * inner) * elem,
               (size_t)(range.n * inner) * elem);
    return part;
}

/* The gradient of n elements z, from that of y = act(z) and from y. */
static inline void *plain_dz(lk_dtype t, lk_act act, int64_t n, const void *dy, const void *y)
{
    void *dz = array_new(t, n);
    for (int64_t i = 0; i < n; i++) {
        double d = real_get(t, dy, i), v = real_get(t, y, i);
        if (act == LK_ACT_RELU)
            d = v > 0 ? d : 0;
        if (act == LK_ACT_SIGMOID)
            d = real_mul(t, d, real_mul(t, v, real_sub(t, 1, v)));
        if (act == LK_ACT_TANH)
            d = real_mul(t, d, real_sub(t, 1, real_mul(t, v, v)));
        real_set(t, dz, i, d);
    }
    return dz;
}

/* The gradient of a leaf is 0 + what backward gives. */
static inline void plain_leaf(lk_dtype t, int64_t n, void *grad)
{
    for (int64_t i = 0; i < n; i++)
        real_set(t, grad, i, real_add(t, 0, real_get(t, grad, i)));
}

/* The sums of `rows` of n elements, by shards of so many rows. */
static inline void plain_rows(lk_dtype t, int64_t rows, int64_t n, int64_t shard, const void *x,
                              void *sum)
{
    lk__ref_reduce_axis(t, LK_REDUCE_AXIS_SUM, &(lk_reduce_axis_shape){1, rows, n, shard}, x, sum,
                        NULL);
}

/* An array is this part of the whole, bit by bit; where NaN are allowed, any NaN is one. */
static inline void assert_part_of(lk_dtype dtype, const void *got, const void *whole, int64_t outer,
                                  int64_t n, int64_t inner, lk_range range)
{
    void *want = array_part(dtype, whole, outer, n, inner, range);
    for (int64_t i = 0; i < outer * range.n * inner; i++)
        if (!real_same(real_get(dtype, got, i), real_get(dtype, want, i)))
            TEST_FAIL("element %lld of %lld is %.9g, not %.9g", (long long)i,
                      (long long)(outer * range.n * inner), real_get(dtype, got, i),
                      real_get(dtype, want, i));
    free(want);
}

static inline const void *value_of(lk_var v)
{
    const lk_tensor *t;
    ASSERT_OK(lk_value(v, &t));
    ASSERT_TRUE(lk_tensor_is_contiguous(t));
    return lk_tensor_data(t);
}

/* Some ranks leave the gradient of a leaf to the rest of backward, which therefore sends nothing. */
static inline void leaf_postpone(const lk_feature_split *split, lk_var leaf)
{
    if (split && split->rank % 2)
        ASSERT_OK(lk_leaf_postpone(leaf));
}

/* Backward from y with the gradient dy, an array as y is. */
static inline void backward_from(lk_var y, const void *dy)
{
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(lk_dtype_of(y), lk_shape_of(y), &t));
    memcpy((void *)(uintptr_t)lk_tensor_data(t), dy,
           (size_t)lk_tensor_count(t) * lk_dtype_size(lk_dtype_of(y)));
    ASSERT_OK(lk_backward(y.tape, &(lk_seed){y, t}, 1, 0));
    ASSERT_OK(lk_backward_rest(y.tape));
    lk_tensor_free(t);
}

/* The split of these ranks; `comm` NULL: one rank that has all. */
static inline lk_feature_split *split_new(lk_comm *comm, struct cut_rule rule)
{
    lk_feature_split *split;
    ASSERT_OK(lk_feature_split_new(comm, comm ? lk_comm_rank(comm) : 0,
                                   comm ? lk_comm_size(comm) : 1, rule.blocks, rule.least, &split));
    return split;
}

static inline lk_range range_of(const lk_feature_split *split, int64_t n)
{
    return lk_feature_range(split, split->rank, n);
}

/* Case i of a kind of cases: values by `rule`, and the nodes of these splits. */
typedef void feature_case_fn(int kind, int i, struct cut_rule rule,
                             const lk_feature_split *const *split, int n_splits);

/* n cases by every rule, on the ranks and on one that has all. */
static inline void on_all_rules(lk_comm *comm, feature_case_fn *check, int kind, int n)
{
    for (int r = 0; r < CUT_RULES; r++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), r);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < n; i++)
            check(kind, i, rule, (const lk_feature_split *const[]){ranks, one}, 2);
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

/* n cases of one block: with the op that knows no split, too. */
static inline void on_one_block(lk_comm *comm, feature_case_fn *check, int kind, int n)
{
    const struct cut_rule rule = {1, 1}, wide = {MOST_BLOCKS, 64};
    lk_feature_split *one = split_new(NULL, rule), *ranks = split_new(comm, wide);
    for (int i = 0; i < n; i++)
        check(kind, i, rule, (const lk_feature_split *const[]){NULL, one, ranks}, 3);
    lk_feature_split_free(one);
    lk_feature_split_free(ranks);
}

#endif /* LK_TEST_FEATURE_VALUES_H */
