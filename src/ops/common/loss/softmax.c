/* Softmax and log_softmax: the axis as rows, forward and backward. */
#include "ops/common/loss/softmax.h"

#include "ops/common/loss/along.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"
#include "tensor/tensor.h"

lk_status lk__softmax_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__same_infer(c, out));
    int axis = lk__softmax_axis(c, x->shape.ndim);
    LK_CHECK(axis >= 0 && axis < x->shape.ndim, LK_EINVAL,
             "%s of %s along axis %d, which it has not", c->op->name, lk_tensor_text(x).s,
             ((const lk_softmax_attr *)c->attr)->axis);
    return LK_OK;
}

lk_status lk__softmax_sum(const lk_call *c, lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    shape.dim[lk__softmax_axis(c, shape.ndim)] = 1;
    return LK_TRACE(lk_sum_to(x, shape, out));
}

lk_status lk__softmax_forward(lk_call *c)
{
    const lk__softmax *softmax = c->op->data;
    lk__along a;
    LK_TRY(lk__along_begin(c, lk__softmax_axis(c, c->x[0]->shape.ndim), &a));
    lk_rows shape = {.rows = a.rows, .cols = a.n, .ld_x = a.n, .ld_y = a.n};
    LK_TRY(softmax->rows(c->x[0]->dtype, &shape, a.x[0], a.y));
    return LK_TRACE(lk__along_end(c, &a));
}

lk_status lk__softmax_grad_forward(lk_call *c)
{
    const lk__softmax *softmax = c->op->data;
    lk__along a;
    LK_TRY(lk__along_begin(c, lk__softmax_axis(c, c->x[0]->shape.ndim), &a));
    lk__map_sums s = {.dtype = c->x[0]->dtype,
                      .rows = a.rows,
                      .n = a.n,
                      .x = {a.x[0], a.x[1]},
                      .y = a.y,
                      .overwrite = c->overwrite,
                      .fn = softmax->sheet};
    LK_TRY(lk__call_sums(c, &s));
    return LK_TRACE(lk__along_end(c, &a));
}

lk_status lk__softmax_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__softmax *softmax = c->op->data;
    lk_var in[] = {c->out[0], dout[0]};
    return LK_TRACE(lk_apply_gradient(c, 0, softmax->grad, in, 2, c->attr, &din[0]));
}

const lk_op_sample lk__softmax_samples[] = {
    {.n_in = 1, .in = {LK_IN(3, 5)}, .attr = &(const lk_softmax_attr){LK_LAST_AXIS}},
    {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3, 2)}, .attr = &(const lk_softmax_attr){1}},
    {.n_in = 1, .in = {LK_IN(4, 2)}, .attr = &(const lk_softmax_attr){0}, .shard_size = 3},
    {0}};
