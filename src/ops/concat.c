/* concat: values one after the other along one axis.
 *
 *   y[..., n0 + ... + n(k-1) + i, ...] = xk[..., i, ...],   nk the size of xk's axis
 *   dxk = the slice of dy that xk went to
 */
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"

#include <limits.h>

static lk_status concat_infer(lk_call *c, lk_output_spec *out)
{
    const lk_concat_attr *a = c->attr;
    const lk_tensor *first = c->x[0];
    LK_TRY(lk__axis_check(c, a->axis));
    out->dtype = first->dtype;
    out->shape = first->shape;
    for (int k = 1; k < c->n_in; k++) {
        const lk_tensor *x = c->x[k];
        lk_shape expected = x->shape;
        LK_CHECK(x->dtype == first->dtype, LK_EDTYPE,
                 "concat of %s, input 0, and %s, input %d: lk_cast() one of them",
                 lk_tensor_text(first).s, lk_tensor_text(x).s, k);
        if (expected.ndim == first->shape.ndim)
            expected.dim[a->axis] = first->shape.dim[a->axis];
        LK_CHECK(lk_shape_is_equal(expected, first->shape), LK_ESHAPE,
                 "concat along axis %d of %s, input 0, and %s, input %d: other axes must be equal",
                 a->axis, lk_tensor_text(first).s, lk_tensor_text(x).s, k);
        LK_CHECK(!__builtin_add_overflow(out->shape.dim[a->axis], x->shape.dim[a->axis],
                                         &out->shape.dim[a->axis]),
                 LK_EOVERFLOW, "concat along axis %d of %d inputs", a->axis, c->n_in);
    }
    return LK_OK;
}

static lk_status concat_forward(lk_call *c)
{
    const lk_concat_attr *a = c->attr;
    int64_t start = 0;
    for (int k = 0; k < c->n_in; k++) {
        int64_t n = c->x[k]->shape.dim[a->axis];
        lk_tensor part = lk__part(c->y[0], a->axis, start, n, 1);
        LK_TRY(lk__copy(c->x[k], &part));
        start += n;
    }
    return LK_OK;
}

static lk_status concat_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_concat_attr *a = c->attr;
    int64_t start = 0;
    for (int k = 0; k < c->n_in; k++) {
        int64_t stop = start + lk_shape_of(c->in[k]).dim[a->axis];
        if (lk_call_needs_grad(c, k))
            LK_TRY(lk_slice(dout[0], a->axis, start, stop, 1, &din[k]));
        start = stop;
    }
    return LK_OK;
}

const lk_op lk__op_concat = {
    .name = "concat",
    .summary = "values one after the other along one axis",
    .min_in = 1,
    .max_in = INT_MAX,
    .n_out = 1,
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_concat_attr),
    .infer = concat_infer,
    .forward = concat_forward,
    .backward = concat_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN(2, 3), LK_IN(4, 3)},
                                       .attr = &(lk_concat_attr){0}},
                                      {.n_in = 3,
                                       .in = {LK_IN(2, 3, 2), LK_IN(2, 1, 2), LK_IN(2, 4, 2)},
                                       .attr = &(lk_concat_attr){1}},
                                      {.n_in = 1, .in = {LK_IN(3)}, .attr = &(lk_concat_attr){0}},
                                      {0}},
};

lk_status lk_concat(const lk_var *x, int n, int axis, lk_var *out)
{
    return LK_TRACE(lk__join_apply(&lk__op_concat, x, n, axis, out));
}
