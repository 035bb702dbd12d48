/* A convolution's plan: its shape, and what each pass keeps between calls.
 *
 * A pass fills its part in its first call; until then the pointer is NULL.
 */
#ifndef LK_KERNEL_CONV_PLAN_H
#define LK_KERNEL_CONV_PLAN_H

#include "kernel/conv/pass.h"

struct lk__conv_weights;
struct lk__wino_pass;

struct lk_conv_plan {
    lk__conv_shape shape;
    lk__conv_pass *forward, *data;                  /* algorithm direct */
    struct lk__wino_pass *wino_forward, *wino_data; /* algorithm winograd */
    struct lk__conv_weights *weights;
};

#endif /* LK_KERNEL_CONV_PLAN_H */
