/* The gradients of recurrent ops made of other ops, time by time, for a backward that is recorded: all states
 * once more from the inputs, then from the last time to the first.  The bits are those of the one pass. */
#include "autograd/tape_access.h"
#include "ops/common/ops.h"
#include "ops/common/recurrent/recurrent.h"

#include <stddef.h>

enum { X = LK__REC_X, U = LK__REC_U, H = LK__REC_H, MORE = LK__REC_MORE };

lk_status lk__rec_gate(const lk_call *c, lk_var v, int i, lk_var *out)
{
    int64_t units = lk_shape_of(c->in[U]).dim[0];
    return LK_TRACE(lk_slice(v, 1, i * units, (i + 1) * units, 1, out));
}

lk_status lk__rec_gate_sum(const lk_call *c, lk_var x, lk_var s, int i, lk_var *out)
{
    lk_var a, b;
    LK_TRY(lk__rec_gate(c, x, i, &a));
    LK_TRY(lk__rec_gate(c, s, i, &b));
    return LK_TRACE(lk_add(a, b, out));
}

lk_status lk__rec_sigmoid_grad(lk_var g, lk_var y, lk_var *out)
{
    lk_var slope;
    LK_TRY(lk_affine(y, -1, 1, &slope));
    LK_TRY(lk_mul(y, slope, &slope));
    return LK_TRACE(lk_mul(g, slope, out));
}

lk_status lk__rec_tanh_grad(lk_var g, lk_var y, lk_var *out)
{
    lk_var slope;
    LK_TRY(lk_mul(y, y, &slope));
    LK_TRY(lk_affine(slope, -1, 1, &slope));
    return LK_TRACE(lk_mul(g, slope, out));
}

/* What a pass over the times works on. */
typedef struct times {
    lk_call *c;
    const lk__rec_cell *cell;
    int64_t n;
    lk__rec_time *at; /* in the order of x */
    lk_var *list;     /* n of them, for stack */
} times;

/* The time that is number k for the cell. */
static int64_t time_of(const times *t, int64_t k)
{
    return ((const lk_recurrent_attr *)t->c->attr)->reverse ? t->n - 1 - k : k;
}

/* *out = time k of v [samples, times, ...]. */
static lk_status time_slice(lk_var v, int64_t k, lk_var *out)
{
    lk_shape shape = lk_shape_of(v);
    LK_TRY(lk_slice(v, 1, k, k + 1, 1, out));
    return LK_TRACE(lk_reshape(*out, LK_SHAPE(shape.dim[0], shape.dim[2]), out));
}

/* *a = *a + b, of which either may be nothing. */
static lk_status join(lk_var *a, lk_var b)
{
    if (!lk_is_var(*a))
        *a = b;
    else if (lk_is_var(b))
        LK_TRY(lk_add(*a, b, a));
    return LK_OK;
}

static lk_status join_time(lk_var *a, lk_var dy, int64_t k)
{
    lk_var part = LK_NO_VAR;
    if (lk_is_var(dy))
        LK_TRY(time_slice(dy, k, &part));
    return LK_TRACE(join(a, part));
}

static lk_status steps_run(const times *t)
{
    lk_var h = t->c->in[H], cell = t->cell->cell == LK_CELL_LSTM ? t->c->in[MORE] : LK_NO_VAR;
    for (int64_t k = 0; k < t->n; k++) {
        lk__rec_time *at = &t->at[time_of(t, k)];
        *at = (lk__rec_time){.h = h, .c = cell};
        LK_TRY(time_slice(t->c->in[X], time_of(t, k), &at->x));
        LK_TRY(t->cell->step(t->c, at, &h, &cell));
    }
    return LK_OK;
}

/* From the last time to the first; *d and *dc, gradients of the state behind, become those of the one before. */
static lk_status steps_return(const times *t, lk_var dy, lk_var *d, lk_var *dc)
{
    LK_TRY(join_time(d, dy, time_of(t, t->n - 1)));
    if (!lk_is_var(*d))
        LK_TRY(lk_zeros_like(t->c->in[H], d));
    for (int64_t k = t->n - 1; k >= 0; k--) {
        lk__rec_time *at = &t->at[time_of(t, k)];
        lk_var by_s;
        LK_TRY(t->cell->back(t->c, at, d, dc));
        LK_TRY(lk_matmul_trans(at->ds, t->c->in[U], false, true, &by_s));
        if (k > 0)
            LK_TRY(join_time(d, dy, time_of(t, k - 1)));
        LK_TRY(join(d, by_s));
    }
    return LK_OK;
}

/* *out = a value of each time, [samples, times, ...]. */
static lk_status times_stack(const times *t, size_t offset, lk_var *out)
{
    for (int64_t k = 0; k < t->n; k++)
        t->list[k] = *(const lk_var *)((const char *)&t->at[k] + offset);
    return LK_TRACE(lk_stack(t->list, (int)t->n, 1, out));
}

static lk_status weights_gradient(const times *t, lk_var *din)
{
    lk_var before, ds, bias;
    int64_t units = lk_shape_of(t->c->in[U]).dim[0];
    LK_TRY(times_stack(t, offsetof(lk__rec_time, ds), &ds));
    if (lk_call_needs_grad(t->c, U)) {
        LK_TRY(times_stack(t, offsetof(lk__rec_time, h), &before));
        LK_TRY(lk_linear_weights(before, ds, &din[U]));
    }
    if (t->cell->cell == LK_CELL_GRU && lk_call_needs_grad(t->c, MORE)) {
        LK_TRY(lk_slice(ds, 2, 2 * units, 3 * units, 1, &bias));
        LK_TRY(lk_sum_to(bias, LK_SHAPE(units), &din[MORE]));
    }
    return LK_OK;
}

lk_status lk__recurrent_compose(lk_call *c, const lk__rec_cell *cell, const lk_var *dout,
                                lk_var *din)
{
    times t = {.c = c, .cell = cell, .n = lk_shape_of(c->in[X]).dim[1]};
    const bool lstm = cell->cell == LK_CELL_LSTM;
    lk_var d = dout[1], dc = lstm ? dout[2] : LK_NO_VAR;
    LK_TRY(lk__tape_room(c->tape, t.n * (int64_t)sizeof *t.at, &t.at));
    LK_TRY(lk__tape_room(c->tape, t.n * (int64_t)sizeof *t.list, &t.list));
    LK_TRY(steps_run(&t));
    if (t.n > 0) {
        LK_TRY(steps_return(&t, dout[0], &d, &dc));
        LK_TRY(times_stack(&t, offsetof(lk__rec_time, dx), &din[X]));
        LK_TRY(weights_gradient(&t, din));
    }
    din[H] = d;
    if (lstm)
        din[MORE] = dc;
    for (int i = 0; i < c->n_in; i++) /* without times nothing is said, but of the state */
        if (lk_call_needs_grad(c, i) && !lk_is_var(din[i]))
            LK_TRY(lk_zeros_like(c->in[i], &din[i]));
    return LK_OK;
}
