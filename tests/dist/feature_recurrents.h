/* Recurrent layers as plain loops, for tests of those whose units are cut: a case, its operands and results as a
 * whole, and what must come out.
 */
#ifndef LK_TEST_FEATURE_RECURRENTS_H
#define LK_TEST_FEATURE_RECURRENTS_H

#include "feature_values.h"

enum way { JOINED, SCATTERED, BEHIND_COPY, WAYS };

enum { MOST_GATES = 4, KEPT = 6 };

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
    /* of each row and unit, in the dtype: x w + b, gates, h' before, gradients of x w + b and of h' u */
    double *xw, *kept, *before, *dxw, *ds;
};

static inline int64_t gates_of(const struct recurrent_case *k)
{
    static const int64_t gates[] = {
        [LK_FEATURE_RNN] = 1, [LK_FEATURE_GRU] = 3, [LK_FEATURE_LSTM] = 4};
    return gates[k->cell];
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
    free(v->xw), free(v->kept), free(v->before), free(v->dxw), free(v->ds);
}

/* ---- plain loops ---- */

static inline double at(const struct recurrent_case *k, const struct whole *v, int array, int64_t i)
{
    return real_get(k->dtype, v->at[array], i);
}

static inline double add(const struct recurrent_case *k, double a, double b)
{
    return real_add(k->dtype, a, b);
}

static inline double mul(const struct recurrent_case *k, double a, double b)
{
    return k->dtype == LK_F32 ? (double)((float)a * (float)b) : a * b;
}

static inline double sigmoid(const struct recurrent_case *k, double x)
{
    return plain_act(k->dtype, LK_ACT_SIGMOID, x);
}

static inline double hyperbolic(const struct recurrent_case *k, double x)
{
    return plain_act(k->dtype, LK_ACT_TANH, x);
}

/* g y (1 - y) and g (1 - y y). */
static inline double by_sigmoid(const struct recurrent_case *k, double g, double y)
{
    return mul(k, g, mul(k, y, add(k, 1, -y)));
}

static inline double by_tanh(const struct recurrent_case *k, double g, double y)
{
    return mul(k, g, add(k, 1, -mul(k, y, y)));
}

static inline int64_t row_of(const struct recurrent_case *k, int64_t sample, int64_t n)
{
    return sample * k->times + (k->reverse ? k->times - 1 - n : n);
}

/* Unit j behind a time: *h and *c become the state. */
static inline void plain_cell(const struct recurrent_case *k, const struct whole *v, int64_t row,
                              const double *s, int64_t j, double *h, double *c)
{
    const double *x = v->xw + row * gates_of(k) * k->units;
    const int64_t u = k->units;
    double *a = v->kept + (row * u + j) * KEPT;
    switch (k->cell) {
    case LK_FEATURE_RNN: *h = a[0] = hyperbolic(k, add(k, x[j], s[j])); break;
    case LK_FEATURE_GRU:
        a[0] = sigmoid(k, add(k, x[j], s[j]));
        a[1] = sigmoid(k, add(k, x[u + j], s[u + j]));
        a[3] = add(k, s[2 * u + j], at(k, v, M, j));
        a[2] = hyperbolic(k, add(k, x[2 * u + j], mul(k, a[0], a[3])));
        *h = add(k, a[2], mul(k, a[1], add(k, *h, -a[2])));
        break;
    default:
        a[5] = *c;
        a[0] = sigmoid(k, add(k, x[j], s[j]));
        a[1] = sigmoid(k, add(k, add(k, x[u + j], s[u + j]), 1));
        a[2] = hyperbolic(k, add(k, x[2 * u + j], s[2 * u + j]));
        a[3] = sigmoid(k, add(k, x[3 * u + j], s[3 * u + j]));
        *c = add(k, mul(k, a[1], *c), mul(k, a[0], a[2]));
        a[4] = hyperbolic(k, *c);
        *h = mul(k, a[3], a[4]);
        break;
    }
}

static inline void plain_forward(const struct recurrent_case *k, const struct whole *v,
                                 int64_t sample)
{
    const int64_t u = k->units, wide = gates_of(k) * u;
    double h[64] = {0}, c[64] = {0}, s[MOST_GATES * 64] = {0};
    for (int64_t j = 0; j < u; j++) {
        h[j] = at(k, v, H0, sample * u + j);
        c[j] = at(k, v, C0, sample * u + j);
    }
    for (int64_t n = 0; n < k->times; n++) {
        const int64_t row = row_of(k, sample, n);
        memcpy(v->before + row * u, h, (size_t)u * sizeof *h);
        for (int64_t j = 0; j < wide; j++) {
            double *x = &v->xw[row * wide + j];
            *x = k->bias ? at(k, v, B, j) : 0;
            for (int64_t i = 0; i < k->in; i++)
                *x = real_fma(k->dtype, at(k, v, X, row * k->in + i), at(k, v, W, i * wide + j),
                              *x);
            s[j] = 0;
            for (int64_t i = 0; i < u; i++)
                s[j] = real_fma(k->dtype, h[i], at(k, v, U, i * wide + j), s[j]);
        }
        for (int64_t j = 0; j < u; j++) {
            plain_cell(k, v, row, s, j, &h[j], &c[j]);
            real_set(k->dtype, v->at[Y], row * u + j, h[j]);
        }
    }
    for (int64_t j = 0; j < u; j++) {
        real_set(k->dtype, v->at[H], sample * u + j, h[j]);
        real_set(k->dtype, v->at[C], sample * u + j, c[j]);
    }
}

/* Gradients of x w + b and h' u of unit j; *d becomes what h' gets but by h' u, *dc that of c'. */
static inline void plain_back(const struct recurrent_case *k, const struct whole *v, int64_t row,
                              int64_t j, bool first, double *d, double *dc)
{
    const int64_t u = k->units, wide = gates_of(k) * u;
    const double *a = v->kept + (row * u + j) * KEPT;
    double g[MOST_GATES] = {0}, n_s = 0, e = 0;
    if (k->cell == LK_FEATURE_RNN) {
        g[0] = by_tanh(k, *d, a[0]);
    } else if (k->cell == LK_FEATURE_GRU) {
        e = mul(k, *d, a[1]);
        g[2] = by_tanh(k, add(k, *d, -e), a[2]);
        g[0] = by_sigmoid(k, mul(k, g[2], a[3]), a[0]);
        g[1] = by_sigmoid(k, mul(k, *d, add(k, v->before[row * u + j], -a[2])), a[1]);
        n_s = mul(k, g[2], a[0]);
    } else {
        double through = by_tanh(k, mul(k, *d, a[3]), a[4]);
        through = first ? through : add(k, *dc, through);
        g[0] = by_sigmoid(k, mul(k, through, a[2]), a[0]);
        g[1] = by_sigmoid(k, mul(k, through, a[5]), a[1]);
        g[2] = by_tanh(k, mul(k, through, a[0]), a[2]);
        g[3] = by_sigmoid(k, mul(k, *d, a[4]), a[3]);
        *dc = mul(k, through, a[1]);
    }
    for (int64_t i = 0; i < gates_of(k); i++) {
        v->dxw[row * wide + i * u + j] = add(k, 0, g[i]);
        v->ds[row * wide + i * u + j] = add(k, 0, k->cell == LK_FEATURE_GRU && i == 2 ? n_s : g[i]);
    }
    *d = e;
}

/* The tree over blocks of chains over the gates and the units of a block: g [gates][units] times a row of
 * weights as they are. */
static inline double plain_said(const struct recurrent_case *k, const struct whole *v, int weights,
                                struct cut_rule rule, const double *g, int64_t row)
{
    const int64_t u = k->units, size = plain_block(rule, u);
    double sum[64] = {0};
    int64_t n = 0;
    for (int64_t from = 0; from < u; from += size, n++) {
        sum[n] = 0;
        for (int64_t i = 0; i < gates_of(k); i++)
            for (int64_t j = from; j < u && j < from + size; j++)
                sum[n] = real_fma(k->dtype, g[i * u + j],
                                  at(k, v, weights, (row * gates_of(k) + i) * u + j), sum[n]);
    }
    return plain_tree(k->dtype, sum, n);
}

/* A gradient of the last state, or of y: `none` is told where there is none. */
static inline double given(const struct recurrent_case *k, const struct whole *v, int array,
                           int64_t i, bool is, bool *none)
{
    *none = !is;
    return is ? at(k, v, array, i) : 0;
}

static inline void plain_backward(const struct recurrent_case *k, const struct whole *v,
                                  struct cut_rule rule, int64_t sample)
{
    const bool cut = plain_blocks(rule, k->units) > 1; /* then what is not there is zeros */
    const int64_t u = k->units, wide = gates_of(k) * u;
    double d[64], dc[64], said[64];
    bool no_dh, no_dy, no_dc = false;
    for (int64_t j = 0; j < u; j++) {
        d[j] = given(k, v, DH, sample * u + j, k->last, &no_dh);
        dc[j] = given(k, v, DC, sample * u + j, k->last, &no_dc);
        if (k->times == 0)
            continue;
        double dy = given(k, v, DY, row_of(k, sample, k->times - 1) * u + j, k->dy, &no_dy);
        d[j] = no_dh && !cut ? dy : no_dy && !cut ? d[j] : add(k, d[j], dy);
    }
    for (int64_t n = k->times - 1; n >= 0; n--) {
        const int64_t row = row_of(k, sample, n);
        for (int64_t j = 0; j < u; j++)
            plain_back(k, v, row, j, n == k->times - 1 && no_dc && !cut, &d[j], &dc[j]);
        for (int64_t j = 0; j < u; j++)
            said[j] = plain_said(k, v, U, rule, v->ds + row * wide, j);
        for (int64_t j = 0; j < u; j++) {
            double dy = n == 0 ? 0
                               : given(k, v, DY, row_of(k, sample, n - 1) * u + j, k->dy, &no_dy);
            bool adds = n > 0 && (!no_dy || cut), gru = k->cell == LK_FEATURE_GRU;
            d[j] = gru ? d[j] : said[j];
            d[j] = adds ? add(k, d[j], dy) : d[j];
            d[j] = gru ? add(k, d[j], said[j]) : d[j];
        }
    }
    for (int64_t j = 0; j < u; j++) {
        real_set(k->dtype, v->at[DH0], sample * u + j, add(k, 0, d[j]));
        real_set(k->dtype, v->at[DC0], sample * u + j, add(k, 0, dc[j]));
    }
}

/* The sum over rows of a b, one chain for each shard; b NULL: of a, in sixteen lanes. */
static inline double plain_rows(const struct recurrent_case *k, const double *a, int64_t lda,
                                const double *b, int64_t ldb)
{
    double shards[64] = {0};
    int64_t rows = rows_of(k), piece = k->shard * k->times, n = 0;
    for (int64_t from = 0; from < rows; from += piece) {
        double lane[16] = {0};
        for (int64_t t = from; t < rows && t < from + piece; t++)
            if (b)
                lane[0] = real_fma(k->dtype, a[t * lda], b[t * ldb], lane[0]);
            else
                lane[(t - from) % 16] = add(k, lane[(t - from) % 16], a[t * lda]);
        shards[n++] = b ? lane[0] : plain_tree(k->dtype, lane, 16);
    }
    return add(k, 0, n == 0 ? 0 : plain_tree(k->dtype, shards, n));
}

static inline void plain_weights(const struct recurrent_case *k, const struct whole *v,
                                 struct cut_rule rule)
{
    const lk_dtype t = k->dtype;
    const int64_t u = k->units, wide = gates_of(k) * u, rows = rows_of(k);
    double *x = calloc((size_t)(rows * k->in) + 1, sizeof *x);
    ASSERT_TRUE(x);
    for (int64_t i = 0; i < rows * k->in; i++) {
        x[i] = at(k, v, X, i);
        real_set(t, v->at[DX], i,
                 add(k, 0, plain_said(k, v, W, rule, v->dxw + i / k->in * wide, i % k->in)));
    }
    for (int64_t j = 0; j < wide; j++) {
        for (int64_t i = 0; i < k->in; i++)
            real_set(t, v->at[DW], i * wide + j, plain_rows(k, x + i, k->in, v->dxw + j, wide));
        for (int64_t i = 0; i < u; i++)
            real_set(t, v->at[DU], i * wide + j, plain_rows(k, v->before + i, u, v->ds + j, wide));
        real_set(t, v->at[DB], j, plain_rows(k, v->dxw + j, wide, NULL, 0));
    }
    for (int64_t j = 0; j < u && k->cell == LK_FEATURE_GRU; j++)
        real_set(t, v->at[DM], j, plain_rows(k, v->ds + 2 * u + j, wide, NULL, 0));
    free(x);
}

static inline struct whole whole_new(const struct recurrent_case *k, struct cut_rule rule)
{
    struct whole v;
    const size_t cells = (size_t)(rows_of(k) * k->units) + 1;
    for (int i = 0; i < ARRAYS; i++) {
        int64_t n = outer_of(k, i) * last_of(k, i);
        bool zeros = i >= INPUTS || ((i == H0 || i == C0) && !k->state);
        v.at[i] = zeros ? array_new(k->dtype, n)
                        : array_random(k->dtype, n, (uint64_t)i + 1, k->odd && i != DY);
    }
    v.xw = calloc(cells * MOST_GATES, sizeof(double));
    v.dxw = calloc(cells * MOST_GATES, sizeof(double));
    v.ds = calloc(cells * MOST_GATES, sizeof(double));
    v.kept = calloc(cells * KEPT, sizeof(double));
    v.before = calloc(cells, sizeof(double));
    ASSERT_TRUE(v.xw && v.dxw && v.ds && v.kept && v.before);
    for (int64_t i = 0; i < k->samples; i++) {
        plain_forward(k, &v, i);
        plain_backward(k, &v, rule, i);
    }
    plain_weights(k, &v, rule);
    return v;
}

#endif /* LK_TEST_FEATURE_RECURRENTS_H */
