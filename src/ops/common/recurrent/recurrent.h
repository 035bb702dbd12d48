/* What the recurrent ops share: rnn, gru and lstm, one op for all times of a layer.
 *
 *   inputs    x [samples, times, gates units], u [units, gates units], h [samples, units],
 *             then c [samples, units] (lstm) or the bias [units] (gru)
 *   outputs   y [samples, times, units], h [samples, units], c (lstm), and, but for rnn, what backward reads
 *             of the gates, as bytes
 *
 * lockstep/extra/recurrence.h has the formulas.  du is the sum over samples and times of h' ds, in the order
 * of lk_linear_weights(): pieces of the batch, each one chain over its samples and in each the times.
 *
 * A backward that is recorded is made of other ops, time by time, by what a cell says here.
 */
#ifndef LK_OPS_COMMON_RECURRENT_H
#define LK_OPS_COMMON_RECURRENT_H

#include <lockstep/extra/recurrence.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

enum { LK__REC_X, LK__REC_U, LK__REC_H, LK__REC_MORE };

/* One time as variables, each [samples, ...]. */
typedef struct lk__rec_time {
    lk_var x, h, c; /* h and c: the state before; c: lstm */
    lk_var act[6];  /* what forward keeps, in its order */
    lk_var dx, ds;
} lk__rec_time;

/* The `data` of such an op. */
typedef struct lk__rec_cell {
    lk_cell cell;
    /** t->act and the next state. */
    lk_status (*step)(const lk_call *c, lk__rec_time *t, lk_var *h, lk_var *cell);
    /** t->dx and t->ds from the gradients of h and c.  *dc becomes that of c before; *d what h before gets but
     * by ds, or LK_NO_VAR. */
    lk_status (*back)(const lk_call *c, lk__rec_time *t, lk_var *d, lk_var *dc);
} lk__rec_cell;

lk_status lk__recurrent_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;
lk_status lk__recurrent_forward(lk_call *c) LK_NODISCARD;
lk_status lk__recurrent_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;

/** The same made of other ops: times.c. */
lk_status lk__recurrent_compose(lk_call *c, const lk__rec_cell *cell, const lk_var *dout,
                                lk_var *din) LK_NODISCARD;

/** Gate number `i` of v [samples, gates units]. */
lk_status lk__rec_gate(const lk_call *c, lk_var v, int i, lk_var *out) LK_NODISCARD;

/** *out = gate i of x + gate i of s. */
lk_status lk__rec_gate_sum(const lk_call *c, lk_var x, lk_var s, int i, lk_var *out) LK_NODISCARD;

/** *out = g (y (1 - y)), and g (1 - y y): what is before a sigmoid and a tanh gets. */
lk_status lk__rec_sigmoid_grad(lk_var g, lk_var y, lk_var *out) LK_NODISCARD;
lk_status lk__rec_tanh_grad(lk_var g, lk_var y, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_RECURRENT_H */
