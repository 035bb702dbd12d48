/* reshape: the same elements in row-major order under another shape.
 *
 *   y[i] = x[i], i counted in row-major order      a view where strides allow, else a copy
 *   dx = dy under x's shape
 */
#include "ops/common/ops.h"
#include "ops/common/parts.h"

static lk_status reshape_infer(lk_call *c, lk_output_spec *out)
{
    const lk_shape *to = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t count;
    LK_TRY(lk_shape_count(*to, &count));
    LK_CHECK(count == x->count, LK_ESHAPE, "reshape of %s, %lld elements, to %s, %lld",
             lk_tensor_text(x).s, (long long)x->count, lk_shape_text(*to).s, (long long)count);
    out->dtype = x->dtype;
    out->shape = *to;
    out->is_view = lk__reshape_strides(x, *to, out->stride);
    return LK_OK;
}

static lk_status reshape_forward(lk_call *c)
{
    lk_tensor y = lk__tensor_fields(c->y[0]);
    y.shape = c->x[0]->shape;
    lk__shape_strides(y.shape, y.stride);
    return LK_TRACE(lk__copy(c->x[0], &y));
}

static lk_status reshape_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_reshape(dout[0], lk_shape_of(c->in[0]), &din[0]));
}

const lk_op lk__op_reshape = {
    .name = "reshape",
    .summary = "the same elements in row-major order under another shape",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_shape),
    .infer = reshape_infer,
    .forward = reshape_forward,
    .backward = reshape_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1,
                                       .in = {LK_IN(2, 3, 4)},
                                       .attr = &LK_SHAPE(4, 1, 6)},
                                      {.n_in = 1, .in = {LK_IN(1, 1)}, .attr = &LK_SCALAR},
                                      {0}},
};

lk_status lk_reshape(lk_var x, lk_shape shape, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_reshape, &x, 1, &shape, out));
}
