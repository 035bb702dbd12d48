/* add_act: z = act(x + y), broadcast to one shape, in one pass: a residual sum or a bias, and what is behind it.
 *
 *   dx = ds, dy = ds, each summed over the axes it was broadcast along, where ds is the gradient of the
 *   sum, from dz and z: relu dz where z > 0, elsewhere 0; sigmoid dz * (z * (1 - z)); tanh dz * (1 - z^2)
 */
#include "ops/common/act.h"
#include "ops/common/each.h"

static lk_act act_of(const lk_call *c)
{
    return ((const lk_add_act_attr *)c->attr)->act;
}

static lk_status add_act_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__act_check(c->op->name, act_of(c)));
    return LK_TRACE(lk__each_infer(c, out));
}

static lk_status add_act_forward(lk_call *c)
{
    static const lk__loop loop[] = {[LK_ACT_NONE] = LK__LOOP_ADD,
                                    [LK_ACT_RELU] = LK__LOOP_ADD_RELU,
                                    [LK_ACT_SIGMOID] = LK__LOOP_ADD_SIGMOID,
                                    [LK_ACT_TANH] = LK__LOOP_ADD_TANH};
    return LK_TRACE(lk__each_run(c, loop[act_of(c)]));
}

static lk_status add_act_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var ds;
    LK_TRY(lk__act_grad(act_of(c), dout[0], c->out[0], &ds));
    for (int i = 0; i < 2; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk__each_grad(c, i, ds, &din[i]));
    return LK_OK;
}

#define ATTR(act) (&(const lk_add_act_attr){act})

static const lk_op_sample samples[] = {
    {.n_in = 2, .in = {LK_IN(2, 3), LK_IN(2, 3)}, .attr = ATTR(LK_ACT_RELU)},
    {.n_in = 2, .in = {LK_IN(5, 2, 3), LK_IN(3)}, .attr = ATTR(LK_ACT_SIGMOID), .shard_size = 2},
    {.n_in = 2, .in = {LK_IN(2, 1, 3), LK_IN(4, 1)}, .attr = ATTR(LK_ACT_TANH)},
    {.n_in = 2, .in = {LK_IN(4, 1), LK_IN(1)}, .attr = ATTR(LK_ACT_NONE)},
    {0}};

const lk_op lk__op_add_act = {
    .name = "add_act",
    .summary = "an activation of x + y",
    LK_ARITY(2, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_add_act_attr),
    .infer = add_act_infer,
    .forward = add_act_forward,
    .backward = add_act_backward,
    .samples = samples,
};

lk_status lk_add_act(lk_var x, lk_var y, lk_act act, lk_var *out)
{
    return LK_TRACE(
        lk_apply(x.tape, &lk__op_add_act, (lk_var[]){x, y}, 2, &(lk_add_act_attr){act}, out));
}
