/* Activations as an attribute: which there are, and their gradients from what they give. */
#include "ops/common/act.h"

#include "ops/common/unary.h"

extern const lk_op lk__op_relu, lk__op_sigmoid, lk__op_tanh;

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
    static const lk_op *const op[] = {[LK_ACT_RELU] = &lk__op_relu,
                                      [LK_ACT_SIGMOID] = &lk__op_sigmoid,
                                      [LK_ACT_TANH] = &lk__op_tanh};
    *out = g;
    if (act != LK_ACT_NONE)
        LK_TRY(lk__unary_grad(op[act]->data, NULL, g, y, out));
    return LK_OK;
}
