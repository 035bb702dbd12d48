/* The part of a convolution's plan that belongs to the weight gradient. */
#ifndef LK_KERNEL_CONV_WEIGHTS_H
#define LK_KERNEL_CONV_WEIGHTS_H

#include "kernel/conv/shape.h"

#include <lockstep/extra/conv.h>
#include <lockstep/extra/gemm.h>

struct lk__conv_weights;
struct lk__weights_aims;

/** Everything that can be computed once.  Errors: LK_EOVERFLOW, LK_ENOMEM. */
lk_status lk__conv_weights_new(const lk__conv_shape *s, struct lk__conv_weights **out) LK_NODISCARD;

/** As lk__conv_weights_new(), cut otherwise: see weights_plan.h. */
lk_status lk__conv_weights_new_cut(const lk__conv_shape *s, const struct lk__weights_aims *aims,
                                   struct lk__conv_weights **out) LK_NODISCARD;

/** Whether the gradient is computed as a product of matrices, and which: lk_gemm_run() of x and dy. */
bool lk__conv_weights_product(const lk__conv_shape *s, lk_gemm *g);

/** NULL is allowed. */
void lk__conv_weights_free(struct lk__conv_weights *part);

/** The bytes that a call computes in, with the threads and instruction set of now.  Errors: as
 * lk__conv_weights_new(). */
lk_status lk__conv_weights_room(lk_conv_plan *plan, int64_t *bytes) LK_NODISCARD;

/**
 * As lk_conv_backward_weights(), in `memory` of the caller's, aligned to LK_ALIGN, of `bytes` bytes: who has
 * many plans needs it but once.  If that is NULL or too little, in memory that the plan then keeps.
 */
lk_status lk__conv_weights_in(lk_conv_plan *plan, void *memory, int64_t bytes, const void *x,
                              const void *dy, bool accumulate, void *dw) LK_NODISCARD;

#endif /* LK_KERNEL_CONV_WEIGHTS_H */
