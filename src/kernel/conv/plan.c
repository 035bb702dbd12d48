/* Make and release convolution plans. */
#include "kernel/conv/plan.h"

#include "kernel/conv/weights.h"
#include "kernel/conv/winograd.h"

#include <lockstep/extra/alloc.h>

lk_status lk_conv_plan_new(const lk_conv_shape *shape, lk_conv_plan **out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    lk__conv_shape s;
    LK_TRY(lk__conv_shape_make(shape, &s));
    lk_conv_plan *plan;
    LK_TRY(lk_alloc_zero(&plan, 1, sizeof *plan));
    plan->shape = s;
    *out = plan;
    return LK_OK;
}

void lk_conv_plan_free(lk_conv_plan *plan)
{
    if (!plan)
        return;
    lk__conv_pass_free(plan->forward);
    lk__conv_pass_free(plan->data);
    lk__wino_pass_free(plan->wino_forward);
    lk__wino_pass_free(plan->wino_data);
    lk__conv_weights_free(plan->weights);
    lk_free(plan);
}
