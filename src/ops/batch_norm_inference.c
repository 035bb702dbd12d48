/* batch_norm_inference: x [samples][...][channels] normalised by given statistics.  For each
 * channel, with inv = 1 / sqrt(variance + eps) and c = x - mean,
 *
 *   y = c (gamma inv) + beta
 *
 *   dx     = dy gamma inv
 *   dgamma = sum (dy c) inv, dbeta = sum dy, dmean = -gamma inv sum dy,
 *   dvariance = -1/2 gamma inv^3 sum (dy c); sums over all rows, cut into pieces of the batch
 */
#include "ops/common/batch_norm.h"
#include "ops/common/ops.h"
#include "ops/common/pieces.h"
#include "tensor/tensor.h"

enum { X, GAMMA, BETA, MEAN, VARIANCE };

/* gamma inv, of variance and gamma. */
static void scale_row(lk__row *r)
{
    lk__batch_norm_inverse_row(r);
    r->x[0] = r->y;
    lk__row_loop(r, LK__LOOP_MUL);
}

static lk_status batch_norm_inference_forward(lk_call *c)
{
    lk__pieces s = lk__pieces_of(c->tape, c->x[X]->dtype, c->x[X]->shape, true);
    const void *v[5];
    void *scale;
    for (int i = 0; i < 5; i++)
        v[i] = lk__tensor_start(c->x[i]);
    LK_TRY(lk_call_scratch(c, s.channels * (int64_t)lk_dtype_size(s.dtype), &scale));
    lk__pieces_in one = {.v = {v[VARIANCE], v[GAMMA]}, .y = scale};
    LK_TRY(lk__pieces_vector(&s, &one, lk__batch_norm_eps(c), scale_row));
    lk__pieces_in all = {
        .x = {v[X]}, .v = {v[MEAN], scale, v[BETA]}, .y = lk__tensor_start(c->y[0])};
    LK_TRY(lk__pieces_map(c, &s, &all, LK__TERM_CHANNELS));
    return LK_OK;
}

/* The gradients of mean and variance, from sum dy and sum (dy c). */
static lk_status statistics_grad(lk_call *c, lk_var inv, lk_var k, const lk_var *sum, lk_var *din)
{
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
    lk_shape channels = lk_shape_of(c->in[GAMMA]);
    lk_var inv, k, sum[2] = {LK_NO_VAR, LK_NO_VAR};
    LK_TRY(lk__batch_norm_inverse(c, c->in[VARIANCE], &inv));
    LK_TRY(lk_mul(c->in[GAMMA], inv, &k));
    if (lk_call_needs_grad(c, X))
        LK_TRY(lk_mul(dout[0], k, &din[X]));
    if (lk_call_needs_grad(c, BETA) || lk_call_needs_grad(c, MEAN))
        LK_TRY(lk_sum_to(dout[0], channels, &sum[0]));
    if (lk_call_needs_grad(c, GAMMA) || lk_call_needs_grad(c, VARIANCE)) {
        LK_TRY(lk_sub(c->in[X], c->in[MEAN], &sum[1]));
        LK_TRY(lk_mul(dout[0], sum[1], &sum[1]));
        LK_TRY(lk_sum_to(sum[1], channels, &sum[1]));
    }
    if (lk_call_needs_grad(c, GAMMA))
        LK_TRY(lk_mul(sum[1], inv, &din[GAMMA]));
    din[BETA] = sum[0];
    LK_TRY(statistics_grad(c, inv, k, sum, din));
    return LK_OK;
}

extern const lk_op lk__op_batch_norm_inference;

lk_status lk_batch_norm_inference(lk_var x, lk_var gamma, lk_var beta, lk_var mean, lk_var variance,
                                  const lk_batch_norm_attr *attr, lk_var *out)
{
    lk_batch_norm_attr usual = {0};
    lk_var in[] = {x, gamma, beta, mean, variance};
    LK_TRY(lk_apply(x.tape, &lk__op_batch_norm_inference, in, 5, attr ? attr : &usual, out));
    return LK_OK;
}

const lk_op lk__op_batch_norm_inference = {
    .name = "batch_norm_inference",
    .summary = "x normalised by given mean and variance of its channels",
    .min_in = 5,
    .max_in = 5,
    .n_out = 1,
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
                                      {0}},
};
