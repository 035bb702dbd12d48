/* Recurrent cells over all times, forward and backward: the expressions of extra/recurrence.h. */
#include "kernel/reference/chain.h"

#define SIGMOID(v) lk__ref_function(t, LK_MAP1_SIGMOID, v)
#define TANH(v) lk__ref_function(t, LK_MAP1_TANH, v)
#define ADD(a, b) real_add(t, a, b)
#define SUB(a, b) real_sub(t, a, b)
#define MUL(a, b) real_mul(t, a, b)

/* Of one sample; `gates` elements of x for each unit and time. */
struct sample {
    const lk_recurrence *r;
    const lk_recurrence_values *v;
    const lk_recurrence_grads *g;
    int64_t number, gates;
};

/* Time number n in the order of the cell. */
static int64_t time_of(const struct sample *s, int64_t n)
{
    return s->r->reverse ? s->r->times - 1 - n : n;
}

/* Unit k of an array [samples][units], and of time number n of one [samples][times][units]. */
static int64_t state_at(const struct sample *s, int64_t k)
{
    return s->number * s->r->units + k;
}

static int64_t unit_at(const struct sample *s, int64_t n, int64_t k)
{
    return (s->number * s->r->times + time_of(s, n)) * s->r->units + k;
}

/* Gate i of unit k at time number n, in x, dx and ds; the same of `kept`. */
static int64_t gate_at(const struct sample *s, int64_t n, int64_t i, int64_t k)
{
    return ((s->number * s->r->times + time_of(s, n)) * s->gates + i) * s->r->units + k;
}

static int64_t kept_at(const struct sample *s, int64_t n, int64_t i, int64_t k)
{
    const int64_t all = lk_recurrence_kept(s->r->cell, s->r->units);
    return (s->number * s->r->times + time_of(s, n)) * all + i * s->r->units + k;
}

/* h before time number n. */
static double before(const struct sample *s, int64_t n, int64_t k)
{
    return n == 0 ? real_get(s->r->dtype, s->v->h0, state_at(s, k))
                  : real_get(s->r->dtype, s->v->y, unit_at(s, n - 1, k));
}

/* Element (i, k) of h' u: a chain over the units. */
static double recurrent_sum(const struct sample *s, int64_t n, int64_t i, int64_t k)
{
    const int64_t units = s->r->units;
    lk__ref_chain c = chain_start(s->r->dtype, 0, false);
    for (int64_t m = 0; m < units; m++)
        chain_fma(&c, before(s, n, m), real_get(c.dtype, s->v->u, (m * s->gates + i) * units + k));
    return c.acc;
}

static void keep(const struct sample *s, int64_t n, int64_t k, const double *values)
{
    for (int64_t i = 0; s->v->kept && i < lk_recurrence_kept(s->r->cell, 1); i++)
        real_set(s->r->dtype, s->v->kept, kept_at(s, n, i, k), values[i]);
}

/* Unit k at time number n. */
static void forward_unit(const struct sample *s, int64_t n, int64_t k)
{
    const lk_dtype t = s->r->dtype;
    double x[4] = {0}, z[4] = {0}, y;
    for (int64_t i = 0; i < s->gates; i++) {
        x[i] = real_get(t, s->v->x, gate_at(s, n, i, k));
        z[i] = ADD(x[i], recurrent_sum(s, n, i, k));
    }
    if (s->r->cell == LK_CELL_RNN) {
        y = TANH(z[0]);
    } else if (s->r->cell == LK_CELL_GRU) {
        const double gate_r = SIGMOID(z[0]), gate_z = SIGMOID(z[1]);
        const double q = ADD(recurrent_sum(s, n, 2, k), real_get(t, s->v->bias, k));
        const double gate_n = TANH(ADD(x[2], MUL(gate_r, q)));
        keep(s, n, k, (double[]){gate_r, gate_z, gate_n, q});
        y = ADD(gate_n, MUL(gate_z, SUB(before(s, n, k), gate_n)));
    } else {
        const double old = real_get(t, n == 0 ? s->v->c0 : s->v->c, state_at(s, k));
        const double gate_i = SIGMOID(z[0]), f = SIGMOID(ADD(z[1], real_round(t, s->r->forget)));
        const double g = TANH(z[2]), o = SIGMOID(z[3]);
        const double c = ADD(MUL(f, old), MUL(gate_i, g)), tanh_c = TANH(c);
        keep(s, n, k, (double[]){gate_i, f, g, o, tanh_c, old});
        real_set(t, s->v->c, state_at(s, k), c);
        y = MUL(o, tanh_c);
    }
    real_set(t, s->v->y, unit_at(s, n, k), y);
}

void lk__ref_recurrence_forward(const lk_recurrence *r, const lk_recurrence_values *v)
{
    struct sample s = {.r = r, .v = v, .gates = lk_recurrence_gates(r->cell)};
    for (s.number = 0; s.number < r->samples; s.number++) {
        for (int64_t n = 0; n < r->times; n++)
            for (int64_t k = 0; k < r->units; k++)
                forward_unit(&s, n, k);
        for (int64_t k = 0; k < r->units; k++) {
            real_set(r->dtype, v->h, state_at(&s, k), before(&s, r->times, k));
            if (r->cell == LK_CELL_LSTM && r->times == 0)
                real_set(r->dtype, v->c, state_at(&s, k),
                         real_get(r->dtype, v->c0, state_at(&s, k)));
        }
    }
}

/* ---- backward ---- */

/* 0 + g y (1 - y), and g (1 - y y). */
static double by_sigmoid(lk_dtype t, double g, double y)
{
    return 0 + MUL(g, MUL(y, SUB(1, y)));
}

static double by_tanh(lk_dtype t, double g, double y)
{
    return MUL(g, SUB(1, MUL(y, y)));
}

/* Gradients of the gates of unit k at time number n: dh0 and dc0 have what is said of the state behind it,
 * and then of that before it, but for what ds says. */
static void backward_unit(const struct sample *s, int64_t n, int64_t k)
{
    const lk_dtype t = s->r->dtype;
    const double d = real_get(t, s->g->dh0, state_at(s, k)), h = before(s, n, k);
    double a[6] = {0}, dx[4] = {0};
    for (int64_t i = 0; i < lk_recurrence_kept(s->r->cell, 1); i++)
        a[i] = real_get(t, s->v->kept, kept_at(s, n, i, k));
    if (s->r->cell == LK_CELL_RNN) {
        dx[0] = 0 + by_tanh(t, d, real_get(t, s->v->y, unit_at(s, n, k)));
    } else if (s->r->cell == LK_CELL_GRU) {
        const double e = MUL(d, a[1]), through = by_tanh(t, SUB(d, e), a[2]);
        dx[0] = by_sigmoid(t, MUL(through, a[3]), a[0]);
        dx[1] = by_sigmoid(t, MUL(d, SUB(h, a[2])), a[1]);
        dx[2] = 0 + through;
        real_set(t, s->g->ds, gate_at(s, n, 0, k), dx[0]);
        real_set(t, s->g->ds, gate_at(s, n, 1, k), dx[1]);
        real_set(t, s->g->ds, gate_at(s, n, 2, k), 0 + MUL(through, a[0]));
        real_set(t, s->g->dh0, state_at(s, k), e);
    } else {
        double dc = by_tanh(t, MUL(d, a[3]), a[4]);
        if (n < s->r->times - 1 || s->g->dc)
            dc = ADD(real_get(t, s->g->dc0, state_at(s, k)), dc);
        dx[0] = by_sigmoid(t, MUL(dc, a[2]), a[0]);
        dx[1] = by_sigmoid(t, MUL(dc, a[5]), a[1]);
        dx[2] = 0 + by_tanh(t, MUL(dc, a[0]), a[2]);
        dx[3] = by_sigmoid(t, MUL(d, a[4]), a[3]);
        real_set(t, s->g->dc0, state_at(s, k), MUL(dc, a[1]));
    }
    for (int64_t i = 0; i < s->gates; i++)
        real_set(t, s->g->dx, gate_at(s, n, i, k), dx[i]);
    real_set(t, s->g->before, unit_at(s, n, k), h);
}

/* Element k of ds u' at time number n. */
struct product {
    const struct sample *s;
    int64_t n, k;
};

/* Piece p of the units: a chain over the gates, and in each over these units. */
static lk__ref_chain piece_leaf(const void *of, int64_t p)
{
    const struct product *e = of;
    const struct sample *s = e->s;
    const int64_t units = s->r->units, piece = s->r->piece > 0 ? s->r->piece : units;
    const void *ds = s->r->cell == LK_CELL_GRU ? s->g->ds : s->g->dx;
    lk__ref_chain c = chain_start(s->r->dtype, 0, false);
    for (int64_t i = 0; i < s->gates; i++)
        for (int64_t m = p * piece; m < units && m < (p + 1) * piece; m++)
            chain_fma(&c, real_get(c.dtype, ds, gate_at(s, e->n, i, m)),
                      real_get(c.dtype, s->v->u, (e->k * s->gates + i) * units + m));
    return c;
}

/* The gradient of the state before time number n: d, in dh0, of the time before it. */
static void backward_state(const struct sample *s, int64_t n, int64_t k)
{
    const lk_dtype t = s->r->dtype;
    const int64_t piece = s->r->piece > 0 ? s->r->piece : s->r->units;
    const bool gru = s->r->cell == LK_CELL_GRU;
    const struct product e = {s, n, k};
    const double by_u = lk__ref_chain_tree(piece_leaf, &e, 0, (s->r->units - 1) / piece + 1).acc;
    double d = gru ? real_get(t, s->g->dh0, state_at(s, k)) : by_u;
    if (s->g->dy && n > 0)
        d = ADD(d, real_get(t, s->g->dy, unit_at(s, n - 1, k)));
    if (gru)
        d = ADD(d, by_u);
    real_set(t, s->g->dh0, state_at(s, k), d);
}

/* dh0 and dc0 begin with what is said of the last time. */
static void backward_begin(const struct sample *s, int64_t k)
{
    const lk_dtype t = s->r->dtype;
    const bool has_dy = s->g->dy && s->r->times > 0;
    const double dy = has_dy ? real_get(t, s->g->dy, unit_at(s, s->r->times - 1, k)) : 0,
                 dh = s->g->dh ? real_get(t, s->g->dh, state_at(s, k)) : 0;
    real_set(t, s->g->dh0, state_at(s, k), s->g->dh && has_dy ? ADD(dh, dy) : has_dy ? dy : dh);
    if (s->r->cell == LK_CELL_LSTM)
        real_set(t, s->g->dc0, state_at(s, k),
                 s->g->dc ? real_get(t, s->g->dc, state_at(s, k)) : 0);
}

void lk__ref_recurrence_backward(const lk_recurrence *r, const lk_recurrence_values *v,
                                 const lk_recurrence_grads *g)
{
    struct sample s = {.r = r, .v = v, .g = g, .gates = lk_recurrence_gates(r->cell)};
    for (s.number = 0; s.number < r->samples; s.number++) {
        for (int64_t k = 0; k < r->units; k++)
            backward_begin(&s, k);
        for (int64_t n = r->times - 1; n >= 0; n--) {
            for (int64_t k = 0; k < r->units; k++)
                backward_unit(&s, n, k);
            for (int64_t k = 0; k < r->units; k++)
                backward_state(&s, n, k);
        }
    }
}
