/* Recurrent layers for tests of those whose units are cut: a case, its operands and results as a whole, and
 * what must come out.
 */
#ifndef LK_TEST_FEATURE_RECURRENTS_H
#define LK_TEST_FEATURE_RECURRENTS_H

#include "feature_values.h"

enum way { JOINED, SCATTERED, BEHIND_COPY, WAYS };

struct recurrent_case {
    enum way way;
    lk_feature_cell cell;
    lk_dtype dtype;
    int64_t samples, times, in, units, shard;
    bool bias, odd, reverse, state, dy,
        last; /* state: one is given; dy, last: gradients that are */
};

/* Operands and results as a whole, [...][units] but for x and dx. */
enum { X, W, U, B, M, H0, C0, DY, DH, DC, INPUTS };
enum { Y = INPUTS, H, C, DX, DW, DU, DB, DM, DH0, DC0, ARRAYS }; /* DX + i: the gradient of i */

struct whole {
    void *at[ARRAYS];
};

static inline int64_t gates_of(const struct recurrent_case *k)
{
    return lk_recurrence_gates((lk_cell)k->cell); /* of the same order */
}

static inline int64_t rows_of(const struct recurrent_case *k)
{
    return k->samples * k->times;
}

/* Rows of array `i`, whose last axis is cut. */
static inline int64_t outer_of(const struct recurrent_case *k, int i)
{
    switch (i) {
    case X:
    case DX:
    case DY:
    case Y: return rows_of(k);
    case W:
    case DW: return k->in * gates_of(k);
    case U:
    case DU: return k->units * gates_of(k);
    case B:
    case DB: return gates_of(k);
    case M:
    case DM: return 1;
    default: return k->samples;
    }
}

static inline int64_t last_of(const struct recurrent_case *k, int i)
{
    return i == X || i == DX ? k->in : k->units;
}

static inline void whole_free(struct whole *v)
{
    for (int i = 0; i < ARRAYS; i++)
        free(v->at[i]);
}

/* ---- what must come out ---- */

/* What passes at each time: x w + b, what the cell keeps, h' before, and gradients of x w + b and h' u. */
struct passing {
    void *xw, *kept, *before, *dxw, *ds;
};

/* c [m][n] of a [m][k] or, transposed, [k][m], by pieces of k. */
static inline void plain_product(const struct recurrent_case *k, lk_gemm g, const void *a,
                                 const void *b, const void *bias, void *c)
{
    g.dtype = k->dtype;
    g.lda = g.trans_a ? g.m : g.k;
    g.ldb = g.trans_b ? g.k : g.n;
    g.ldc = g.n;
    lk__ref_gemm(&g, a, b, bias, c, NULL);
}

static inline void plain_cells(const struct recurrent_case *k, const struct whole *v,
                               struct cut_rule rule, const struct passing *t)
{
    /* Where units are cut, what is not there is zeros. */
    const bool cut = plain_blocks(rule, k->units) > 1;
    void *none = cut ? array_new(k->dtype, (rows_of(k) + k->samples) * k->units) : NULL;
    const lk_recurrence r = {.dtype = k->dtype,
                             .cell = (lk_cell)k->cell,
                             .reverse = k->reverse,
                             .forget = 1,
                             .samples = k->samples,
                             .times = k->times,
                             .units = k->units,
                             .piece = plain_block(rule, k->units)};
    const lk_recurrence_values values = {.x = t->xw,
                                         .u = v->at[U],
                                         .bias = v->at[M],
                                         .h0 = v->at[H0],
                                         .c0 = v->at[C0],
                                         .y = v->at[Y],
                                         .h = v->at[H],
                                         .c = v->at[C],
                                         .kept = t->kept};
    lk__ref_recurrence_forward(&r, &values);
    lk__ref_recurrence_backward(&r, &values,
                                &(lk_recurrence_grads){.dy = k->dy ? v->at[DY] : none,
                                                       .dh = k->last ? v->at[DH] : none,
                                                       .dc = k->last ? v->at[DC] : none,
                                                       .dx = t->dxw,
                                                       .ds = t->ds,
                                                       .before = t->before,
                                                       .dh0 = v->at[DH0],
                                                       .dc0 = v->at[DC0]});
    free(none);
}

/* Rows [gates][units] with the blocks of units outermost: [blocks][gates][units of the block]. */
static inline void *by_block(const struct recurrent_case *k, struct cut_rule rule, const void *from,
                             int64_t rows)
{
    const int64_t u = k->units, gates = gates_of(k), size = plain_block(rule, u);
    void *to = array_new(k->dtype, rows * gates * u);
    int64_t at = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t block = 0; block < u; block += size)
            for (int64_t i = 0; i < gates; i++)
                for (int64_t j = block; j < u && j < block + size; j++)
                    real_set(k->dtype, to, at++,
                             real_get(k->dtype, from, (row * gates + i) * u + j));
    return to;
}

static inline void plain_weights(const struct recurrent_case *k, const struct whole *v,
                                 struct cut_rule rule, const struct passing *t)
{
    const bool gru = k->cell == LK_FEATURE_GRU;
    const void *ds = gru ? t->ds : t->dxw;
    const int64_t u = k->units, wide = gates_of(k) * u, rows = rows_of(k),
                  shard = k->shard * k->times, block = gates_of(k) * plain_block(rule, u);
    void *dxw = by_block(k, rule, t->dxw, rows), *w = by_block(k, rule, v->at[W], k->in);
    void *sums = array_new(k->dtype, wide);
    plain_product(k, (lk_gemm){.trans_b = true, .m = rows, .n = k->in, .k = wide, .piece = block},
                  dxw, w, NULL, v->at[DX]);
    plain_product(k, (lk_gemm){.trans_a = true, .m = k->in, .n = wide, .k = rows, .piece = shard},
                  v->at[X], t->dxw, NULL, v->at[DW]);
    plain_product(k, (lk_gemm){.trans_a = true, .m = u, .n = wide, .k = rows, .piece = shard},
                  t->before, ds, NULL, v->at[DU]);
    plain_rows(k->dtype, rows, wide, shard, t->dxw, v->at[DB]);
    plain_rows(k->dtype, rows, wide, shard, ds, sums);
    for (int64_t j = 0; gru && j < u; j++)
        real_set(k->dtype, v->at[DM], j, real_get(k->dtype, sums, 2 * u + j));
    free(dxw), free(w), free(sums);
}

static inline struct whole whole_new(const struct recurrent_case *k, struct cut_rule rule)
{
    struct whole v;
    const int64_t wide = gates_of(k) * k->units, rows = rows_of(k);
    for (int i = 0; i < ARRAYS; i++) {
        int64_t n = outer_of(k, i) * last_of(k, i);
        bool zeros = i >= INPUTS || ((i == H0 || i == C0) && !k->state);
        v.at[i] = zeros ? array_new(k->dtype, n)
                        : real_new(k->dtype, n, (uint64_t)i + 1, k->odd && i != DY);
    }
    struct passing t = {
        .xw = array_new(k->dtype, rows * wide),
        .kept = array_new(k->dtype, rows * lk_recurrence_kept((lk_cell)k->cell, k->units)),
        .before = array_new(k->dtype, rows * k->units),
        .dxw = array_new(k->dtype, rows * wide),
        .ds = array_new(k->dtype, rows * wide)};
    plain_product(k, (lk_gemm){.m = rows, .n = wide, .k = k->in}, v.at[X], v.at[W],
                  k->bias ? v.at[B] : NULL, t.xw);
    plain_cells(k, &v, rule, &t);
    plain_weights(k, &v, rule, &t);
    for (int i = DX; i < ARRAYS; i++)
        plain_leaf(k->dtype, outer_of(k, i) * last_of(k, i), v.at[i]);
    free(t.xw), free(t.kept), free(t.before), free(t.dxw), free(t.ds);
    return v;
}

#endif /* LK_TEST_FEATURE_RECURRENTS_H */
