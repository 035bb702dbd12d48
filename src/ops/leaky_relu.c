/* leaky_relu: y = x < 0 ? slope * x : x
 *
 *   dx = dy where x > 0, elsewhere slope * dy, also at 0   leaky_relu_grad(dy, x), linear in dy
 */
#include "ops/common/unary.h"

const lk_op lk__op_leaky_relu = {
    .name = "leaky_relu",
    .summary = "x < 0 ? slope * x : x",
    LK_ARITY(1, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_leaky_relu_attr),
    .saves_in = 1,
    .infer = lk__unary_infer,
    .forward = lk__each_forward,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_LEAKY_RELU,
                              .grad = LK__LOOP_LEAKY_RELU_GRAD,
                              .number = "slope"},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_leaky_relu_attr){0.1}},
            {.n_in = 1, .in = {LK_IN(7)}, .attr = &(const lk_leaky_relu_attr){0.1}},
            {0}},
};

lk_status lk_leaky_relu(lk_var x, double slope, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_leaky_relu, &x, 1, &(lk_leaky_relu_attr){slope}, out));
}
