/* clip: y = lo where x < lo, hi where x > hi, elsewhere x
 *
 *   dx = dy where lo <= x <= hi, elsewhere 0               clip_grad(dy, x), linear in dy
 */
#include "ops/common/unary.h"

#include <math.h>

static lk_status clip_infer(lk_call *c, lk_output_spec *out)
{
    const lk_clip_attr *attr = c->attr;
    LK_CHECK(attr->lo <= attr->hi, LK_EINVAL,
             "clip between lo %g and hi %g: lo must not be above hi", attr->lo, attr->hi);
    return LK_TRACE(lk__each_infer(c, out));
}

const lk_op lk__op_clip = {
    .name = "clip",
    .summary = "x, but at least lo and at most hi",
    LK_ARITY(1, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_clip_attr),
    .saves_in = 1,
    .infer = clip_infer,
    .forward = lk__each_forward,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_CLIP, .grad = LK__LOOP_CLIP_GRAD},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_clip_attr){-0.45, 0.55}},
            {.n_in = 1, .in = {LK_IN(8)}, .attr = &(const lk_clip_attr){-0.45, 0.55}},
            {.n_in = 1, .in = {LK_IN(5)}, .attr = &(const lk_clip_attr){-HUGE_VAL, 0.05}},
            {0}},
};

lk_status lk_clip(lk_var x, double lo, double hi, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_clip, &x, 1, &(lk_clip_attr){lo, hi}, out));
}
