/* conv_relu: relu of a convolution, in one pass: y = z < 0 ? 0 : z, z = conv(x, w) + b.
 *
 *   dz = dy where y > 0, elsewhere 0; then as conv from dz
 */
#include "ops/common/conv.h"
#include "ops/common/ops.h"

static lk_status conv_relu_forward(lk_call *c)
{
    LK_TRY(lk__conv_compute(c, LK_ACT_RELU));
    return LK_OK;
}

static lk_status conv_relu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dz;
    LK_TRY(lk__relu_grad(dout[0], c->out[0], &dz));
    LK_TRY(lk__conv_gradients(c, dz, din));
    return LK_OK;
}

extern const lk_op lk__op_conv_relu;

lk_status lk_conv_relu(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr, lk_var *out)
{
    static const lk_conv_attr usual;
    LK_TRY(lk_apply(x.tape, &lk__op_conv_relu, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2,
                    attr ? attr : &usual, out));
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

const lk_op lk__op_conv_relu = {
    .name = "conv_relu",
    .summary = "relu of a convolution of x with w, plus b, in 1 to 3 dimensions, channels last",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = lk__conv_infer,
    .forward = conv_relu_forward,
    .backward = conv_relu_backward,
    .samples = (const lk_op_sample[]){{.n_in = 3,
                                       .in = {LK_IN(3, 5, 2), LK_IN(3, 2, 2), LK_IN(2)},
                                       .attr = ATTR(.groups = 1),
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 4, 3, 2), LK_IN(3, 2, 2, 1)},
                                       .attr = ATTR(.window.stride = {2, 1},
                                                    .window.pad_lo = {1, 0},
                                                    .window.pad_hi = {2, 1}),
                                       .shard_size = 1},
                                      {.n_in = 3,
                                       .in = {LK_IN(2, 3, 5, 2), LK_IN(3, 3, 2, 2), LK_IN(2)},
                                       .attr = ATTR(.window.pad_lo = {1, 0},
                                                    .window.pad_hi = {1, 1},
                                                    .algorithm = LK_CONV_WINOGRAD),
                                       .shard_size = 1},
                                      {0}},
};
