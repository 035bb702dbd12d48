/* rnn: y = tanh(x + h' u) at each time, h' being y of the time before.
 *
 * Formulas and gradients: lockstep/extra/recurrence.h; du: common/recurrent.
 */
#include "ops/common/ops.h"
#include "ops/common/recurrent/recurrent.h"

static lk_status rnn_step(const lk_call *c, lk__rec_time *t, lk_var *h, lk_var *cell)
{
    lk_var s;
    (void)cell;
    LK_TRY(lk_matmul(t->h, c->in[LK__REC_U], &s));
    LK_TRY(lk_add(t->x, s, &s));
    LK_TRY(lk_tanh(s, h));
    t->act[0] = *h;
    return LK_OK;
}

static lk_status rnn_back(const lk_call *c, lk__rec_time *t, lk_var *d, lk_var *dc)
{
    (void)c, (void)dc;
    LK_TRY(lk__rec_tanh_grad(*d, t->act[0], &t->ds));
    LK_TRY(lk_affine(t->ds, 1, 0, &t->ds));
    t->dx = t->ds;
    *d = LK_NO_VAR;
    return LK_OK;
}

const lk_op lk__op_rnn = {
    .name = "rnn",
    .summary = "tanh(x + h' u) at each time, and the last of them",
    LK_ARITY(3, 2),
    .attr_size = sizeof(lk_recurrent_attr),
    .saves_in = ~0U,
    .infer = lk__recurrent_infer,
    .forward = lk__recurrent_forward,
    .backward = lk__recurrent_backward,
    .data = &(const lk__rec_cell){LK_CELL_RNN, rnn_step, rnn_back},
    .samples = (const lk_op_sample[]){{.n_in = 3,
                                       .in = {LK_IN(3, 3, 2), LK_IN(2, 2), LK_IN(3, 2)},
                                       .attr = &(const lk_recurrent_attr){0},
                                       .shard_size = 2},
                                      {.n_in = 3,
                                       .in = {LK_IN(2, 2, 3), LK_IN(3, 3), LK_IN(2, 3)},
                                       .attr = &(const lk_recurrent_attr){.reverse = true}},
                                      {0}},
};

lk_status lk_rnn(lk_var x, lk_var u, lk_var h, const lk_recurrent_attr *attr, lk_var *y,
                 lk_var *last)
{
    lk_recurrent_attr defaults = {0};
    lk_var out[2];
    LK_TRY(lk_apply(x.tape, &lk__op_rnn, (lk_var[]){x, u, h}, 3, attr ? attr : &defaults, out));
    *y = out[0];
    *last = out[1];
    return LK_OK;
}
