/* lstm: gates i, f, g, o of x + h' u at each time, h' being y and c' being c of the time before:
 *
 *   c = sigmoid(f + forget) c' + sigmoid(i) tanh(g),  y = sigmoid(o) tanh(c)
 *
 * Formulas and gradients: lockstep/extra/recurrence.h; du: common/recurrent.
 */
#include "ops/common/ops.h"
#include "ops/common/recurrent/recurrent.h"

/* What is kept of a time. */
enum { I, F, G, O, T };

static lk_status lstm_step(const lk_call *c, lk__rec_time *t, lk_var *h, lk_var *cell)
{
    lk_var s, a, b, *act = t->act;
    LK_TRY(lk_matmul(t->h, c->in[LK__REC_U], &s));
    for (int i = 0; i <= O; i++)
        LK_TRY(lk__rec_gate_sum(c, t->x, s, i, &act[i]));
    LK_TRY(lk_sigmoid(act[I], &act[I]));
    LK_TRY(lk_affine(act[F], 1, ((const lk_recurrent_attr *)c->attr)->forget, &act[F]));
    LK_TRY(lk_sigmoid(act[F], &act[F]));
    LK_TRY(lk_tanh(act[G], &act[G]));
    LK_TRY(lk_sigmoid(act[O], &act[O]));
    LK_TRY(lk_mul(act[F], t->c, &a));
    LK_TRY(lk_mul(act[I], act[G], &b));
    LK_TRY(lk_add(a, b, cell));
    LK_TRY(lk_tanh(*cell, &act[T]));
    return LK_TRACE(lk_mul(act[O], act[T], h));
}

static lk_status lstm_back(const lk_call *c, lk__rec_time *t, lk_var *d, lk_var *dc)
{
    lk_var through, part, gate[4], *act = t->act;
    (void)c;
    LK_TRY(lk_mul(*d, act[O], &part));
    LK_TRY(lk__rec_tanh_grad(part, act[T], &through));
    if (lk_is_var(*dc))
        LK_TRY(lk_add(*dc, through, &through));
    LK_TRY(lk_mul(through, act[G], &part));
    LK_TRY(lk__rec_sigmoid_grad(part, act[I], &gate[I]));
    LK_TRY(lk_mul(through, t->c, &part));
    LK_TRY(lk__rec_sigmoid_grad(part, act[F], &gate[F]));
    LK_TRY(lk_mul(through, act[I], &part));
    LK_TRY(lk__rec_tanh_grad(part, act[G], &gate[G]));
    LK_TRY(lk_mul(*d, act[T], &part));
    LK_TRY(lk__rec_sigmoid_grad(part, act[O], &gate[O]));
    LK_TRY(lk_concat(gate, 4, 1, &t->ds));
    LK_TRY(lk_affine(t->ds, 1, 0, &t->ds));
    t->dx = t->ds;
    LK_TRY(lk_mul(through, act[F], dc));
    *d = LK_NO_VAR;
    return LK_OK;
}

const lk_op lk__op_lstm = {
    .name = "lstm",
    .summary = "long short-term memory at each time, and the last h and c",
    LK_ARITY(4, 4),
    .attr_size = sizeof(lk_recurrent_attr),
    .saves_in = ~0U,
    .infer = lk__recurrent_infer,
    .forward = lk__recurrent_forward,
    .backward = lk__recurrent_backward,
    .data = &(const lk__rec_cell){LK_CELL_LSTM, lstm_step, lstm_back},
    .samples =
        (const lk_op_sample[]){{.n_in = 4,
                                .in = {LK_IN(3, 3, 8), LK_IN(2, 8), LK_IN(3, 2), LK_IN(3, 2)},
                                .attr = &(const lk_recurrent_attr){0},
                                .shard_size = 2},
                               {.n_in = 4,
                                .in = {LK_IN(2, 2, 4), LK_IN(1, 4), LK_IN(2, 1), LK_IN(2, 1)},
                                .attr = &(const lk_recurrent_attr){.reverse = true, .forget = 1}},
                               {0}},
};

lk_status lk_lstm(lk_var x, lk_var u, lk_var h, lk_var c, const lk_recurrent_attr *attr, lk_var *y,
                  lk_var last[2])
{
    lk_recurrent_attr defaults = {0};
    lk_var out[4];
    LK_TRY(lk_apply(x.tape, &lk__op_lstm, (lk_var[]){x, u, h, c}, 4, attr ? attr : &defaults, out));
    *y = out[0];
    last[0] = out[1];
    last[1] = out[2];
    return LK_OK;
}
