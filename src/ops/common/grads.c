/* neg_mul: z = -(x * y)
 *
 *   dx = -(dz * y), dy = -(dz * x)
 *
 * pick: z = g where a > b, elsewhere 0; or the other way round
 *
 *   dg = dz picked in the same way
 *
 * Both broadcast, and gradients are summed over the axes that an input was broadcast along.
 */
#include "ops/common/grads.h"

#include "ops/common/each.h"
#include "ops/common/ops.h"

static lk_status neg_mul_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    for (int i = 0; i < 2; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk__neg_mul_grad(c, i, dout[0], c->in[1 - i], &din[i]));
    return LK_OK;
}

static const lk_op neg_mul = {.name = "neg_mul",
                              .summary = "-(x * y)",
                              LK_EACH_OP(2),
                              .flags = LK_EACH_FLAGS,
                              .saves_in = 3,
                              .backward = neg_mul_backward,
                              .data = &(const lk__each){.loop = LK__LOOP_NEG_MUL}};

lk_status lk__neg_mul(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &neg_mul, (lk_var[]){x, y}, 2, NULL, out));
}

lk_status lk__neg_mul_grad(const lk_call *c, int i, lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk__each_grad_apply(c, i, &neg_mul, (lk_var[]){x, y}, 2, NULL, out));
}

typedef struct pick_attr {
    bool otherwise;
} pick_attr;

static lk_status pick_forward(lk_call *c)
{
    const pick_attr *attr = c->attr;
    return LK_TRACE(lk__each_run(c, attr->otherwise ? LK__LOOP_PICK_OTHERS : LK__LOOP_PICK_ABOVE));
}

static lk_status pick_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const pick_attr *attr = c->attr;
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__pick_grad(c, 0, dout[0], c->in[1], c->in[2], attr->otherwise, &din[0]));
    return LK_OK;
}

static const lk_op pick = {.name = "pick",
                           .summary = "g where a > b, or where not, elsewhere 0",
                           LK_ARITY(3, 1),
                           .flags = LK_EACH_FLAGS,
                           .attr_size = sizeof(pick_attr),
                           .saves_in = 6,
                           .infer = lk__each_infer,
                           .forward = pick_forward,
                           .backward = pick_backward};

lk_status lk__pick_grad(const lk_call *c, int i, lk_var g, lk_var a, lk_var b, bool otherwise,
                        lk_var *out)
{
    lk_var in[] = {g, a, b};
    return LK_TRACE(lk__each_grad_apply(c, i, &pick, in, 3, &(pick_attr){otherwise}, out));
}
