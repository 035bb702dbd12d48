/* Check of lk_recurrence_forward() and lk_recurrence_backward(): recurrent cells over all times. */
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/map.h>
#include <lockstep/extra/recurrence.h>

#include <math.h>
#include <stdio.h>

enum { IN_X, IN_U, IN_H, IN_MORE, IN_DY, IN_LAST }; /* IN_LAST: dh and dc */
enum { OUT_FORWARD, OUT_TIMES, OUT_STATE };
enum { WHOLE, PARTS };

static const struct recurrence_case {
    lk_cell cell;
    int samples, times, units;
    bool reverse, dy, last; /* last: the state behind has a gradient */
} cases[] = {
    {LK_CELL_RNN, 1, 1, 1, 0, 1, 0},   {LK_CELL_RNN, 5, 7, 3, 0, 1, 1},
    {LK_CELL_RNN, 13, 3, 17, 1, 0, 1}, {LK_CELL_GRU, 1, 1, 1, 0, 1, 0},
    {LK_CELL_GRU, 5, 7, 3, 0, 1, 1},   {LK_CELL_GRU, 13, 3, 17, 1, 0, 1},
    {LK_CELL_GRU, 2, 5, 33, 1, 1, 0},  {LK_CELL_LSTM, 1, 1, 1, 0, 1, 0},
    {LK_CELL_LSTM, 5, 7, 3, 0, 1, 1},  {LK_CELL_LSTM, 13, 3, 17, 1, 0, 1},
    {LK_CELL_LSTM, 2, 5, 33, 1, 1, 0}, {LK_CELL_LSTM, 53, 2, 7, 0, 1, 1},
    {LK_CELL_LSTM, 3, 0, 5, 0, 0, 1},  {LK_CELL_LSTM, 0, 3, 5, 0, 1, 1},
};

static const double FORGET = 0.75;

/* Elements of what a case has: a state, all of its times, and all of x. */
typedef struct sizes {
    int64_t state, y, x;
} sizes;

static lk_recurrence describe(const check_case *c, sizes *n)
{
    const struct recurrence_case *s = &cases[c->index];
    n->state = (int64_t)s->samples * s->units;
    n->y = n->state * s->times;
    n->x = n->y * lk_recurrence_gates(s->cell);
    return (lk_recurrence){.dtype = c->dtype,
                           .cell = s->cell,
                           .reverse = s->reverse,
                           .forget = FORGET,
                           .samples = s->samples,
                           .times = s->times,
                           .units = s->units};
}

/* Outputs: y, h, c;  dx, ds, before;  dh0, dc0.  Each has the room of all cells. */
static lk_status recurrence_setup(check_case *c)
{
    static const char *const name[LK_N_CELLS] = {"rnn", "gru", "lstm"};
    const struct recurrence_case *s = &cases[c->index];
    sizes n;
    lk_recurrence r = describe(c, &n);
    snprintf(c->label, sizeof c->label, "%s, %d samples of %d times, %d units%s%s%s", name[s->cell],
             s->samples, s->times, s->units, s->reverse ? ", reverse" : "", s->dy ? ", dy" : "",
             s->last ? ", dh" : "");
    LK_TRY(check_input(c, c->dtype, n.x, -1, 1));
    LK_TRY(check_input(c, c->dtype, r.units * r.units * lk_recurrence_gates(r.cell), -1, 1));
    LK_TRY(check_input(c, c->dtype, n.state, -1, 1));
    LK_TRY(check_input(c, c->dtype, r.cell == LK_CELL_GRU ? r.units : n.state, -1, 1));
    LK_TRY(check_input(c, c->dtype, n.y, -1, 1));
    LK_TRY(check_input(c, c->dtype, 2 * n.state, -1, 1));
    LK_TRY(check_output(c, c->dtype, n.y + 2 * n.state, true));
    LK_TRY(check_output(c, c->dtype, 2 * n.x + n.y, true));
    LK_TRY(check_output(c, c->dtype, 2 * n.state, true));
    c->ways = 1U << WHOLE | 1U << PARTS;
    return LK_OK;
}

/* Samples [first, first + count), with `room` for what is kept and the passes. */
static lk_status run_some(const check_case *c, int64_t first, int64_t count, void *kept, void *room,
                          void *const *out)
{
    const struct recurrence_case *s = &cases[c->index];
    const bool gru = s->cell == LK_CELL_GRU, lstm = s->cell == LK_CELL_LSTM;
    sizes n;
    lk_recurrence r = describe(c, &n);
    const int64_t state = first * r.units, y = state * r.times, x = y * lk_recurrence_gates(r.cell);
    const lk_dtype t = c->dtype;
    char *more = c->in[IN_MORE].data;
    r.samples = count;
    lk_recurrence_values v = {.x = check_at(t, c->in[IN_X].data, x),
                              .u = c->in[IN_U].data,
                              .bias = gru ? more : NULL,
                              .h0 = check_at(t, c->in[IN_H].data, state),
                              .c0 = lstm ? check_at(t, more, state) : NULL,
                              .y = check_at(t, out[OUT_FORWARD], y),
                              .h = check_at(t, out[OUT_FORWARD], n.y + state),
                              .c = lstm ? check_at(t, out[OUT_FORWARD], n.y + n.state + state)
                                        : NULL,
                              .kept = kept};
    lk_recurrence_grads g = {
        .dy = s->dy ? check_at(t, c->in[IN_DY].data, y) : NULL,
        .dh = s->last ? check_at(t, c->in[IN_LAST].data, state) : NULL,
        .dc = s->last && lstm ? check_at(t, c->in[IN_LAST].data, n.state + state) : NULL,
        .dx = check_at(t, out[OUT_TIMES], x),
        .ds = gru ? check_at(t, out[OUT_TIMES], n.x + x) : NULL,
        .before = check_at(t, out[OUT_TIMES], 2 * n.x + y),
        .dh0 = check_at(t, out[OUT_STATE], state),
        .dc0 = lstm ? check_at(t, out[OUT_STATE], n.state + state) : NULL};
    LK_TRY(lk_recurrence_forward(&r, &v, room));
    LK_TRY(lk_recurrence_backward(&r, &v, &g, room));
    return LK_OK;
}

static lk_status recurrence_run(const check_case *c, int way, void *const *out)
{
    lk_status st;
    sizes n;
    lk_recurrence r = describe(c, &n);
    const int64_t cut = way == PARTS ? (r.samples + 2) / 3 : r.samples;
    char *kept = NULL, *room = NULL;
    int64_t bytes;
    LK_TRY(lk_recurrence_room(&r, &bytes));
    LK_TRY(lk_alloc(&room, bytes, 1));
    LK_TRY_TO(done, lk_alloc(&kept, r.samples * r.times * lk_recurrence_kept(r.cell, r.units) + 1,
                             sizeof(double)));
    LK_TRY_TO(done, run_some(c, 0, cut, kept, room, out));
    if (way == PARTS)
        LK_TRY_TO(done, run_some(c, cut, r.samples - cut, kept, room, out));
done:
    lk_free(kept);
    lk_free(room);
    return st;
}

/* ---- by definition ---- */

/* One element at one time: numbers of the dtype. */
typedef struct cell_values {
    double act[6];
} cell_values;

typedef struct reference {
    const check_case *c;
    check_truth *truth;
    lk_recurrence r;
    sizes n;
    int64_t wide;
    cell_values *kept; /* [samples][times][units] */
} reference;

/* Operations of the dtype. */
static double add(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a + (float)b) : a + b;
}

static double mul(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a * (float)b) : a * b;
}

/* A function of the library at one number. */
static double mapped(lk_dtype t, lk_map1_op op, double v)
{
    double in = 0, out = 0;
    check_set(t, &in, 0, v);
    if (lk_map1(t, op, 0, 1, &in, &out) != LK_OK)
        return (double)NAN;
    return check_get(t, &out, 0);
}

#define ADD(a, b) add(t, a, b)
#define MUL(a, b) mul(t, a, b)
#define SIGMOID(v) mapped(t, LK_MAP1_SIGMOID, v)
#define TANH(v) mapped(t, LK_MAP1_TANH, v)

/* What is before `t`: the time, or -1. */
static int64_t time_before(const lk_recurrence *r, int64_t time)
{
    if (time == (r->reverse ? r->times - 1 : 0))
        return -1;
    return r->reverse ? time + 1 : time - 1;
}

/* h of sample i, behind `time`, or what it begins with. */
static double state_at(const reference *f, int64_t i, int64_t time, int64_t k)
{
    const int64_t u = f->r.units;
    if (time < 0)
        return check_get(f->c->dtype, f->c->in[IN_H].data, i * u + k);
    return check_get(f->c->dtype, f->truth->bits[OUT_FORWARD], (i * f->r.times + time) * u + k);
}

/* Gate g of what the state says. */
static double said(const reference *f, int64_t i, int64_t time, int64_t gate, int64_t k)
{
    const int64_t u = f->r.units;
    check_chain s = check_chain_start(f->c->dtype, 0);
    for (int64_t m = 0; m < u; m++)
        check_chain_fma(&s, state_at(f, i, time_before(&f->r, time), m),
                        check_get(f->c->dtype, f->c->in[IN_U].data, m * f->wide + gate * u + k));
    return s.acc;
}

static void expect_time(const reference *f, int64_t i, int64_t time, int64_t k)
{
    const lk_dtype t = f->c->dtype;
    const int64_t u = f->r.units, before = time_before(&f->r, time);
    void *forward = f->truth->bits[OUT_FORWARD];
    cell_values *v = &f->kept[(i * f->r.times + time) * u + k];
    double *a = v->act, z[4] = {0}, x[4] = {0}, y;
    for (int64_t g = 0; g < lk_recurrence_gates(f->r.cell); g++) {
        x[g] = check_get(t, f->c->in[IN_X].data, ((i * f->r.times) + time) * f->wide + g * u + k);
        z[g] = ADD(x[g], said(f, i, time, g, k));
    }
    if (f->r.cell == LK_CELL_RNN) {
        y = TANH(z[0]);
    } else if (f->r.cell == LK_CELL_GRU) {
        a[0] = SIGMOID(z[0]);
        a[1] = SIGMOID(z[1]);
        a[3] = ADD(said(f, i, time, 2, k), check_get(t, f->c->in[IN_MORE].data, k));
        a[2] = TANH(ADD(x[2], MUL(a[0], a[3])));
        y = ADD(a[2], MUL(a[1], ADD(state_at(f, i, before, k), -a[2])));
    } else {
        double *c = &a[5];
        *c = before < 0 ? check_get(t, f->c->in[IN_MORE].data, i * u + k)
                        : check_get(t, forward, f->n.y + f->n.state + i * u + k);
        a[0] = SIGMOID(z[0]);
        a[1] = SIGMOID(ADD(z[1], FORGET));
        a[2] = TANH(z[2]);
        a[3] = SIGMOID(z[3]);
        double now = ADD(MUL(a[1], *c), MUL(a[0], a[2]));
        a[4] = TANH(now);
        y = MUL(a[3], a[4]);
        check_set(t, forward, f->n.y + f->n.state + i * u + k, now);
    }
    check_set(t, forward, (i * f->r.times + time) * u + k, y);
    check_set(t, forward, f->n.y + i * u + k, y);
}

/* g y (1 - y) and g (1 - y y), 0 + each. */
static double by_sigmoid(lk_dtype t, double g, double y)
{
    return 0 + MUL(g, MUL(y, ADD(1, -y)));
}

static double by_tanh(lk_dtype t, double g, double y)
{
    return MUL(g, ADD(1, -MUL(y, y)));
}

/* Gradients of one element at one time from d; *d becomes what the state before gets but by ds. */
static void expect_back(const reference *f, int64_t i, int64_t time, int64_t k, double *d)
{
    const lk_dtype t = f->c->dtype;
    const int64_t u = f->r.units, place = (i * f->r.times + time) * f->wide + k;
    const double *a = f->kept[(i * f->r.times + time) * u + k].act;
    const double h = state_at(f, i, time_before(&f->r, time), k);
    void *times = f->truth->bits[OUT_TIMES], *state = f->truth->bits[OUT_STATE];
    double dx[4] = {0}, ds[4];
    if (f->r.cell == LK_CELL_RNN) {
        dx[0] = 0 + by_tanh(t, *d, state_at(f, i, time, k));
    } else if (f->r.cell == LK_CELL_GRU) {
        const double e = MUL(*d, a[1]), through = by_tanh(t, ADD(*d, -e), a[2]);
        dx[0] = ds[0] = by_sigmoid(t, MUL(through, a[3]), a[0]);
        dx[1] = ds[1] = by_sigmoid(t, MUL(*d, ADD(h, -a[2])), a[1]);
        dx[2] = 0 + through;
        ds[2] = 0 + MUL(through, a[0]);
        for (int g = 0; g < 3; g++)
            check_set(t, times, f->n.x + place + g * u, ds[g]);
        *d = e;
    } else {
        const int64_t at = f->n.state + i * u + k;
        double dc = by_tanh(t, MUL(*d, a[3]), a[4]);
        const bool last = time == (f->r.reverse ? 0 : f->r.times - 1);
        if (!last || cases[f->c->index].last)
            dc = ADD(check_get(t, state, at), dc);
        dx[0] = by_sigmoid(t, MUL(dc, a[2]), a[0]);
        dx[1] = by_sigmoid(t, MUL(dc, a[5]), a[1]);
        dx[2] = 0 + by_tanh(t, MUL(dc, a[0]), a[2]);
        dx[3] = by_sigmoid(t, MUL(*d, a[4]), a[3]);
        check_set(t, state, at, MUL(dc, a[1]));
    }
    for (int64_t g = 0; g < lk_recurrence_gates(f->r.cell); g++)
        check_set(t, times, place + g * u, dx[g]);
    check_set(t, times, 2 * f->n.x + (i * f->r.times + time) * u + k, h);
}

/* What the state before `time` gets: d of it, kept in dh0, behind dy. */
static void expect_passed_on(const reference *f, int64_t i, int64_t time, int64_t k)
{
    const lk_dtype t = f->c->dtype;
    const int64_t u = f->r.units, before = time_before(&f->r, time);
    const bool gru = f->r.cell == LK_CELL_GRU, dy = cases[f->c->index].dy && before >= 0;
    check_chain s = check_chain_start(t, 0);
    for (int64_t m = 0; m < f->wide; m++)
        check_chain_fma(&s,
                        check_get(t, f->truth->bits[OUT_TIMES],
                                  (gru ? f->n.x : 0) + (i * f->r.times + time) * f->wide + m),
                        check_get(t, f->c->in[IN_U].data, k * f->wide + m));
    double d = gru ? check_get(t, f->truth->bits[OUT_STATE], i * u + k) : s.acc;
    if (dy)
        d = ADD(d, check_get(t, f->c->in[IN_DY].data, (i * f->r.times + before) * u + k));
    if (gru)
        d = ADD(d, s.acc);
    check_set(t, f->truth->bits[OUT_STATE], i * u + k, d);
}

static void expect_sample(const reference *f, int64_t i)
{
    const struct recurrence_case *s = &cases[f->c->index];
    const lk_dtype t = f->c->dtype;
    const int64_t u = f->r.units, n = f->r.times, first = f->r.reverse ? n - 1 : 0,
                  step = f->r.reverse ? -1 : 1;
    void *state = f->truth->bits[OUT_STATE], *forward = f->truth->bits[OUT_FORWARD];
    for (int64_t m = 0; m < n; m++)
        for (int64_t k = 0; k < u; k++)
            expect_time(f, i, first + m * step, k);
    for (int64_t k = 0; k < u; k++) {
        const int64_t at = i * u + k;
        double d = s->last ? check_get(t, f->c->in[IN_LAST].data, at) : 0;
        if (s->dy && n > 0)
            d = ADD(d,
                    check_get(t, f->c->in[IN_DY].data, (i * n + first + (n - 1) * step) * u + k));
        check_set(t, state, at, d);
        if (f->r.cell == LK_CELL_LSTM)
            check_set(t, state, f->n.state + at,
                      s->last ? check_get(t, f->c->in[IN_LAST].data, f->n.state + at) : 0);
        if (n == 0)
            check_set(t, forward, f->n.y + at, state_at(f, i, -1, k));
        if (n == 0 && f->r.cell == LK_CELL_LSTM)
            check_set(t, forward, f->n.y + f->n.state + at,
                      check_get(t, f->c->in[IN_MORE].data, at));
    }
    for (int64_t m = n - 1; m >= 0; m--) {
        for (int64_t k = 0; k < u; k++) {
            double d = check_get(t, state, i * u + k);
            expect_back(f, i, first + m * step, k, &d);
            check_set(t, state, i * u + k, d);
        }
        for (int64_t k = 0; k < u; k++)
            expect_passed_on(f, i, first + m * step, k);
    }
}

static lk_status recurrence_expect(const check_case *c, check_truth *truth)
{
    reference f = {.c = c, .truth = truth};
    f.r = describe(c, &f.n);
    f.wide = lk_recurrence_gates(f.r.cell) * f.r.units;
    LK_TRY(lk_alloc(&f.kept, f.n.y + 1, sizeof *f.kept));
    for (int o = 0; o < c->n_out; o++)
        truth->has_bits[o] = true;
    for (int64_t i = 0; i < f.r.samples; i++)
        expect_sample(&f, i);
    lk_free(f.kept);
    return LK_OK;
}

const lk__check lk__check_recurrence = {
    .name = "recurrence",
    .summary = "recurrent cells over all times, and their gradients",
    .n_cases = sizeof cases / sizeof cases[0],
    .ways = {"whole", "split batch"},
    .setup = recurrence_setup,
    .run = recurrence_run,
    .expect = recurrence_expect,
};
