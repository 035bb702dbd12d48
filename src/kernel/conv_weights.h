/* The part of a convolution's plan that belongs to the weight gradient. */
#ifndef LK_KERNEL_CONV_WEIGHTS_H
#define LK_KERNEL_CONV_WEIGHTS_H

#include "kernel/conv_shape.h"

struct lk__conv_weights;
struct lk__weights_aims;

/** Everything that can be computed once.  Errors: LK_EOVERFLOW, LK_ENOMEM. */
lk_status lk__conv_weights_new(const lk__conv_shape *s, struct lk__conv_weights **out) LK_NODISCARD;

/** As lk__conv_weights_new(), cut otherwise: see conv_weights_plan.h. */
lk_status lk__conv_weights_new_cut(const lk__conv_shape *s, const struct lk__weights_aims *aims,
                                   struct lk__conv_weights **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__conv_weights_free(struct lk__conv_weights *part);

#endif /* LK_KERNEL_CONV_WEIGHTS_H */
