/* The weight gradient of a convolution: not there yet. */
#include "kernel/conv_weights.h"

#include "kernel/conv_plan.h"

lk_status lk__conv_weights_new(const lk__conv_shape *s, struct lk__conv_weights **out)
{
    (void)s;
    *out = NULL;
    return LK_RAISE(LK_ENOTSUP, "the weight gradient of a convolution");
}

void lk__conv_weights_free(struct lk__conv_weights *part)
{
    (void)part;
}

lk_status lk_conv_backward_weights(lk_conv *plan, const void *x, const void *dy, bool accumulate,
                                   void *dw)
{
    (void)x;
    (void)dy;
    (void)accumulate;
    (void)dw;
    LK_TRY(lk__conv_weights_new(&plan->shape, &plan->weights));
    return LK_OK;
}
