/* Check of lk_recurrence_forward() and lk_recurrence_backward(): recurrent cells over all times. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/recurrence.h>

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

/* Operands of the samples from number `first` on, in the case's inputs and in `out`. */
static void operands(const check_case *c, int64_t first, void *const *out, void *kept,
                     lk_recurrence_values *v, lk_recurrence_grads *g)
{
    const struct recurrence_case *s = &cases[c->index];
    const bool gru = s->cell == LK_CELL_GRU, lstm = s->cell == LK_CELL_LSTM;
    sizes n;
    lk_recurrence r = describe(c, &n);
    const int64_t state = first * r.units, y = state * r.times, x = y * lk_recurrence_gates(r.cell);
    const lk_dtype t = c->dtype;
    char *more = c->in[IN_MORE].data;
    *v = (lk_recurrence_values){.x = check_at(t, c->in[IN_X].data, x),
                                .u = c->in[IN_U].data,
                                .bias = gru ? more : NULL,
                                .h0 = check_at(t, c->in[IN_H].data, state),
                                .c0 = lstm ? check_at(t, more, state) : NULL,
                                .y = check_at(t, out[OUT_FORWARD], y),
                                .h = check_at(t, out[OUT_FORWARD], n.y + state),
                                .c = lstm ? check_at(t, out[OUT_FORWARD], n.y + n.state + state)
                                          : NULL,
                                .kept = kept};
    *g = (lk_recurrence_grads){
        .dy = s->dy ? check_at(t, c->in[IN_DY].data, y) : NULL,
        .dh = s->last ? check_at(t, c->in[IN_LAST].data, state) : NULL,
        .dc = s->last && lstm ? check_at(t, c->in[IN_LAST].data, n.state + state) : NULL,
        .dx = check_at(t, out[OUT_TIMES], x),
        .ds = gru ? check_at(t, out[OUT_TIMES], n.x + x) : NULL,
        .before = check_at(t, out[OUT_TIMES], 2 * n.x + y),
        .dh0 = check_at(t, out[OUT_STATE], state),
        .dc0 = lstm ? check_at(t, out[OUT_STATE], n.state + state) : NULL};
}

/* Samples [first, first + count), with `room` for what is kept and the passes. */
static lk_status run_some(const check_case *c, int64_t first, int64_t count, void *kept, void *room,
                          void *const *out)
{
    sizes n;
    lk_recurrence r = describe(c, &n);
    lk_recurrence_values v;
    lk_recurrence_grads g;
    operands(c, first, out, kept, &v, &g);
    r.samples = count;
    LK_TRY(lk_recurrence_forward(&r, &v, room));
    return LK_TRACE(lk_recurrence_backward(&r, &v, &g, room));
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

static lk_status recurrence_expect(const check_case *c, check_truth *truth)
{
    sizes n;
    lk_recurrence r = describe(c, &n);
    lk_recurrence_values v;
    lk_recurrence_grads g;
    void *kept;
    LK_TRY(lk_alloc(&kept, r.samples * r.times * lk_recurrence_kept(r.cell, r.units) + 1,
                    sizeof(double)));
    operands(c, 0, truth->bits, kept, &v, &g);
    lk__ref_recurrence_forward(&r, &v);
    lk__ref_recurrence_backward(&r, &v, &g);
    for (int o = 0; o < c->n_out; o++)
        truth->has_bits[o] = true;
    lk_free(kept);
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
