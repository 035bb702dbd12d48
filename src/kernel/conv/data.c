/* Convolution, backward data in the gather form: every position of dx collects the outputs it
 * entered, so each element of dx is one chain however the image is cut. */
#include "base/fpenv.h"
#include "kernel/conv/plan.h"
#include "kernel/conv/run.h"
#include "kernel/conv/winograd.h"

lk_status lk_conv_backward_data(lk_conv_plan *plan, const void *dy, const void *w, const void *bias,
                                bool accumulate, void *dx)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(plan, LK_EINVAL, "plan is NULL");
    LK_CHECK(!bias || !accumulate, LK_EINVAL,
             "a bias and accumulate exclude each other: a chain has one start");
    const lk__conv_shape *s = &plan->shape;
    lk__conv_operand op[] = {lk__conv_operand_x(s, "dx", dx), lk__conv_operand_y(s, "dy", dy),
                             lk__conv_operand_w(s, "w", w),
                             lk__conv_operand_vector(s, "bias", bias, bias ? s->in_channels : 0)};
    LK_TRY(lk__conv_operands_check(op, 4));
    if (s->x_extent == 0)
        return LK_OK;
    lk__conv_call call = {.a = dy,
                          .w = w,
                          .bias = bias,
                          .c = dx,
                          .start = accumulate ? LK_START_C
                                   : bias     ? LK_START_BIAS
                                              : LK_START_ZERO};
    if (s->algorithm == LK_CONV_WINOGRAD) {
        LK_TRY(lk__wino_pass_ready(s, true, &plan->wino_data));
        LK_TRY(lk__wino_pass_pack(plan->wino_data, w));
        return LK_TRACE(lk__wino_pass_run(plan->wino_data, &call));
    }
    LK_TRY(lk__conv_pass_ready(s, true, &plan->data));
    LK_TRY(lk__conv_pass_pack(plan->data, s, w));
    lk__conv_strips strips;
    LK_TRY(lk__conv_strips_cut(plan->data, &call, &strips));
    return LK_TRACE(lk__parallel(strips.tasks, lk__conv_strips_run, &strips));
}
