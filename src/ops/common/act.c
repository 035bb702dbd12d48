/* Activations as an attribute: which there are, and their gradients from what they give. */
#include "ops/common/act.h"

#include "ops/common/ops.h"

lk_status lk__act_check(const char *op, lk_act act)
{
    LK_CHECK(act >= LK_ACT_NONE && act <= LK_ACT_TANH, LK_EINVAL,
             "%s with activation number %d: there are none, relu, sigmoid and tanh; apply others "
             "behind it",
             op, (int)act);
    return LK_OK;
}

lk_status lk__act_grad(lk_act act, lk_var g, lk_var y, lk_var *out)
{
    static lk_status (*const grad[])(lk_var g, lk_var y,
                                     lk_var * out) = {[LK_ACT_RELU] = lk__relu_grad,
                                                      [LK_ACT_SIGMOID] = lk__sigmoid_grad,
                                                      [LK_ACT_TANH] = lk__tanh_grad};
    *out = g;
    if (act != LK_ACT_NONE)
        LK_TRY(grad[act](g, y, out));
    return LK_OK;
}
