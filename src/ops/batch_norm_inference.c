/* batch_norm_inference: x [samples][...][channels] normalised by given statistics.  For each
 * channel, with inv = 1 / sqrt(variance + eps) and c = x - mean,
 *
 *   y = c (gamma inv) + beta
 *
 *   and, if the attributes say so, act(z) of that z; dy is then dz
 *
 *   dx     = dy gamma inv
 *   dgamma = sum (dy c) inv, dbeta = sum dy, dmean = -gamma inv sum dy,
 *   dvariance = -1/2 gamma inv^3 sum (dy c); sums over all rows, cut into pieces of the batch
 */
#include "ops/common/act.h"
#include "ops/common/norm/batch_norm.h"
#include "ops/common/norm/pieces.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

enum { X, GAMMA, BETA, MEAN, VARIANCE };

static lk_status batch_norm_inference_forward(lk_call *c)
{
    lk__pieces s = lk__pieces_of(c->tape, c->x[X]->dtype, c->x[X]->shape, true);
    const void *v[5];
    void *scale;
    for (int i = 0; i < 5; i++)
        v[i] = lk__tensor_start(c->x[i]);
    LK_TRY(lk_call_scratch(c, s.channels * (int64_t)lk_dtype_size(s.dtype), &scale));
    lk__pieces_in inverse = {.v = {v[VARIANCE]}, .y = scale};
    lk__pieces_in by_gamma = {.v = {scale, v[GAMMA]}, .y = scale};
    LK_TRY(lk__pieces_vector(&s, &inverse, lk__batch_norm_eps(c), LK__TERM_INVERSE));
    LK_TRY(lk__pieces_vector(&s, &by_gamma, 0, LK__TERM_PRODUCT));
    lk__pieces_in all = {.x = {v[X]},
                         .v = {v[MEAN], scale, v[BETA]},
                         .y = lk__tensor_start(c->y[0]),
                         .act = lk__batch_norm_act(c)};
    return LK_TRACE(lk__pieces_map(c, &s, &all, LK__TERM_CHANNELS));
}

/* ---- batch_norm_inference_grad: dx, sum dy and sum (dy c) at once, of x, dy, mean and gamma inv ---- */

static void scale_sheet(lk__sheet *t)
{
    lk__sheet_map(t, LK__TERM_SCALE);
}

static lk_status grad_forward(lk_call *c)
{
    lk__pieces s = lk__pieces_of(c->tape, c->x[0]->dtype, c->x[0]->shape, true);
    void *const sums[] = {lk__tensor_start(c->y[1]), lk__tensor_start(c->y[2])};
    lk__map_sums m = {.dtype = s.dtype,
                      .rows = s.rows,
                      .n = s.channels,
                      .piece = s.sum,
                      .of = {LK_SUMS_ROWS, LK_SUMS_ROWS, LK_SUMS_SHARED, LK_SUMS_SHARED},
                      .y = lk__tensor_start(c->y[0]),
                      .overwrite = c->overwrite,
                      .fn = scale_sheet,
                      .folds = true,
                      .down = LK__DOWN_CENTRED};
    for (int i = 0; i < c->n_in; i++)
        m.x[i] = lk__tensor_start(c->x[i]);
    return LK_TRACE(lk__call_sums_joined(c, &m, sums));
}

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    for (int j = 0; j < 3; j++) {
        out[j].dtype = c->x[0]->dtype;
        out[j].shape = c->x[j == 0 ? 0 : 2]->shape;
    }
    return LK_OK;
}

static const lk_op batch_norm_inference_grad = {
    .name = "batch_norm_inference_grad",
    .summary = "the gradient of x, and sums for the others",
    LK_ARITY(4, 3),
    .flags = LK_OP_OVERWRITES,
    .infer = grad_infer,
    .forward = grad_forward,
};

/* ---- backward ---- */

/* The same of other ops, as far as it is wanted. */
static lk_status compose(lk_call *c, lk_var dy, lk_var k, const bool wants[2], lk_var made[3])
{
    lk_shape channels = lk_shape_of(c->in[GAMMA]);
    if (lk_call_needs_grad(c, X))
        LK_TRY(lk_apply_gradient(c, X, &lk__op_mul, (lk_var[]){dy, k}, 2, NULL, &made[0]));
    if (wants[0])
        LK_TRY(lk_sum_to(dy, channels, &made[1]));
    if (wants[1]) {
        LK_TRY(lk_sub(c->in[X], c->in[MEAN], &made[2]));
        LK_TRY(lk_mul(dy, made[2], &made[2]));
        LK_TRY(lk_sum_to(made[2], channels, &made[2]));
    }
    return LK_OK;
}

/* The gradients of gamma, mean and variance, from sum dy and sum (dy c). */
static lk_status vectors_grad(lk_call *c, lk_var inv, lk_var k, const lk_var *sum, lk_var *din)
{
    if (lk_call_needs_grad(c, GAMMA))
        LK_TRY(lk_mul(sum[1], inv, &din[GAMMA]));
    if (lk_call_needs_grad(c, MEAN)) {
        LK_TRY(lk_mul(sum[0], k, &din[MEAN]));
        LK_TRY(lk_neg(din[MEAN], &din[MEAN]));
    }
    if (lk_call_needs_grad(c, VARIANCE)) {
        LK_TRY(lk_mul(sum[1], k, &din[VARIANCE]));
        LK_TRY(lk_mul(din[VARIANCE], inv, &din[VARIANCE]));
        LK_TRY(lk_mul(din[VARIANCE], inv, &din[VARIANCE]));
        LK_TRY(lk_affine(din[VARIANCE], -0.5, 0, &din[VARIANCE]));
    }
    return LK_OK;
}

static lk_status batch_norm_inference_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dy, inv, k, made[3] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR};
    bool wants[] = {lk_call_needs_grad(c, BETA) || lk_call_needs_grad(c, MEAN),
                    lk_call_needs_grad(c, GAMMA) || lk_call_needs_grad(c, VARIANCE)};
    LK_TRY(lk__act_grad(lk__batch_norm_act(c), dout[0], c->out[0], &dy));
    LK_TRY(lk__batch_norm_inverse(c, c->in[VARIANCE], &inv));
    LK_TRY(lk_mul(c->in[GAMMA], inv, &k));
    if (!lk_tape_is_recording(c->tape) && wants[1]) {
        lk_var in[] = {c->in[X], dy, c->in[MEAN], k};
        LK_TRY(lk_apply_gradient(c, X, &batch_norm_inference_grad, in, 4, NULL, made));
    } else {
        LK_TRY(compose(c, dy, k, wants, made));
    }
    din[X] = made[0];
    din[BETA] = made[1];
    return LK_TRACE(vectors_grad(c, inv, k, &made[1], din));
}

const lk_op lk__op_batch_norm_inference = {
    .name = "batch_norm_inference",
    .summary = "x normalised by given mean and variance of its channels",
    LK_ARITY(5, 1),
    .attr_size = sizeof(lk_batch_norm_attr),
    .saves_in = 0x1b,
    .infer = lk__batch_norm_infer,
    .forward = batch_norm_inference_forward,
    .backward = batch_norm_inference_backward,
    .samples = (const lk_op_sample[]){{.n_in = 5,
                                       .in = {LK_IN(5, 2), LK_IN(2), LK_IN(2), LK_IN(2),
                                              LK_IN_RANGE(0.5, 2, 2)},
                                       .attr = &(const lk_batch_norm_attr){0},
                                       .shard_size = 2},
                                      {.n_in = 5,
                                       .in = {LK_IN(2, 2, 2, 3), LK_IN(3), LK_IN(3), LK_IN(3),
                                              LK_IN_RANGE(0, 1, 3)},
                                       .attr = &(const lk_batch_norm_attr){.eps = 0.5}},
                                      {.n_in = 5,
                                       .in = {LK_IN(5, 2), LK_IN(2), LK_IN(2), LK_IN(2),
                                              LK_IN_RANGE(0.5, 2, 2)},
                                       .attr = &(const lk_batch_norm_attr){.act = LK_ACT_SIGMOID}},
                                      {0}},
};

lk_status lk_batch_norm_inference(lk_var x, lk_var gamma, lk_var beta, lk_var mean, lk_var variance,
                                  const lk_batch_norm_attr *attr, lk_var *out)
{
    lk_batch_norm_attr defaults = {0};
    lk_var in[] = {x, gamma, beta, mean, variance};
    return LK_TRACE(
        lk_apply(x.tape, &lk__op_batch_norm_inference, in, 5, attr ? attr : &defaults, out));
}
