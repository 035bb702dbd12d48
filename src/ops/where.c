/* where: z = x where the condition is not 0, elsewhere y; all three broadcast to one shape.
 *
 *   dx = dz where the condition is not 0, elsewhere 0
 *   dy = 0 where the condition is not 0, elsewhere dz; each summed over the axes of a broadcast
 *
 * The condition has any dtype, -0 is 0, NaN is not, and it has no gradient.
 */
#include "ops/common/each.h"
#include "tensor/tensor.h"

static lk_status where_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *const *x = c->x;
    LK_CHECK(lk_dtype_is_real(x[1]->dtype) && x[1]->dtype == x[2]->dtype, LK_EDTYPE,
             "where selects from %s and %s: both must be f32, or both f64", lk_tensor_text(x[1]).s,
             lk_tensor_text(x[2]).s);
    out->dtype = x[1]->dtype;
    out->shape = x[0]->shape;
    for (int i = 1; i < 3; i++)
        LK_TRY(lk__broadcast_shapes("where", out->shape, x[i]->shape, &out->shape));
    return LK_OK;
}

static lk_status where_forward(lk_call *c)
{
    static const lk__loop by_dtype[LK_N_DTYPES] = {
        [LK_F32] = LK__LOOP_WHERE_F32,   [LK_F64] = LK__LOOP_WHERE_F64,
        [LK_I32] = LK__LOOP_WHERE_I32,   [LK_I64] = LK__LOOP_WHERE_I64,
        [LK_U8] = LK__LOOP_WHERE_U8,     [LK_F16] = LK__LOOP_WHERE_HALF,
        [LK_BF16] = LK__LOOP_WHERE_HALF,
    };
    return LK_TRACE(lk__each_run(c, by_dtype[c->x[0]->dtype]));
}

static lk_status where_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var zeros;
    LK_TRY(lk_zeros_like(dout[0], &zeros));
    lk_var of_x[] = {c->in[0], dout[0], zeros}, of_y[] = {c->in[0], zeros, dout[0]};
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__each_grad_apply(c, 1, c->op, of_x, 3, NULL, &din[1]));
    if (lk_call_needs_grad(c, 2))
        LK_TRY(lk__each_grad_apply(c, 2, c->op, of_y, 3, NULL, &din[2]));
    return LK_OK;
}

const lk_op lk__op_where = {
    .name = "where",
    .summary = "x where the condition is not 0, elsewhere y",
    LK_ARITY(3, 1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = where_infer,
    .forward = where_forward,
    .backward = where_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 3, .in = {LK_IN_INDEX(2, 2, 3), LK_IN(2, 3), LK_IN(2, 3)}},
            {.n_in = 3, .in = {LK_IN_INDEX(2, 4, 1), LK_IN(2, 1, 3), LK_IN(1)}},
            {.n_in = 3, .in = {LK_IN_INDEX(2, 5, 3), LK_IN(3), LK_IN(5, 1)}, .shard_size = 2},
            {.n_in = 3, .in = {LK_IN_FIXED(0.5, 1, 3), LK_IN(3), LK_IN(3)}},
            {0}},
};

lk_status lk_where(lk_var condition, lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(
        lk_apply(condition.tape, &lk__op_where, (lk_var[]){condition, x, y}, 3, NULL, out));
}
