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
 * Sums within a piece are lane sums of lk_reduce(); those over the whole batch are cut into pieces.
 * A rank that holds whole pieces needs nothing from the others.
 */
#include "ops/common/batch_norm.h"

#include "ops/common/ops.h"
#include "ops/common/pieces.h"
#include "tensor/tensor.h"

enum { X, GAMMA, BETA };

static bool is_whole(const lk_call *c)
{
    return ((const lk_batch_norm_attr *)c->attr)->whole_batch;
}

static lk__pieces pieces_of(const lk_call *c)
{
    return lk__pieces_of(c->tape, c->x[X]->dtype, c->x[X]->shape, is_whole(c));
}

static lk_status batch_norm_infer(lk_call *c, lk_spec *out)
{
    LK_TRY(lk__batch_norm_infer(c, out));
    lk__pieces s = pieces_of(c);
    out[1].dtype = out[2].dtype = out[0].dtype;
    out[1].shape = out[2].shape = LK_SHAPE(s.n, s.channels);
    return LK_OK;
}

LK_ROW_MAP(centre_square, (a - b) * (a - b))
LK_ROW_MAP(product, a *b)
LK_ROW_MAP(normalise, (a - b) * c + d)

static lk_status batch_norm_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    const void *x = lk__tensor_start(c->x[X]), *gamma = lk__tensor_start(c->x[GAMMA]);
    void *y = lk__tensor_start(c->y[0]), *mean = lk__tensor_start(c->y[1]),
         *variance = lk__tensor_start(c->y[2]), *scale;
    LK_TRY(lk_call_scratch(c, c->y[1]->count * (int64_t)lk_dtype_size(s.dtype), &scale));
    LK_TRY(lk__pieces_mean(&s, x, mean));
    LK_TRY(lk__pieces_map(c, &s, &(lk__pieces_in){{x}, {mean}, .y = y}, centre_square));
    LK_TRY(lk__pieces_mean(&s, y, variance));
    LK_TRY(lk__pieces_vector(&s, &(lk__pieces_in){.v = {variance}, .y = scale},
                             lk__batch_norm_eps(c), lk__batch_norm_inverse_row));
    lk__pieces_in by_gamma = {.v = {scale, gamma}, .shared = {false, true}, .y = scale};
    LK_TRY(lk__pieces_vector(&s, &by_gamma, 0, product));
    lk__pieces_in all = {.x = {x},
                         .v = {mean, scale, lk__tensor_start(c->x[BETA])},
                         .shared = {false, false, true},
                         .y = y};
    LK_TRY(lk__pieces_map(c, &s, &all, normalise));
    return LK_OK;
}

/* ---- batch_norm_grad: all gradients at once, for a backward that is not recorded ---- */

enum { G_X, G_GAMMA, G_MEAN, G_VARIANCE, G_DY, G_DMEAN, G_DVARIANCE, G_N_IN };

static lk_status grad_infer(lk_call *c, lk_spec *out)
{
    for (int j = 0; j < 3; j++) {
        out[j].dtype = c->x[G_X]->dtype;
        out[j].shape = c->x[j == 0 ? G_X : G_GAMMA]->shape;
    }
    return LK_OK;
}

LK_ROW_MAP(times_centred, b *(a - c))
LK_ROW_MAP(slope, 2 * d / p - a * b * b * (c / p))
LK_ROW_MAP(offset, c / p - a * (b / p))
LK_ROW_MAP(gradient, d *b + (a - c) * e + f)

/* The vectors of the formula, [pieces][channels] each. */
typedef struct grad_vectors {
    void *dy, *dy_c, *inv, *k, *w, *b; /* dy and dy_c are sums */
} grad_vectors;

static lk_status vectors_take(lk_call *c, const lk__pieces *s, grad_vectors *v)
{
    int64_t bytes = s->n * s->channels * (int64_t)lk_dtype_size(s->dtype);
    void **all[] = {&v->dy, &v->dy_c, &v->inv, &v->k, &v->w, &v->b};
    for (int i = 0; i < LK_COUNT(all); i++)
        LK_TRY(lk_call_scratch(c, bytes, all[i]));
    return LK_OK;
}

static lk_status vectors_make(lk_call *c, const lk__pieces *s, const grad_vectors *v)
{
    const void *x[G_N_IN];
    for (int i = 0; i < G_N_IN; i++)
        x[i] = lk__tensor_start(c->x[i]);
    lk__pieces_in inv = {.v = {x[G_VARIANCE]}, .y = v->inv};
    lk__pieces_in k = {.v = {v->inv, x[G_GAMMA]}, .shared = {false, true}, .y = v->k};
    lk__pieces_in w = {.v = {v->k, v->inv, v->dy_c, x[G_DVARIANCE]}, .y = v->w};
    lk__pieces_in b = {.v = {v->k, v->dy, x[G_DMEAN]}, .y = v->b};
    lk__pieces_in scaled = {.v = {v->dy_c, v->inv}, .y = v->dy_c};
    LK_TRY(lk__pieces_vector(s, &inv, lk__batch_norm_eps(c), lk__batch_norm_inverse_row));
    LK_TRY(lk__pieces_vector(s, &k, 0, product));
    LK_TRY(lk__pieces_vector(s, &w, 0, slope));
    LK_TRY(lk__pieces_vector(s, &b, 0, offset));
    LK_TRY(lk__pieces_vector(s, &scaled, 0, product));
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    const void *x = lk__tensor_start(c->x[G_X]), *dy = lk__tensor_start(c->x[G_DY]),
               *mean = lk__tensor_start(c->x[G_MEAN]);
    void *dx = lk__tensor_start(c->y[0]);
    grad_vectors v;
    LK_TRY(vectors_take(c, &s, &v));
    LK_TRY(lk__pieces_sum(&s, dy, v.dy));
    LK_TRY(lk__pieces_map(c, &s, &(lk__pieces_in){{x, dy}, {mean}, .y = dx}, times_centred));
    LK_TRY(lk__pieces_sum(&s, dx, v.dy_c));
    LK_TRY(vectors_make(c, &s, &v));
    LK_TRY(
        lk__pieces_map(c, &s, &(lk__pieces_in){{x, dy}, {mean, v.k, v.w, v.b}, .y = dx}, gradient));
    lk_reduce_shape tree = {.outer = 1, .n = s.n, .inner = s.channels, .piece = 1};
    LK_TRY(lk_reduce(s.dtype, LK_REDUCE_SUM, &tree, v.dy_c, lk__tensor_start(c->y[1])));
    LK_TRY(lk_reduce(s.dtype, LK_REDUCE_SUM, &tree, v.dy, lk__tensor_start(c->y[2])));
    return LK_OK;
}

static const lk_op batch_norm_grad = {
    .name = "batch_norm_grad",
    .summary = "the gradients of x, gamma and beta",
    .min_in = G_N_IN,
    .max_in = G_N_IN,
    .n_out = 3,
    .attr_size = sizeof(lk_batch_norm_attr),
    .infer = grad_infer,
    .forward = grad_forward,
};

static lk_status fuse(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[G_N_IN] = {c->in[X], c->in[GAMMA], c->out[1], c->out[2]};
    for (int j = 0; j < 3; j++) {
        in[G_DY + j] = dout[j];
        if (!lk_is_var(dout[j]))
            LK_TRY(lk_zeros_like(c->out[j], &in[G_DY + j]));
    }
    LK_TRY(lk_apply(c->tape, &batch_norm_grad, in, G_N_IN, c->attr, din));
    return LK_OK;
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
    LK_TRY(lk_mul(t->inv, c->in[GAMMA], &t->k));
    return LK_OK;
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
    LK_TRY(parts_make(c, &t));
    if (lk_wants(c, X))
        LK_TRY(compose_dx(&t, dout, &din[X]));
    if (lk_is_var(dout[0]) && lk_wants(c, GAMMA)) {
        LK_TRY(lk__piece_spread(t.inv, t.shape, false, t.whole, &t.inv));
        LK_TRY(lk_mul(t.centred, t.inv, &t.inv));
        LK_TRY(lk_mul(dout[0], t.inv, &t.inv));
        LK_TRY(lk_sum_to(t.inv, lk_shape_of(c->in[GAMMA]), &din[GAMMA]));
    }
    if (lk_is_var(dout[0]) && lk_wants(c, BETA))
        LK_TRY(lk_sum_to(dout[0], lk_shape_of(c->in[BETA]), &din[BETA]));
    return LK_OK;
}

static lk_status batch_norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_tape_records(c->tape))
        LK_TRY(compose(c, dout, din));
    else
        LK_TRY(fuse(c, dout, din));
    return LK_OK;
}

/* ---- batch_norm ---- */

extern const lk_op lk_op_batch_norm;

lk_status lk_batch_norm(lk_var x, lk_var gamma, lk_var beta, const lk_batch_norm_attr *attr,
                        lk_var *out, lk_var *mean, lk_var *variance)
{
    lk_batch_norm_attr usual = {0};
    lk_var in[] = {x, gamma, beta}, y[3] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR};
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    lk_status st = lk_apply(x.tape, &lk_op_batch_norm, in, 3, attr ? attr : &usual, y);
    *out = y[0];
    if (mean)
        *mean = y[1];
    if (variance)
        *variance = y[2];
    LK_TRY(st);
    return LK_OK;
}

const lk_op lk_op_batch_norm = {
    .name = "batch_norm",
    .summary = "x normalised by mean and variance of its channels over pieces of the batch",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .attr_size = sizeof(lk_batch_norm_attr),
    .saves_in = 3,
    .infer = batch_norm_infer,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .samples = (const lk_sample[]){{.n_in = 3,
                                    .in = {LK_IN(5, 2), LK_IN_RANGE(0.5, 2, 2), LK_IN(2)},
                                    .attr = &(const lk_batch_norm_attr){0}},
                                   {.n_in = 3,
                                    .in = {LK_IN(5, 3, 2), LK_IN(2), LK_IN(2)},
                                    .attr = &(const lk_batch_norm_attr){.eps = 0.1},
                                    .piece = 2},
                                   {.n_in = 3,
                                    .in = {LK_IN(5, 2, 1, 2), LK_IN(2), LK_IN(2)},
                                    .attr = &(const lk_batch_norm_attr){.eps = 0.01,
                                                                        .whole_batch = true},
                                    .piece = 2},
                                   {0}},
};
