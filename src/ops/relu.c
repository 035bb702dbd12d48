/* relu: y = x < 0 ? 0 : x
 *
 *   dx = dy where y > 0, elsewhere 0, also at 0            relu_grad(dy, y), linear in dy
 */
#include "ops/common/unary.h"

const lk_op lk__op_relu = {
    .name = "relu",
    .summary = "x < 0 ? 0 : x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_RELU, .grad = LK__LOOP_RELU_GRAD},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(7)}},
                                      {0}},
};

lk_status lk_relu(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_relu, &x, 1, NULL, out));
}
