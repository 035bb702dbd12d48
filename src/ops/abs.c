/* abs: y = |x|
 *
 *   dx = dy where x > 0, -dy where x < 0, 0 at 0           abs_grad(dy, x), linear in dy
 */
#include "ops/common/unary.h"

const lk_op lk__op_abs = {
    .name = "abs",
    .summary = "|x|",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_ABS, .grad = LK__LOOP_ABS_GRAD},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(7)}},
                                      {0}},
};

lk_status lk_abs(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_abs, &x, 1, NULL, out));
}
