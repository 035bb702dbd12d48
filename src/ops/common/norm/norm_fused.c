/* Batch norm by the statistics of pieces: the loops of forward and of backward.  For each channel, over
 * the m rows of a piece (or of the whole batch, of which others have parts),
 *
 *   mean = sum x / m,  c = x - mean,  variance = sum (c c) / m,  inv = 1 / sqrt(variance + eps)
 *   y    = c (gamma inv) + beta
 *
 *   dx     = K dy + c W + B       with K = gamma inv,
 *            W = 2 dvariance / m - K inv inv (sum (dy c) / m),  B = dmean / m - K (sum dy / m)
 *   dgamma = sum (dy c) inv, dbeta = sum dy, over the pieces by the fixed tree
 *
 * With an activation that y is z, and y = act(z); dy is dz.  That of relu is dy where z > 0, elsewhere 0,
 * and z is computed again: x has to be read anyway, y need not be.
 */
#include "ops/common/act.h"
#include "ops/common/norm/batch_norm.h"
#include "tensor/tensor.h"

#include <lockstep/extra/reduce.h>

/* Mean and variance; y is room of x's size. */
static lk_status statistics(lk_call *c, const lk__pieces *s, const void *x, void *y)
{
    void *mean = lk__tensor_start(c->y[1]), *variance = lk__tensor_start(c->y[2]);
    lk__pieces_in in = {.x = {x}, .v = {mean}, .y = y};
    LK_TRY(lk__pieces_mean(c, s, &(lk__pieces_in){.x = {x}, .y = y}, LK__DOWN_VALUES, mean));
    return LK_TRACE(lk__pieces_mean(c, s, &in, LK__DOWN_SQUARES, variance));
}

lk_status lk__batch_norm_values(lk_call *c, const lk__pieces *s)
{
    const void *x = lk__tensor_start(c->x[LK__NORM_X]),
               *gamma = lk__tensor_start(c->x[LK__NORM_GAMMA]);
    void *y = lk__tensor_start(c->y[0]), *scale;
    const void *mean = lk__tensor_start(c->y[1]), *variance = lk__tensor_start(c->y[2]);
    LK_TRY(lk_call_scratch(c, c->y[1]->count * (int64_t)lk_dtype_size(s->dtype), &scale));
    LK_TRY(statistics(c, s, x, y));
    LK_TRY(lk__pieces_vector(s, &(lk__pieces_in){.v = {variance}, .y = scale},
                             lk__batch_norm_eps(c), LK__TERM_INVERSE));
    lk__pieces_in by_gamma = {.v = {scale, gamma}, .shared = {false, true}, .y = scale};
    LK_TRY(lk__pieces_vector(s, &by_gamma, 0, LK__TERM_PRODUCT));
    lk__pieces_in all = {.x = {x},
                         .v = {mean, scale, lk__tensor_start(c->x[LK__NORM_BETA])},
                         .shared = {false, false, true},
                         .y = y,
                         .act = lk__batch_norm_act(c)};
    return LK_TRACE(lk__pieces_map(c, s, &all, LK__TERM_CHANNELS));
}

/* ---- gradients ---- */

enum { X, GAMMA, BETA, MEAN, VARIANCE, DY, DMEAN, DVARIANCE };

lk_status lk__batch_norm_grad_in(const lk_call *c, const lk_var *dout, lk_var in[LK__NORM_GRAD_IN])
{
    in[X] = c->in[LK__NORM_X];
    in[GAMMA] = c->in[LK__NORM_GAMMA];
    in[BETA] = c->in[LK__NORM_BETA];
    in[MEAN] = c->out[1];
    in[VARIANCE] = c->out[2];
    for (int j = 0; j < 3; j++) {
        in[DY + j] = dout[j];
        if (!lk_is_var(dout[j]))
            LK_TRY(lk_zeros_like(c->out[j], &in[DY + j]));
    }
    if (lk_is_var(dout[0]) && lk__batch_norm_act(c) != LK_ACT_RELU)
        LK_TRY(lk__act_grad(lk__batch_norm_act(c), in[DY], c->out[0], &in[DY]));
    return LK_OK;
}

lk_status lk__batch_norm_grad_infer(lk_call *c, lk_output_spec *out)
{
    for (int j = 0; j < 3; j++) {
        out[j].dtype = c->x[X]->dtype;
        out[j].shape = c->x[j == 0 ? X : GAMMA]->shape;
    }
    return LK_OK;
}

/* The vectors of the formula, [pieces][channels] each. */
typedef struct grad_vectors {
    void *dy, *dy_c, *inv, *k, *w, *b; /* dy and, behind it, dy_c are sums */
} grad_vectors;

static lk_status vectors_take(lk_call *c, const lk__pieces *s, grad_vectors *v)
{
    int64_t bytes = s->n * s->channels * (int64_t)lk_dtype_size(s->dtype);
    void **all[] = {&v->inv, &v->k, &v->w, &v->b};
    LK_TRY(lk_call_scratch(c, 2 * bytes, &v->dy));
    v->dy_c = (char *)v->dy + bytes;
    for (int i = 0; i < LK_COUNT(all); i++)
        LK_TRY(lk_call_scratch(c, bytes, all[i]));
    return LK_OK;
}

/* What is known before the sums. */
static lk_status scale_make(lk_call *c, const lk__pieces *s, const grad_vectors *v)
{
    const void *variance = lk__tensor_start(c->x[VARIANCE]), *gamma = lk__tensor_start(c->x[GAMMA]);
    lk__pieces_in inv = {.v = {variance}, .y = v->inv};
    lk__pieces_in k = {.v = {v->inv, gamma}, .shared = {false, true}, .y = v->k};
    LK_TRY(lk__pieces_vector(s, &inv, lk__batch_norm_eps(c), LK__TERM_INVERSE));
    return LK_TRACE(lk__pieces_vector(s, &k, 0, LK__TERM_PRODUCT));
}

static lk_status vectors_make(lk_call *c, const lk__pieces *s, const grad_vectors *v)
{
    const void *dmean = lk__tensor_start(c->x[DMEAN]),
               *dvariance = lk__tensor_start(c->x[DVARIANCE]);
    lk__pieces_in w = {.v = {v->k, v->inv, v->dy_c, dvariance}, .y = v->w};
    lk__pieces_in b = {.v = {v->k, v->dy, dmean}, .y = v->b};
    lk__pieces_in scaled = {.v = {v->dy_c, v->inv}, .y = v->dy_c};
    LK_TRY(lk__pieces_vector(s, &w, 0, LK__TERM_SLOPE));
    LK_TRY(lk__pieces_vector(s, &b, 0, LK__TERM_OFFSET));
    return LK_TRACE(lk__pieces_vector(s, &scaled, 0, LK__TERM_PRODUCT));
}

lk_status lk__batch_norm_gradients(lk_call *c, const lk__pieces *s)
{
    const void *x = lk__tensor_start(c->x[X]), *dy = lk__tensor_start(c->x[DY]),
               *mean = lk__tensor_start(c->x[MEAN]), *beta = lk__tensor_start(c->x[BETA]);
    void *dx = lk__tensor_start(c->y[0]);
    const bool relu = lk__batch_norm_act(c) == LK_ACT_RELU;
    grad_vectors v;
    LK_TRY(vectors_take(c, s, &v));
    LK_TRY(scale_make(c, s, &v));
    lk__pieces_in sums = {
        .x = {x, dy}, .v = {mean, v.k, beta}, .shared = {false, false, true}, .y = dx};
    LK_TRY(lk__pieces_sum(c, s, &sums, relu ? LK__DOWN_RELU_CENTRED : LK__DOWN_CENTRED, v.dy));
    LK_TRY(vectors_make(c, s, &v));
    lk__pieces_in all = {.x = {x, dy}, .v = {mean, v.k, v.w, v.b, beta}, .y = dx};
    all.shared[4] = true;
    LK_TRY(lk__pieces_map(c, s, &all,
                          relu ? LK__TERM_RELU_CHANNELS_GRADIENT : LK__TERM_CHANNELS_GRADIENT));
    lk_reduce_axis_shape tree = {.outer = 1, .n = s->n, .inner = s->channels, .piece = 1};
    LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &tree, v.dy_c, lk__tensor_start(c->y[1])));
    return LK_TRACE(
        lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &tree, v.dy, lk__tensor_start(c->y[2])));
}
