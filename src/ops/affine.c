/* affine: y = scale * x + shift, in two roundings
 *
 *   dx = scale * dy
 */
#include "ops/common/each.h"

static lk_status affine_infer(lk_call *c, lk_output_spec *out)
{
    const lk_affine_attr *attr = c->attr;
    LK_TRY(lk__each_infer(c, out));
    LK_CHECK(lk__is_finite(out->dtype, attr->scale) && lk__is_finite(out->dtype, attr->shift),
             LK_EINVAL, "affine of %s with scale %g and shift %g: both must be finite there",
             lk_tensor_text(c->x[0]).s, attr->scale, attr->shift);
    return LK_OK;
}

static lk_status affine_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_affine_attr scale = {.scale = ((const lk_affine_attr *)c->attr)->scale};
    return LK_TRACE(lk_apply_gradient(c, 0, c->op, dout, 1, &scale, &din[0]));
}

const lk_op lk__op_affine = {
    .name = "affine",
    .summary = "scale * x + shift",
    LK_ARITY(1, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_affine_attr),
    .infer = affine_infer,
    .forward = lk__each_forward,
    .backward = affine_backward,
    .data = &(const lk__each){.loop = LK__LOOP_AFFINE},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_affine_attr){-1.5, 0.25}},
            {.n_in = 1, .in = {LK_IN(5, 1)}, .attr = &(const lk_affine_attr){2, 0}},
            {0}},
};

lk_status lk_affine(lk_var x, double scale, double shift, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_affine, &x, 1, &(lk_affine_attr){scale, shift}, out));
}
