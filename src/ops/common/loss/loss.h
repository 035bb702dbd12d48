/* What losses share: one loss for each element or row, and their reduction to one number. */
#ifndef LK_OPS_COMMON_LOSS_H
#define LK_OPS_COMMON_LOSS_H

#include "kernel/sums.h"

#include <lockstep/op.h>
#include <lockstep/ops.h>
#include <lockstep/pieces.h>

/** The output for losses of `shape`: that, or a scalar.  Errors: LK_EINVAL for the attribute. */
lk_status lk__loss_infer(const lk_call *c, lk_shape shape, lk_output_spec *out) LK_NODISCARD;

/** As lk__loss_infer(), for two inputs of one real dtype and one shape, which the losses have. */
lk_status lk__loss_infer_pair(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** Where the losses are to be written: the output, or room for as many as `shape` has. */
lk_status lk__loss_room(lk_call *c, lk_shape shape, void **out) LK_NODISCARD;

/**
 * The output from the losses, with LK_LOSS_DEFAULT as `otherwise`: their sum, cut into pieces of the
 * batch, then divided.
 */
lk_status lk__loss_reduce(lk_call *c, lk_loss_reduction otherwise, lk_shape shape,
                          const void *losses) LK_NODISCARD;

/** The output of an op on two inputs whose losses are by element: the loop, with the number p. */
lk_status lk__loss_each(lk_call *c, lk_loss_reduction otherwise, lk__loop loop,
                        double p) LK_NODISCARD;

/** The same for losses that are terms: unless they are the output, they are added up without being
 * written. */
lk_status lk__loss_terms(lk_call *c, lk_loss_reduction otherwise, lk__loop loop, lk__sum_along sum,
                         double p) LK_NODISCARD;

/** In backward: *out = the gradients of the losses, which have `shape`, from that of the output. */
lk_status lk__loss_grad(const lk_call *c, lk_loss_reduction otherwise, lk_var dout, lk_shape shape,
                        lk_var *out) LK_NODISCARD;

/* ---- losses w (x - t)^2 by element: mean_squared_error and sum_squared_error ---- */

/* The `data` of such an op: w, and the reduction that LK_LOSS_DEFAULT is. */
typedef struct lk__squared {
    double w;
    lk_loss_reduction otherwise;
} lk__squared;

lk_status lk__squared_forward(lk_call *c) LK_NODISCARD;
lk_status lk__squared_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;

/* Samples of all reductions. */
extern const lk_op_sample lk__squared_samples[];

/* ---- cross entropy by labels on the rows of a sheet, of whose classes a part may be elsewhere ---- */

typedef struct lk__labels {
    const lk_tensor *label; /* i32 or i64, one for each row of all */
    lk_range own;           /* the classes that rows have */
} lk__labels;

/** p[to] = x[label] - p[k] of each row, x being the first input; 0 where the label is elsewhere. */
void lk__labels_less(lk__sheet *t, const lk__labels *l, int k, int to);

/** y = (y / p[0] - [is label]) p[1] of each row. */
void lk__labels_gradient(lk__sheet *t, const lk__labels *l);

#endif /* LK_OPS_COMMON_LOSS_H */
