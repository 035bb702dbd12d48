/* batch_norm: x [samples][...][channels] normalised by its own statistics, for training.  For each
 * channel, over the m elements of a piece of the batch (or of the whole batch),
 *
 *   mean = sum x / m,  c = x - mean,  variance = sum (c c) / m,  inv = 1 / sqrt(variance + eps)
 *   y    = c (gamma inv) + beta
 *
 *   dx     = K dy + c W + B       with K = gamma inv,
 *            W = 2 dvariance / m - K inv inv (sum (dy c) / m),  B = dmean / m - K (sum dy / m)
 *   dgamma = sum (dy c) inv, dbeta = sum dy, over the pieces by the fixed tree
 *
 * With an activation that y is z, and y = act(z); dy is dz.
 *
 * Sums within a piece are lane sums of lk_reduce_axis(); those over the whole batch are cut into pieces.
 * A rank that holds whole pieces needs nothing from the others.
 */
#include "ops/common/norm/batch_norm.h"

#include "ops/common/act.h"
#include "ops/common/norm/pieces.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

enum { X = LK__NORM_X, GAMMA = LK__NORM_GAMMA, BETA = LK__NORM_BETA };

static bool is_whole(const lk_call *c)
{
    return ((const lk_batch_norm_attr *)c->attr)->whole_batch;
}

static lk__pieces pieces_of(const lk_call *c)
{
    return lk__pieces_of(c->tape, c->x[X]->dtype, c->x[X]->shape, is_whole(c));
}

static lk_status batch_norm_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__batch_norm_infer(c, out));
    lk__pieces s = pieces_of(c);
    out[1].dtype = out[2].dtype = out[0].dtype;
    out[1].shape = out[2].shape = LK_SHAPE(s.n, s.channels);
    return LK_OK;
}

static lk_status batch_norm_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    return LK_TRACE(lk__batch_norm_values(c, &s));
}

/* ---- batch_norm_grad: all gradients at once, for a backward that is not recorded ---- */

static lk_status grad_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    return LK_TRACE(lk__batch_norm_gradients(c, &s));
}

static const lk_op batch_norm_grad = {
    .name = "batch_norm_grad",
    .summary = "the gradients of x, gamma and beta",
    LK_ARITY(LK__NORM_GRAD_IN, 3),
    .flags = LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_batch_norm_attr),
    .infer = lk__batch_norm_grad_infer,
    .forward = grad_forward,
};

static lk_status fuse(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[LK__NORM_GRAD_IN];
    LK_TRY(lk__batch_norm_grad_in(c, dout, in));
    return LK_TRACE(lk_apply_gradient(c, X, &batch_norm_grad, in, LK__NORM_GRAD_IN, c->attr, din));
}

/* ---- of other ops ---- */

/* What the gradients are made of; inv and k are vectors. */
typedef struct parts {
    lk_shape shape;
    bool whole;
    lk_var centred, inv, k;
} parts;

static lk_status parts_make(lk_call *c, parts *t)
{
    t->shape = lk_shape_of(c->in[X]);
    t->whole = is_whole(c);
    LK_TRY(lk__piece_spread(c->out[1], t->shape, false, t->whole, &t->centred));
    LK_TRY(lk_sub(c->in[X], t->centred, &t->centred));
    LK_TRY(lk__batch_norm_inverse(c, c->out[2], &t->inv));
    return LK_TRACE(lk_mul(t->inv, c->in[GAMMA], &t->k));
}

/* *out = a vector spread and, if `by` is one, multiplied by it; added to or taken from *sum. */
static lk_status add_term(const parts *t, lk_var vector, bool mean, lk_var by, bool less,
                          lk_var *sum)
{
    lk_var term;
    LK_TRY(lk__piece_spread(vector, t->shape, mean, t->whole, &term));
    if (lk_is_var(by))
        LK_TRY(lk_mul(term, by, &term));
    if (!lk_is_var(*sum))
        *sum = term;
    else
        LK_TRY(less ? lk_sub(*sum, term, sum) : lk_add(*sum, term, sum));
    return LK_OK;
}

static lk_status compose_dx(const parts *t, const lk_var *dout, lk_var *dx)
{
    lk_var v, dy = dout[0];
    *dx = LK_NO_VAR;
    if (lk_is_var(dy)) {
        LK_TRY(add_term(t, t->k, false, dy, false, dx));
        LK_TRY(lk_mul(dy, t->centred, &v));
        LK_TRY(lk__piece_sum(v, true, t->whole, &v));
        LK_TRY(lk_mul(v, t->k, &v));
        LK_TRY(lk_mul(v, t->inv, &v));
        LK_TRY(lk_mul(v, t->inv, &v));
        LK_TRY(add_term(t, v, false, t->centred, true, dx));
        LK_TRY(lk__piece_sum(dy, true, t->whole, &v));
        LK_TRY(lk_mul(v, t->k, &v));
        LK_TRY(add_term(t, v, false, LK_NO_VAR, true, dx));
    }
    if (lk_is_var(dout[1]))
        LK_TRY(add_term(t, dout[1], true, LK_NO_VAR, false, dx));
    if (lk_is_var(dout[2])) {
        LK_TRY(lk_affine(dout[2], 2, 0, &v));
        LK_TRY(add_term(t, v, true, t->centred, false, dx));
    }
    return LK_OK;
}

static lk_status compose(lk_call *c, const lk_var *dout, lk_var *din)
{
    parts t;
    lk_var dz[] = {dout[0], dout[1], dout[2]};
    LK_TRY(parts_make(c, &t));
    if (lk_is_var(dz[0]))
        LK_TRY(lk__act_grad(lk__batch_norm_act(c), dz[0], c->out[0], &dz[0]));
    if (lk_call_needs_grad(c, X))
        LK_TRY(compose_dx(&t, dz, &din[X]));
    if (lk_is_var(dz[0]) && lk_call_needs_grad(c, GAMMA)) {
        LK_TRY(lk__piece_spread(t.inv, t.shape, false, t.whole, &t.inv));
        LK_TRY(lk_mul(t.centred, t.inv, &t.inv));
        LK_TRY(lk_mul(dz[0], t.inv, &t.inv));
        LK_TRY(lk_sum_to(t.inv, lk_shape_of(c->in[GAMMA]), &din[GAMMA]));
    }
    if (lk_is_var(dz[0]) && lk_call_needs_grad(c, BETA))
        LK_TRY(lk_sum_to(dz[0], lk_shape_of(c->in[BETA]), &din[BETA]));
    return LK_OK;
}

static lk_status batch_norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_tape_is_recording(c->tape))
        LK_TRY(compose(c, dout, din));
    else
        LK_TRY(fuse(c, dout, din));
    return LK_OK;
}

/* ---- batch_norm ---- */

const lk_op lk__op_batch_norm = {
    .name = "batch_norm",
    .summary = "x normalised by mean and variance of its channels over pieces of the batch",
    LK_ARITY(3, 3),
    .attr_size = sizeof(lk_batch_norm_attr),
    .saves_in = 7,
    .infer = batch_norm_infer,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .samples = (const lk_op_sample[]){{.n_in = 3,
                                       .in = {LK_IN(5, 2), LK_IN_RANGE(0.5, 2, 2), LK_IN(2)},
                                       .attr = &(const lk_batch_norm_attr){0}},
                                      {.n_in = 3,
                                       .in = {LK_IN(5, 3, 2), LK_IN(2), LK_IN(2)},
                                       .attr = &(const lk_batch_norm_attr){.eps = 0.1},
                                       .shard_size = 2},
                                      {.n_in = 3,
                                       .in = {LK_IN(5, 2, 1, 2), LK_IN(2), LK_IN(2)},
                                       .attr = &(const lk_batch_norm_attr){.eps = 0.01,
                                                                           .whole_batch = true},
                                       .shard_size = 2},
                                      {.n_in = 3,
                                       .in = {LK_IN(5, 3, 2), LK_IN(2), LK_IN(2)},
                                       .attr = &(const lk_batch_norm_attr){.eps = 0.1,
                                                                           .act = LK_ACT_RELU},
                                       .shard_size = 2},
                                      {.n_in = 3,
                                       .in = {LK_IN(5, 2), LK_IN(2), LK_IN(2)},
                                       .attr = &(const lk_batch_norm_attr){.eps = 0.1,
                                                                           .act = LK_ACT_TANH}},
                                      {0}},
};

lk_status lk_batch_norm(lk_var x, lk_var gamma, lk_var beta, const lk_batch_norm_attr *attr,
                        lk_var *out, lk_var *mean, lk_var *variance)
{
    lk_batch_norm_attr defaults = {0};
    lk_var in[] = {x, gamma, beta}, y[3] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR};
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    lk_status st = lk_apply(x.tape, &lk__op_batch_norm, in, 3, attr ? attr : &defaults, y);
    *out = y[0];
    if (mean)
        *mean = y[1];
    if (variance)
        *variance = y[2];
    return LK_TRACE(st);
}
