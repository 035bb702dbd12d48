/* Two moving means, corrected for their start at 0. */
#include "optim/rules.h"

#include <math.h>

lk_optimizer_state lk__moments_state(const void *options)
{
    (void)options;
    return (lk_optimizer_state){.slab = {"m", "v"}};
}

lk__update lk__moments_update(const lk_update_call *call)
{
    const lk__moments_options *o = call->options;
    lk__update u = lk__update_of(call);
    u.b1 = o->beta1;
    u.c1 = 1 - o->beta1;
    u.b2 = o->beta2;
    u.c2 = 1 - o->beta2;
    u.eps = o->eps;
    u.rate = call->rate / (1 - lk__power(o->beta1, call->step + 1));
    u.root = 1 / sqrt(1 - lk__power(o->beta2, call->step + 1));
    return u;
}
