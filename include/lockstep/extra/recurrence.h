/* Recurrent cells over all times of a batch, under canonical arithmetic.
 *
 *   x [samples][times][gates * units]  ->  y [samples][times][units]
 *
 * x is what the input says at each time, u [units][gates * units] the recurrent weights, h' and c' the
 * state before a time: h and c of the time before, of the first time h0 and c0.  With s = h' u, each element
 * one chain of fused multiply-adds over the units from +0, and every other operation rounded on its own:
 *
 *   rnn    y = tanh(x + s)
 *   gru    gates r, z, n:     r = sigmoid(x + s), z = sigmoid(x + s), q = s + bias, n = tanh(x + r q)
 *                             y = n + z (h' - n)
 *   lstm   gates i, f, g, o:  i = sigmoid(x + s), f = sigmoid((x + s) + forget), g = tanh(x + s),
 *                             o = sigmoid(x + s);  c = f c' + i g, y = o tanh(c)
 *
 * Backward goes from the last time to the first.  With d = dy + dh', dh' being what the time behind says of
 * this state (of the last time dh), ds the gradient of s:
 *
 *   rnn    dx = ds = 0 + d (1 - y y);  dh' = ds u'
 *   gru    e = d z, t = (d - e) (1 - n n), dx_n = 0 + t, ds_n = 0 + t r, dx_r = ds_r = 0 + (t q) (r (1 - r)),
 *          dx_z = ds_z = 0 + (d (h' - n)) (z (1 - z));  dh' = e + ds u', behind dy: (dy + e) + ds u'
 *   lstm   dc = dc' + (d o) (1 - tanh(c) tanh(c)), dx_i = 0 + (dc g) (i (1 - i)),
 *          dx_f = 0 + (dc c') (f (1 - f)), dx_g = 0 + (dc i) (1 - g g),
 *          dx_o = 0 + (d tanh(c)) (o (1 - o)), ds = dx;  dc' = dc f, dh' = ds u'
 *
 * ds u' is one chain over the gates from +0, or, with `piece`, the fixed pairwise tree of reduce.h over pieces
 * of the units: of each a chain from +0 over the gates, and in each gate over the units of the piece.  What is
 * not there is left out of a sum, not added as zeros.  The bits depend on neither the other samples, threads
 * nor instruction set.
 */
#ifndef LK_RECURRENCE_H
#define LK_RECURRENCE_H

#include <lockstep/dtype.h>

#include <stdbool.h>
#include <stdint.h>

LK_BEGIN_DECLS

typedef enum lk_cell { LK_CELL_RNN, LK_CELL_GRU, LK_CELL_LSTM, LK_N_CELLS } lk_cell;

typedef struct lk_recurrence {
    lk_dtype dtype; /* LK_F32 or LK_F64, of all operands */
    lk_cell cell;
    bool reverse;                  /* begin with the last time */
    double forget;                 /* lstm */
    int64_t samples, times, units; /* any may be 0 */
    int64_t piece;                 /* units of a piece of ds u', the last may be shorter; 0: all */
} lk_recurrence;

/* Operands, all dense.  Those that a cell does not have are not looked at. */
typedef struct lk_recurrence_values {
    const void *x, *u, *bias; /* bias [units]: gru */
    const void *h0, *c0;      /* [samples][units]; c0: lstm */
    void *y;
    void *h, *c; /* [samples][units], the state behind all times: h0 and c0 where there are none */
    void *
        kept; /* [samples][times][lk_recurrence_kept()] that backward reads, or NULL: there is none */
} lk_recurrence_values;

typedef struct lk_recurrence_grads {
    const void *dy, *dh, *dc; /* of y, h and c; NULL: it says nothing */
    void *dx;
    void *ds; /* [samples][times][gates * units], gru: of the others it is dx */
    void *
        before; /* [samples][times][units], h' of each time: what ds is to be multiplied with for u */
    void *dh0, *dc0;
} lk_recurrence_grads;

/** Gates of a cell, and elements of `kept` for each time of a sample. */
LK_API int64_t lk_recurrence_gates(lk_cell cell);
LK_API int64_t lk_recurrence_kept(lk_cell cell, int64_t units);

/** Bytes that both passes need as room.  Errors: LK_EOVERFLOW, those of lk_threads_now(). */
LK_API lk_status lk_recurrence_room(const lk_recurrence *r, int64_t *bytes) LK_NODISCARD;

/**
 * Compute y, h, c and, unless it is NULL, kept.
 *
 * Not collective.  `room` is lk_recurrence_room() bytes, aligned to LK_ALIGN.  Outputs must not overlap
 * anything.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_EOVERFLOW, LK_EFPENV, those of lk_threads_now().
 */
LK_API lk_status lk_recurrence_forward(const lk_recurrence *r, const lk_recurrence_values *v,
                                       void *room) LK_NODISCARD;

/** Compute all of `g` from u, h0, y and kept of the forward pass.  As lk_recurrence_forward(). */
LK_API lk_status lk_recurrence_backward(const lk_recurrence *r, const lk_recurrence_values *v,
                                        const lk_recurrence_grads *g, void *room) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_RECURRENCE_H */
