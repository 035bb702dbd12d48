/* cast: x as another dtype.
 *
 *   y = x converted by the rule of tensor.h: to reals the nearest value, to integers towards zero
 *   dx = dy as x's dtype; for f32 and f64 alone
 */
#include "ops/common/each.h"
#include "ops/common/parts.h"

static lk_status cast_infer(lk_call *c, lk_output_spec *out)
{
    const lk_cast_attr *a = c->attr;
    LK_CHECK(lk_dtype_size(a->to) > 0, LK_EDTYPE, "cast of %s to dtype number %d",
             lk_tensor_text(c->x[0]).s, (int)a->to);
    out->dtype = a->to;
    out->shape = c->x[0]->shape;
    return LK_OK;
}

/* Between the two real types the machine's conversions follow the rule, in the floating-point
 * environment of lk__each_run(). */
static lk_status cast_forward(lk_call *c)
{
    lk_dtype from = c->x[0]->dtype, to = c->y[0]->dtype;
    if (from != to && lk_dtype_is_real(from) && lk_dtype_is_real(to))
        LK_TRY(lk__each_run(c, LK__LOOP_CAST));
    else
        LK_TRY(lk__copy(c->x[0], c->y[0]));
    return LK_OK;
}

static lk_status cast_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_cast(dout[0], lk_dtype_of(c->in[0]), &din[0]));
}

/* Checked within f64: a rounding to f32 would drown the differences. */
const lk_op lk__op_cast = {
    .name = "cast",
    .summary = "x converted to another dtype",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_cast_attr),
    .infer = cast_infer,
    .forward = cast_forward,
    .backward = cast_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1,
                                       .in = {LK_IN(2, 3)},
                                       .attr = &(lk_cast_attr){LK_F64}},
                                      {0}},
};

lk_status lk_cast(lk_var x, lk_dtype to, lk_var *out)
{
    const lk_tensor *t = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_value(x, &t));
    if (t->dtype == to)
        *out = x;
    else
        LK_TRY(lk_apply(x.tape, &lk__op_cast, &x, 1, &(lk_cast_attr){to}, out));
    return LK_OK;
}
