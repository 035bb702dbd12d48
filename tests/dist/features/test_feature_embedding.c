/* Embeddings whose rows or units are cut over ranks: any ranks, and lk_embedding() on one, have what plain
 * loops compute, bit by bit, -0 too. */
#include "feature_values.h"

struct embedding_case {
    lk_dtype dtype, index;
    int64_t samples, each, rows, units, shard; /* indices are [samples][each] */
    bool by_rows;
};

/* Operands and results as a whole. */
struct whole {
    void *table, *dy, *y, *dtable, *index;
};

static int64_t index_at(const struct embedding_case *k, const struct whole *v, int64_t i)
{
    return k->index == LK_I32 ? ((const int32_t *)v->index)[i] : ((const int64_t *)v->index)[i];
}

/* One element of the table's gradient: shards by the tree, each one chain over its positions. */
static double plain_gradient(const struct embedding_case *k, const struct whole *v, int64_t row,
                             int64_t unit)
{
    double shards[64];
    int64_t n = 0, all = k->samples * k->each, piece = k->shard * k->each;
    for (int64_t from = 0; from < all; from += piece) {
        shards[n] = 0;
        for (int64_t i = from; i < all && i < from + piece; i++)
            if (index_at(k, v, i) == row)
                shards[n] = real_add(k->dtype, shards[n],
                                     real_get(k->dtype, v->dy, i * k->units + unit));
        n++;
    }
    return lk__ref_tree(k->dtype, shards, n);
}

static struct whole whole_new(const struct embedding_case *k)
{
    int64_t n = k->samples * k->each;
    struct whole v = {real_new(k->dtype, k->rows * k->units, 1, true),
                      real_new(k->dtype, n * k->units, 2, true), array_new(k->dtype, n * k->units),
                      array_new(k->dtype, k->rows * k->units), calloc((size_t)n + 1, 8)};
    uint64_t state = 3;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = (int64_t)real_random(&state) % k->rows;
        if (k->index == LK_I32)
            ((int32_t *)v.index)[i] = (int32_t)row;
        else
            ((int64_t *)v.index)[i] = row;
        for (int64_t u = 0; u < k->units; u++)
            real_set(k->dtype, v.y, i * k->units + u,
                     real_get(k->dtype, v.table, row * k->units + u));
    }
    for (int64_t i = 0; i < k->rows * k->units; i++)
        real_set(k->dtype, v.dtable, i, plain_gradient(k, &v, i / k->units, i % k->units));
    return v;
}

static void whole_free(struct whole *v)
{
    free(v->table), free(v->dy), free(v->y), free(v->dtable), free(v->index);
}

static void case_run(const lk_feature_split *s, const struct embedding_case *k,
                     const struct whole *v)
{
    lk_dtype t = k->dtype;
    lk_range all = {0, k->units}, own = range_of(s, k->by_rows ? k->rows : k->units);
    int64_t outer = k->by_rows ? 1 : k->rows, cut = k->by_rows ? k->rows : k->units;
    int64_t inner = k->by_rows ? k->units : 1, n = k->samples * k->each;
    void *part = array_part(t, v->table, outer, cut, inner, own);
    void *gradient = array_new(t, outer * own.n * inner);
    lk_tape *tape;
    lk_var table, index, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(lk_leaf_data(tape, t,
                           k->by_rows ? LK_SHAPE(own.n, k->units) : LK_SHAPE(k->rows, own.n), part,
                           gradient, &table));
    leaf_postpone(s, table);
    ASSERT_OK(lk_constant_data(tape, k->index, LK_SHAPE(k->samples, k->each), v->index, &index));
    if (k->by_rows) {
        ASSERT_OK(lk_dist_feature_embedding(s, k->rows, table, index, "table", &y));
    } else {
        ASSERT_OK(lk_embedding(table, index, &y));
        ASSERT_OK(lk_dist_feature_gather(s, y, k->units, "embedded", &y));
    }
    assert_part_of(t, value_of(y), v->y, n, k->units, 1, all);
    backward_from(y, v->dy);
    assert_part_of(t, gradient, v->dtable, outer, cut, inner, own);
    lk_tape_free(tape);
    free(part), free(gradient);
}

static void on_all_cases(lk_comm *comm, bool by_rows)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 50};
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < 25; i++) {
            struct embedding_case k = {.dtype = i % 2 ? LK_F64 : LK_F32,
                                       .index = i % 3 ? LK_I64 : LK_I32,
                                       .samples = i % 8 == 7 ? 0 : 1 + i % 6,
                                       .each = 1 + i % 3,
                                       .rows = sizes[i % 5],
                                       .units = sizes[i / 5],
                                       .shard = 2,
                                       .by_rows = by_rows};
            struct whole v = whole_new(&k);
            case_run(ranks, &k, &v);
            case_run(one, &k, &v);
            whole_free(&v);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

RANKS_TEST(rows_over_ranks_have_the_bits_of_one_rank)
{
    on_all_cases(comm, true);
}

RANKS_TEST(units_over_ranks_have_the_bits_of_one_rank)
{
    on_all_cases(comm, false);
}

RANKS_TEST(indices_that_are_no_rows_are_refused)
{
    const int64_t beyond[] = {3, 8};
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    float zeros[64] = {0};
    lk_tape *tape;
    lk_var table, index, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(range_of(s, 8).n, 2), zeros, &table));
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(2), beyond, &index));
    ASSERT_FAILS(lk_dist_feature_embedding(s, 8, table, index, "t", &y), LK_EINVAL, "index");
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_dist_feature_embedding(s, 80, table, index, "t", &y), LK_ESHAPE,
                     "of 80 rows");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}
