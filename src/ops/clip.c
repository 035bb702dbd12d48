/* clip: y = lo where x < lo, hi where x > hi, elsewhere x
 *
 *   dx = dy where lo <= x <= hi, elsewhere 0               clip_grad(dy, x), linear in dy
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

#include <math.h>

static lk_status clip_infer(lk_call *c, lk_output_spec *out)
{
    const lk_clip_attr *attr = c->attr;
    LK_CHECK(attr->lo <= attr->hi, LK_EINVAL,
             "clip between lo %g and hi %g: lo must not be above hi", attr->lo, attr->hi);
    LK_TRY(lk__each_infer(c, out));
    return LK_OK;
}

static lk_status clip_forward(lk_call *c)
{
    const lk_clip_attr *attr = c->attr;
    LK_TRY(lk__each_run_with(c, LK__LOOP_CLIP, attr->lo, attr->hi));
    return LK_OK;
}

static lk_status clip_grad_forward(lk_call *c)
{
    const lk_clip_attr *attr = c->attr;
    LK_TRY(lk__each_run_with(c, LK__LOOP_CLIP_GRAD, attr->lo, attr->hi));
    return LK_OK;
}

static lk_status clip_grad_apply(lk_var g, lk_var x, const lk_clip_attr *attr, lk_var *out);

static lk_status clip_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(clip_grad_apply(dout[0], c->in[1], c->attr, &din[0]));
    return LK_OK;
}

static const lk_op clip_grad = {
    .name = "clip_grad",
    .summary = "g where lo <= x <= hi, elsewhere 0",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_clip_attr),
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = clip_grad_forward,
    .backward = clip_grad_backward,
};

static lk_status clip_grad_apply(lk_var g, lk_var x, const lk_clip_attr *attr, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &clip_grad, (lk_var[]){g, x}, 2, attr, out));
    return LK_OK;
}

static lk_status clip_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &clip_grad, in, 2, c->attr, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_clip;

lk_status lk_clip(lk_var x, double lo, double hi, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_clip, &x, 1, &(lk_clip_attr){lo, hi}, out));
    return LK_OK;
}

const lk_op lk__op_clip = {
    .name = "clip",
    .summary = "x, but at least lo and at most hi",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_clip_attr),
    .saves_in = 1,
    .infer = clip_infer,
    .forward = clip_forward,
    .backward = clip_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_clip_attr){-0.45, 0.55}},
            {.n_in = 1, .in = {LK_IN(8)}, .attr = &(const lk_clip_attr){-0.45, 0.55}},
            {.n_in = 1, .in = {LK_IN(5)}, .attr = &(const lk_clip_attr){-HUGE_VAL, 0.05}},
            {0}},
};
