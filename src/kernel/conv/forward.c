/* Convolution, forward: y = act(x * w + bias). */
#include "base/fpenv.h"
#include "kernel/conv/plan.h"
#include "kernel/conv/run.h"
#include "kernel/conv/winograd.h"

lk_status lk_conv_forward(lk_conv_plan *plan, const void *x, const void *w, const void *bias,
                          lk_act act, void *y)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(plan, LK_EINVAL, "plan is NULL");
    const lk__conv_shape *s = &plan->shape;
    lk__conv_operand op[] = {lk__conv_operand_y(s, "y", y), lk__conv_operand_x(s, "x", x),
                             lk__conv_operand_w(s, "w", w),
                             lk__conv_operand_vector(s, "bias", bias, bias ? s->out_channels : 0)};
    LK_TRY(lk__conv_operands_check(op, 4));
    lk__act_fn *act_fn;
    LK_TRY(lk__act_get(s->dtype, act, &act_fn));
    if (s->y_extent == 0)
        return LK_OK;
    lk__conv_call call = {.a = x,
                          .w = w,
                          .bias = bias,
                          .c = y,
                          .start = bias ? LK_START_BIAS : LK_START_ZERO,
                          .act = act_fn};
    if (s->algorithm == LK_CONV_WINOGRAD) {
        LK_TRY(lk__wino_pass_ready(s, false, &plan->wino_forward));
        LK_TRY(lk__wino_pass_pack(plan->wino_forward, w));
        return LK_TRACE(lk__wino_pass_run(plan->wino_forward, &call));
    }
    LK_TRY(lk__conv_pass_ready(s, false, &plan->forward));
    LK_TRY(lk__conv_pass_pack(plan->forward, s, w));
    lk__conv_strips strips;
    LK_TRY(lk__conv_strips_cut(plan->forward, &call, &strips));
    return LK_TRACE(lk__parallel(strips.tasks, lk__conv_strips_run, &strips));
}
