/* square: y = x * x
 *
 *   dx = 2 * (dy * x)                       square_grad(dy, x)
 *   of that: d(dy) = 2 * (dz * x), dx = 2 * (dz * dy)
 */
#include "ops/common/unary.h"

static lk_status square_bend(const lk_call *c, lk_var dz, lk_var *dx)
{
    return LK_TRACE(lk_apply(c->tape, c->op, (lk_var[]){dz, c->in[0]}, 2, c->attr, dx));
}

const lk_op lk__op_square = {
    .name = "square",
    .summary = "x * x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = lk__unary_backward,
    .data = &(
        const lk__each){.loop = LK__LOOP_SQUARE, .grad = LK__LOOP_SQUARE_GRAD, .bend = square_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(1, 5)}},
                                      {0}},
};

lk_status lk_square(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_square, &x, 1, NULL, out));
}
