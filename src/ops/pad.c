/* pad: x with elements of one value around it.
 *
 *   y[before + i] = x[i], and `value` elsewhere
 *   dx = the slice of dy that x went to
 */
#include "ops/common/ops.h"
#include "ops/common/parts.h"

static lk_status pad_infer(lk_call *c, lk_output_spec *out)
{
    const lk_pad_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < x->shape.ndim; d++) {
        int64_t *dim = &out->shape.dim[d];
        LK_CHECK(a->before[d] >= 0 && a->after[d] >= 0, LK_EINVAL,
                 "pad of axis %d of %s with %lld elements before and %lld after", d,
                 lk_tensor_text(x).s, (long long)a->before[d], (long long)a->after[d]);
        LK_CHECK(!__builtin_add_overflow(*dim, a->before[d], dim) &&
                     !__builtin_add_overflow(*dim, a->after[d], dim),
                 LK_EOVERFLOW, "pad of axis %d of %s", d, lk_tensor_text(x).s);
    }
    return LK_OK;
}

static lk_status pad_forward(lk_call *c)
{
    const lk_pad_attr *a = c->attr;
    lk_tensor part = lk__tensor_fields(c->y[0]);
    for (int d = 0; d < part.shape.ndim; d++)
        part = lk__part(&part, d, a->before[d], c->x[0]->shape.dim[d], 1);
    LK_TRY(lk__fill(c->y[0], a->value));
    return LK_TRACE(lk__copy(c->x[0], &part));
}

static lk_status pad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_pad_attr *a = c->attr;
    lk_shape shape = lk_shape_of(c->in[0]);
    din[0] = dout[0];
    for (int d = 0; d < shape.ndim; d++)
        if (a->before[d] > 0 || a->after[d] > 0)
            LK_TRY(lk_slice(din[0], d, a->before[d], a->before[d] + shape.dim[d], 1, &din[0]));
    return LK_OK;
}

const lk_op lk__op_pad = {
    .name = "pad",
    .summary = "x with elements of one value around it",
    LK_ARITY(1, 1),
    .flags = LK_OP_STRIDED,
    .attr_size = sizeof(lk_pad_attr),
    .infer = pad_infer,
    .forward = pad_forward,
    .backward = pad_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(lk_pad_attr){{1, 0}, {0, 2}, 0}},
            {.n_in = 1, .in = {LK_IN(2, 1, 3)}, .attr = &(lk_pad_attr){{0, 2, 0}, {0, 1, 0}, -1.5}},
            {0}},
};

lk_status lk_pad(lk_var x, const lk_pad_attr *pad, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_pad, &x, 1, pad, out));
}
