/* gru: gates r, z, n of x and s = h' u at each time, h' being y of the time before:
 *
 *   r = sigmoid(x + s), z = sigmoid(x + s), n = tanh(x + r (s + bias)),  y = n + z (h' - n)
 *
 * Formulas and gradients: lockstep/extra/recurrence.h; du: common/recurrent; the gradient of the bias is
 * the sum of ds of n over samples and times, by lk_sum_to().
 */
#include "ops/common/ops.h"
#include "ops/common/recurrent/recurrent.h"

/* What is kept of a time. */
enum { R, Z, N, Q };

static lk_status gru_step(const lk_call *c, lk__rec_time *t, lk_var *h, lk_var *cell)
{
    lk_var s, x, n, part;
    (void)cell;
    LK_TRY(lk_matmul(t->h, c->in[LK__REC_U], &s));
    LK_TRY(lk__rec_gate_sum(c, t->x, s, R, &t->act[R]));
    LK_TRY(lk_sigmoid(t->act[R], &t->act[R]));
    LK_TRY(lk__rec_gate_sum(c, t->x, s, Z, &t->act[Z]));
    LK_TRY(lk_sigmoid(t->act[Z], &t->act[Z]));
    LK_TRY(lk__rec_gate(c, s, N, &t->act[Q]));
    LK_TRY(lk_add(t->act[Q], c->in[LK__REC_MORE], &t->act[Q]));
    LK_TRY(lk_mul(t->act[R], t->act[Q], &n));
    LK_TRY(lk__rec_gate(c, t->x, N, &x));
    LK_TRY(lk_add(x, n, &n));
    LK_TRY(lk_tanh(n, &t->act[N]));
    LK_TRY(lk_sub(t->h, t->act[N], &part));
    LK_TRY(lk_mul(t->act[Z], part, &part));
    return LK_TRACE(lk_add(t->act[N], part, h));
}

static lk_status gru_back(const lk_call *c, lk__rec_time *t, lk_var *d, lk_var *dc)
{
    lk_var by_z, through, gate[4], part;
    (void)c, (void)dc;
    LK_TRY(lk_mul(*d, t->act[Z], &by_z));
    LK_TRY(lk_sub(*d, by_z, &part));
    LK_TRY(lk__rec_tanh_grad(part, t->act[N], &through));
    LK_TRY(lk_mul(through, t->act[Q], &part));
    LK_TRY(lk__rec_sigmoid_grad(part, t->act[R], &gate[0]));
    LK_TRY(lk_sub(t->h, t->act[N], &part));
    LK_TRY(lk_mul(*d, part, &part));
    LK_TRY(lk__rec_sigmoid_grad(part, t->act[Z], &gate[1]));
    gate[2] = through;
    LK_TRY(lk_concat(gate, 3, 1, &t->dx));
    LK_TRY(lk_mul(through, t->act[R], &gate[2]));
    LK_TRY(lk_concat(gate, 3, 1, &t->ds));
    LK_TRY(lk_affine(t->dx, 1, 0, &t->dx));
    LK_TRY(lk_affine(t->ds, 1, 0, &t->ds));
    *d = by_z;
    return LK_OK;
}

const lk_op lk__op_gru = {
    .name = "gru",
    .summary = "gated recurrent units at each time, and the last of them",
    LK_ARITY(4, 3),
    .attr_size = sizeof(lk_recurrent_attr),
    .saves_in = ~0U,
    .infer = lk__recurrent_infer,
    .forward = lk__recurrent_forward,
    .backward = lk__recurrent_backward,
    .data = &(const lk__rec_cell){LK_CELL_GRU, gru_step, gru_back},
    .samples = (const lk_op_sample[]){{.n_in = 4,
                                       .in = {LK_IN(3, 3, 6), LK_IN(2, 6), LK_IN(3, 2), LK_IN(2)},
                                       .attr = &(const lk_recurrent_attr){0},
                                       .shard_size = 2},
                                      {.n_in = 4,
                                       .in = {LK_IN(2, 2, 3), LK_IN(1, 3), LK_IN(2, 1), LK_IN(1)},
                                       .attr = &(const lk_recurrent_attr){.reverse = true}},
                                      {0}},
};

lk_status lk_gru(lk_var x, lk_var u, lk_var h, lk_var bias, const lk_recurrent_attr *attr,
                 lk_var *y, lk_var *last)
{
    lk_recurrent_attr defaults = {0};
    lk_var out[3];
    LK_TRY(
        lk_apply(x.tape, &lk__op_gru, (lk_var[]){x, u, h, bias}, 4, attr ? attr : &defaults, out));
    *y = out[0];
    *last = out[1];
    return LK_OK;
}
