/* copy: the elements of x in row-major order without gaps.
 *
 *   y = x
 *   dx = dy
 */
#include "ops/common/ops.h"
#include "ops/common/parts.h"

static lk_status copy_forward(lk_call *c)
{
    return LK_TRACE(lk__copy(c->x[0], c->y[0]));
}

static lk_status copy_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)c;
    din[0] = dout[0];
    return LK_OK;
}

lk_status lk_contiguous(lk_var x, lk_var *out)
{
    const lk_tensor *t = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_value(x, &t));
    if (lk_tensor_is_contiguous(t))
        *out = x;
    else
        LK_TRY(lk_copy(x, out));
    return LK_OK;
}

const lk_op lk__op_copy = {
    .name = "copy",
    .summary = "x, its elements in row-major order without gaps",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .infer = lk__like_infer,
    .forward = copy_forward,
    .backward = copy_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}}, {0}},
};

lk_status lk_copy(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_copy, &x, 1, NULL, out));
}
