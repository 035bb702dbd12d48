/* slice: some indices of one axis.
 *
 *   y[..., i, ...] = x[..., start + i * step, ...]        a view, no copy
 *   dx = slice_grad of dy: zeros of x's shape with dy in place of the slice
 *
 * The gradient of slice_grad is the slice of its output's.
 */
#include "ops/common/axes.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"

static int64_t step_of(const lk_slice_attr *a)
{
    return a->step == 0 ? 1 : a->step;
}

static lk_status slice_infer(lk_call *c, lk_output_spec *out)
{
    const lk_slice_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__axis_check(c, a->axis));
    LK_CHECK(a->start >= 0 && a->start <= a->stop && a->stop <= x->shape.dim[a->axis], LK_EINVAL,
             "slice %lld to %lld of axis %d of %s, which has %lld: 0 <= start <= stop <= %lld",
             (long long)a->start, (long long)a->stop, a->axis, lk_tensor_text(x).s,
             (long long)x->shape.dim[a->axis], (long long)x->shape.dim[a->axis]);
    LK_CHECK(a->step >= 0, LK_EINVAL,
             "slice of axis %d of %s with step %lld: it is at least 1, and 0 means 1", a->axis,
             lk_tensor_text(x).s, (long long)a->step);
    int64_t length = a->stop - a->start;
    int64_t n = length / step_of(a) + (length % step_of(a) != 0);
    lk_tensor part = lk__part(x, a->axis, a->start, n, step_of(a));
    out->dtype = x->dtype;
    out->shape = part.shape;
    out->is_view = true;
    memcpy(out->stride, part.stride, sizeof out->stride);
    out->offset = part.offset - x->offset;
    return LK_OK;
}

/* Attributes of slice_grad: where in zeros of this shape its input goes. */
typedef struct slice_grad_attr {
    lk_shape shape;
    lk_slice_attr slice;
} slice_grad_attr;

static lk_status slice_grad_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const slice_grad_attr *)c->attr)->shape;
    return LK_OK;
}

static lk_status slice_grad_forward(lk_call *c)
{
    const slice_grad_attr *a = c->attr;
    const lk_slice_attr *s = &a->slice;
    LK_TRY(lk__fill(c->y[0], 0));
    lk_tensor part = lk__part(c->y[0], s->axis, s->start, c->x[0]->shape.dim[s->axis], step_of(s));
    LK_TRY(lk__copy(c->x[0], &part));
    return LK_OK;
}

extern const lk_op lk__op_slice;

static lk_status slice_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const slice_grad_attr *a = c->attr;
    LK_TRY(lk_apply(c->tape, &lk__op_slice, dout, 1, &a->slice, din));
    return LK_OK;
}

static const lk_op slice_grad = {
    .name = "slice_grad",
    .summary = "zeros with x in place of a slice",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(slice_grad_attr),
    .infer = slice_grad_infer,
    .forward = slice_grad_forward,
    .backward = slice_grad_backward,
};

static lk_status slice_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    slice_grad_attr a = {.shape = lk_shape_of(c->in[0]), .slice = *(const lk_slice_attr *)c->attr};
    LK_TRY(lk_apply(c->tape, &slice_grad, dout, 1, &a, din));
    return LK_OK;
}

lk_status lk_slice(lk_var x, int axis, int64_t start, int64_t stop, int64_t step, lk_var *out)
{
    lk_slice_attr a = {axis, start, stop, step};
    LK_TRY(lk_apply(x.tape, &lk__op_slice, &x, 1, &a, out));
    return LK_OK;
}

const lk_op lk__op_slice = {
    .name = "slice",
    .summary = "indices start, start + step, ... below stop of one axis, a view",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_slice_attr),
    .infer = slice_infer,
    .backward = slice_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(5, 3)}, .attr = &(lk_slice_attr){0, 1, 5, 3}},
            {.n_in = 1, .in = {LK_IN(2, 7, 2)}, .attr = &(lk_slice_attr){1, 0, 7, 2}},
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(lk_slice_attr){.axis = 1, .stop = 2}},
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(lk_slice_attr){1, 2, 3, 5}},
            {0}},
};
