/* linear_relu: relu of linear, in one pass: y = z < 0 ? 0 : z, z = x w + b for each row of x.
 *
 *   dz = dy where y > 0, elsewhere 0; then as linear from dz
 */
#include "ops/common/ops.h"
#include "ops/common/products.h"

static lk_status linear_relu_forward(lk_call *c)
{
    LK_TRY(lk__linear_compute(c, LK_ACT_RELU));
    return LK_OK;
}

static lk_status linear_relu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dz;
    LK_TRY(lk__relu_grad(dout[0], c->out[0], &dz));
    LK_TRY(lk__linear_gradients(c, dz, din));
    return LK_OK;
}

extern const lk_op lk__op_linear_relu;

lk_status lk_linear_relu(lk_var x, lk_var w, lk_var b, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_linear_relu, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2, NULL,
                    out));
    return LK_OK;
}

const lk_op lk__op_linear_relu = {
    .name = "linear_relu",
    .summary = "relu of x w + b for each row of x, b optional",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .saves_in = 3,
    .infer = lk__linear_infer,
    .forward = linear_relu_forward,
    .backward = linear_relu_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 3, .in = {LK_IN(5, 3), LK_IN(3, 4), LK_IN(4)}, .shard_size = 2},
            {.n_in = 2, .in = {LK_IN(3, 2, 2, 2), LK_IN(2, 3)}, .shard_size = 2},
            {0}},
};
