/* sum_to: undo a broadcast.
 *
 *   y = x summed over the axes that broadcast `shape` to x's shape
 *   dx = broadcast of dy to x's shape
 *
 * Sums are those of lk_reduce_axis(): lanes within a piece, pieces of the batch by the fixed tree.
 */
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

/* Bits of the axes of `x` that are summed away. */
static unsigned summed_axes(lk_shape x, lk_shape to)
{
    unsigned axes = 0;
    int skip = x.ndim - to.ndim;
    for (int d = 0; d < x.ndim; d++)
        if (d < skip || (to.dim[d - skip] == 1 && x.dim[d] != 1))
            axes |= 1u << d;
    return axes;
}

static lk_status sum_to_infer(lk_call *c, lk_output_spec *out)
{
    const lk_shape *to = c->attr;
    int64_t count;
    LK_TRY(lk_shape_count(*to, &count));
    lk_shape from = c->x[0]->shape, both;
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(from.ndim >= to->ndim, LK_ESHAPE, "sum_to of %s to %s, which has more axes",
             lk_tensor_text(c->x[0]).s, lk_shape_text(*to).s);
    LK_TRY(lk__broadcast_shapes(c->op->name, from, *to, &both));
    LK_CHECK(lk_shape_is_equal(both, from), LK_ESHAPE,
             "sum_to of %s to %s, which does not broadcast to it", lk_tensor_text(c->x[0]).s,
             lk_shape_text(*to).s);
    out->shape = *to;
    return LK_OK;
}

static lk_status sum_to_forward(lk_call *c)
{
    const lk_shape *to = c->attr;
    return LK_TRACE(lk__reduce_axes(c, LK_REDUCE_AXIS_SUM, c->x[0],
                                    summed_axes(c->x[0]->shape, *to), lk__tensor_start(c->y[0])));
}

static lk_status sum_to_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_broadcast(dout[0], lk_shape_of(c->in[0]), &din[0]));
}

lk_status lk_sum_to(lk_var x, lk_shape shape, lk_var *out)
{
    const lk_tensor *t = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_value(x, &t));
    if (lk_shape_is_equal(t->shape, shape))
        *out = x;
    else
        LK_TRY(lk_apply(x.tape, &lk__op_sum_to, &x, 1, &shape, out));
    return LK_OK;
}

const lk_op lk__op_sum_to = {
    .name = "sum_to",
    .summary = "x summed over the axes along which a shape is broadcast to x's",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(lk_shape),
    .infer = sum_to_infer,
    .forward = sum_to_forward,
    .backward = sum_to_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1,
                                       .in = {LK_IN(5, 2, 3)},
                                       .attr = &LK_SHAPE(2, 1),
                                       .shard_size = 2},
                                      {.n_in = 1, .in = {LK_IN(5, 3)}, .attr = &LK_SHAPE(3)},
                                      {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &LK_SCALAR},
                                      {0}},
};
