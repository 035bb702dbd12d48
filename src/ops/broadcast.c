/* broadcast: repeat axes of size 1, and add axes in front.
 *
 *   y[..., i, ...] = x[..., 0, ...]        a view, no copy
 *   dx = dy summed over the repeated axes
 */
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_status broadcast_infer(lk_call *c, lk_output_spec *out)
{
    const lk_shape *to = c->attr;
    const lk_tensor *x = c->x[0];
    lk_shape both;
    int64_t count;
    LK_TRY(lk_shape_count(*to, &count));
    LK_TRY(lk__broadcast_shapes(c->op->name, x->shape, *to, &both));
    LK_CHECK(lk_shape_is_equal(both, *to), LK_ESHAPE,
             "broadcast of %s to %s: axes of the former must be equal or 1", lk_tensor_text(x).s,
             lk_shape_text(*to).s);
    out->dtype = x->dtype;
    out->shape = *to;
    out->is_view = true;
    int skip = to->ndim - x->shape.ndim;
    for (int d = skip; d < to->ndim; d++)
        out->stride[d] = x->shape.dim[d - skip] == 1 ? 0 : x->stride[d - skip];
    return LK_OK;
}

static lk_status broadcast_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_sum_to(dout[0], lk_shape_of(c->in[0]), &din[0]));
}

lk_status lk_broadcast(lk_var x, lk_shape shape, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_broadcast, &x, 1, &shape, out));
}

const lk_op lk__op_broadcast = {
    .name = "broadcast",
    .summary = "x with axes of size 1 repeated and axes added in front, a view",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_shape),
    .infer = broadcast_infer,
    .backward = broadcast_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 1)}, .attr = &LK_SHAPE(4, 2, 3)},
                                      {.n_in = 1, .in = {LK_IN(3)}, .attr = &LK_SHAPE(3)},
                                      {0}},
};
