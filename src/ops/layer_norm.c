/* layer_norm: over the last axes, n elements x of a row at a time,
 *
 *   mean = sum x / n,  c = x - mean,  inv = 1 / sqrt(sum (c c) / n + eps)
 *   y    = c inv gamma + beta
 *
 *   dx     = inv ((g - sum g / n) - c inv (sum (g c inv) / n))         g = dy gamma
 *            + dmean / n - c inv (dinv inv inv / n)
 *   dgamma = dy c inv, dbeta = dy, summed over the rows, pieces of the batch by the fixed tree
 *
 * With an activation that y is z, and y = act(z); dy is dz.
 *
 * lk_layer_norm() gives y; mean and inv are kept for backward.  Sums within a row are lane sums of
 * lk_reduce_axis(), one piece.  Every product is rounded, so that the
 * fused gradient and the one that is recorded, made of other ops, have the same bits.
 */
#include "ops/common/norm/layer_norm.h"

#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"
#include "tensor/tensor.h"

#include <math.h>

static const double DEFAULT_EPS = 1e-5;

double lk__layer_norm_eps(const lk_layer_norm_attr *a)
{
    return a->eps == 0 ? DEFAULT_EPS : a->eps;
}

/* The number of axes that are normalised over. */
static int axes_of(const lk_call *c)
{
    int axes = ((const lk_layer_norm_attr *)c->attr)->axes;
    return axes == 0 ? 1 : axes;
}

/* Elements that are normalised together. */
static int64_t row_of(const lk_call *c)
{
    const lk_tensor *x = c->x[0];
    int64_t n = 1;
    for (int d = x->shape.ndim - axes_of(c); d < x->shape.ndim; d++)
        n *= x->shape.dim[d];
    return n > 0 ? n : 1; /* also where there are no rows: gamma and beta have as many */
}

static lk_status check_vector(lk_call *c, int i, const char *name)
{
    const lk_tensor *x = c->x[0], *v = c->x[i];
    lk_shape expected = {.ndim = axes_of(c)};
    for (int d = 0; d < expected.ndim; d++)
        expected.dim[d] = x->shape.dim[x->shape.ndim - expected.ndim + d];
    LK_CHECK(v->dtype == x->dtype, LK_EDTYPE, "layer_norm of %s with %s %s: one dtype for all",
             lk_tensor_text(x).s, name, lk_tensor_text(v).s);
    LK_CHECK(lk_shape_is_equal(v->shape, expected), LK_ESHAPE,
             "layer_norm of %s over %d last axes with %s %s: it must be %s", lk_tensor_text(x).s,
             expected.ndim, name, lk_tensor_text(v).s, lk_shape_text(expected).s);
    return LK_OK;
}

lk_status lk__layer_norm_check(const lk_call *c, const lk_layer_norm_attr *a)
{
    LK_CHECK(a->eps >= 0 && lk__is_finite(c->x[0]->dtype, a->eps), LK_EINVAL,
             "%s of %s with eps %g, which must be finite and not negative", c->op->name,
             lk_tensor_text(c->x[0]).s, a->eps);
    return LK_TRACE(lk__act_check(c->op->name, a->act));
}

static lk_status layer_norm_infer(lk_call *c, lk_output_spec *out)
{
    const lk_layer_norm_attr *a = c->attr;
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(a->axes >= 0 && axes_of(c) <= out->shape.ndim, LK_EINVAL,
             "layer_norm of %s over %d last axes", lk_tensor_text(c->x[0]).s, axes_of(c));
    LK_TRY(lk__layer_norm_check(c, a));
    LK_TRY(check_vector(c, 1, "gamma"));
    LK_TRY(check_vector(c, 2, "beta"));
    lk__layer_norm_kept(axes_of(c), out);
    return LK_OK;
}

void lk__layer_norm_kept(int axes, lk_output_spec out[3])
{
    out[1] = out[0];
    for (int d = out[0].shape.ndim - axes; d < out[0].shape.ndim; d++)
        out[1].shape.dim[d] = 1;
    out[2] = out[1];
}

/* ---- by rows ---- */

enum { MEAN, INV, MEAN_G, MEAN_G_NORMAL }; /* numbers of a row */

/* What sheets share. */
typedef struct norm_job {
    double eps;
    void *mean, *inv; /* of all rows */
    char *product;    /* of lk__layer_norm_gradients() */
    int64_t row_bytes;
} norm_job;

/* x, gamma, beta */
static void values_sheet(lk__sheet *t)
{
    const norm_job *j = t->arg;
    lk__sheet_sum(t, LK__ALONG_VALUES, MEAN);
    lk__sheet_mean(t, MEAN);
    lk__sheet_sum(t, LK__ALONG_SQUARES, INV);
    lk__sheet_inverse(t, INV, j->eps);
    lk__sheet_map(t, LK__TERM_NORMALISE);
    lk__sheet_keep(t, MEAN, j->mean);
    lk__sheet_keep(t, INV, j->inv);
}

/* x, gamma, dy */
static void dx_sheet(lk__sheet *t)
{
    const norm_job *j = t->arg;
    lk__sheet_take(t, MEAN, j->mean);
    lk__sheet_take(t, INV, j->inv);
    lk__sheet_sum(t, LK__ALONG_WEIGHTS, MEAN_G);
    lk__sheet_mean(t, MEAN_G);
    lk__sheet_mean(t, MEAN_G_NORMAL);
    lk__sheet_map(t, LK__TERM_NORM_GRADIENT);
}

/* Rows of n elements of the first three inputs; bit i of `shared`: input i is one row, for all. */
static lk__map_sums rows_of(const lk_call *c, int64_t n, unsigned shared, lk__sheet_fn *fn,
                            const norm_job *j)
{
    const lk_tensor *x = c->x[0];
    lk__map_sums s = {.dtype = x->dtype,
                      .rows = x->count / n,
                      .n = n,
                      .y = lk__tensor_start(c->y[0]),
                      .fn = fn,
                      .arg = j};
    for (int i = 0; i < 3; i++) {
        s.x[i] = lk__tensor_start(c->x[i]);
        s.of[i] = shared >> i & 1 ? LK_SUMS_SHARED : LK_SUMS_ROWS;
    }
    return s;
}

lk_status lk__layer_norm_values(lk_call *c, int64_t n, const lk_layer_norm_attr *a)
{
    norm_job j = {.eps = lk__layer_norm_eps(a),
                  .mean = lk__tensor_start(c->y[1]),
                  .inv = lk__tensor_start(c->y[2])};
    lk__map_sums s = rows_of(c, n, 6, values_sheet, &j);
    s.act = a->act;
    return LK_TRACE(lk__call_sums(c, &s));
}

/* Of x, gamma, dy, mean and inv. */
static norm_job grad_job(const lk_call *c)
{
    return (norm_job){.mean = lk__tensor_start(c->x[3]), .inv = lk__tensor_start(c->x[4])};
}

static void product_sheet(lk__sheet *t)
{
    const norm_job *j = t->arg;
    dx_sheet(t);
    void *dx = t->y;
    t->y = j->product + t->row * j->row_bytes;
    lk__sheet_map(t, LK__TERM_TIMES_NORMAL);
    t->y = dx;
}

lk_status lk__layer_norm_gradients(lk_call *c, int64_t n)
{
    norm_job j = grad_job(c);
    lk__map_sums s = rows_of(c, n, 2, product_sheet, &j);
    j.product = lk__tensor_start(c->y[1]);
    j.row_bytes = n * (int64_t)lk_dtype_size(s.dtype);
    return LK_TRACE(lk__call_sums(c, &s));
}

static lk_status layer_norm_forward(lk_call *c)
{
    for (int j = 1; j < 3 && c->x[0]->count == 0; j++) /* the mean of nothing */
        LK_TRY(lk_tensor_fill_f64(c->y[j], (double)NAN));
    return LK_TRACE(lk__layer_norm_values(c, row_of(c), c->attr));
}

/* ---- layer_norm_grad: all gradients at once, for a backward that is not recorded ---- */

static lk_status gradient_forward(lk_call *c)
{
    norm_job j = grad_job(c);
    lk__map_sums s = rows_of(c, row_of(c), 2, dx_sheet, &j);
    const lk_tensor *x = c->x[0];
    int64_t samples = lk_tape_shard_size(c->tape);
    void *const sums[] = {lk__tensor_start(c->y[1]), lk__tensor_start(c->y[2])};
    if (samples > 0 && samples < x->shape.dim[0])
        s.piece = samples * (s.rows / x->shape.dim[0]);
    s.overwrite = c->overwrite;
    s.down = LK__DOWN_NORMALS;
    return LK_TRACE(lk__call_sums_joined(c, &s, sums));
}

static lk_status gradient_infer(lk_call *c, lk_output_spec *out)
{
    for (int j = 0; j < 3; j++) {
        out[j].dtype = c->x[0]->dtype;
        out[j].shape = c->x[j == 0 ? 0 : 1]->shape;
    }
    return LK_OK;
}

static const lk_op layer_norm_grad = {
    .name = "layer_norm_grad",
    .summary = "the gradients of x, gamma and beta",
    LK_ARITY(5, 3),
    .flags = LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_layer_norm_attr),
    .infer = gradient_infer,
    .forward = gradient_forward,
};

/* ---- of other ops ---- */

/* *out = v / n. */
static lk_status over_n(const lk_call *c, lk_var v, lk_var *out)
{
    lk_shape shape = lk_shape_of(c->in[0]);
    double n = 1;
    lk_var by;
    for (int d = shape.ndim - axes_of(c); d < shape.ndim; d++)
        n *= (double)shape.dim[d];
    LK_TRY(lk_full(c->tape, lk_dtype_of(v), LK_SCALAR, n, &by));
    return LK_TRACE(lk_div(v, by, out));
}

/* *out = the mean of x over the last axes, which stay with size 1. */
static lk_status mean_of(const lk_call *c, lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    for (int d = shape.ndim - axes_of(c); d < shape.ndim; d++)
        shape.dim[d] = 1;
    LK_TRY(lk_sum_to(x, shape, out));
    return LK_TRACE(over_n(c, *out, out));
}

static lk_status compose_dx(lk_call *c, lk_var dy, lk_var normal, lk_var inv, lk_var *dx)
{
    lk_var g, mean, t;
    LK_TRY(lk_mul(dy, c->in[1], &g));
    LK_TRY(mean_of(c, g, &mean));
    LK_TRY(lk_mul(g, normal, &t));
    LK_TRY(mean_of(c, t, &t));
    LK_TRY(lk_mul(normal, t, &t));
    LK_TRY(lk_sub(g, mean, &g));
    LK_TRY(lk_sub(g, t, &g));
    return LK_TRACE(lk_mul(inv, g, dx));
}

/* *dx = *dx + dmean / n - normal (dinv inv inv / n), where *dx may be none yet. */
static lk_status add_statistics(lk_call *c, const lk_var *dout, lk_var normal, lk_var inv,
                                lk_var *dx)
{
    lk_var t;
    if (!lk_is_var(*dx))
        LK_TRY(lk_zeros_like(c->in[0], dx));
    if (lk_is_var(dout[1])) {
        LK_TRY(over_n(c, dout[1], &t));
        LK_TRY(lk_add(*dx, t, dx));
    }
    if (lk_is_var(dout[2])) {
        LK_TRY(lk_mul(dout[2], inv, &t));
        LK_TRY(lk_mul(t, inv, &t));
        LK_TRY(over_n(c, t, &t));
        LK_TRY(lk_mul(normal, t, &t));
        LK_TRY(lk_sub(*dx, t, dx));
    }
    return LK_OK;
}

/* The gradients, from x anew, so that they can be differentiated. */
static lk_status compose(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var normal, inv, one, dy = dout[0];
    LK_TRY(mean_of(c, c->in[0], &normal));
    LK_TRY(lk_sub(c->in[0], normal, &normal));
    LK_TRY(lk_mul(normal, normal, &inv));
    LK_TRY(mean_of(c, inv, &inv));
    LK_TRY(lk_affine(inv, 1, lk__layer_norm_eps(c->attr), &inv));
    LK_TRY(lk_sqrt(inv, &inv));
    LK_TRY(lk_full(c->tape, lk_dtype_of(inv), LK_SCALAR, 1, &one));
    LK_TRY(lk_div(one, inv, &inv));
    LK_TRY(lk_mul(normal, inv, &normal));
    if (lk_is_var(dy) && lk_call_needs_grad(c, 0))
        LK_TRY(compose_dx(c, dy, normal, inv, &din[0]));
    if ((lk_is_var(dout[1]) || lk_is_var(dout[2])) && lk_call_needs_grad(c, 0))
        LK_TRY(add_statistics(c, dout, normal, inv, &din[0]));
    if (lk_is_var(dy) && lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(dy, normal, &normal));
        LK_TRY(lk_sum_to(normal, lk_shape_of(c->in[1]), &din[1]));
    }
    if (lk_is_var(dy) && lk_call_needs_grad(c, 2))
        LK_TRY(lk_sum_to(dy, lk_shape_of(c->in[2]), &din[2]));
    return LK_OK;
}

static lk_status layer_norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var of[] = {dout[0], dout[1], dout[2]};
    if (lk_is_var(dout[0]))
        LK_TRY(
            lk__act_grad(((const lk_layer_norm_attr *)c->attr)->act, dout[0], c->out[0], &of[0]));
    lk_var in[] = {c->in[0], c->in[1], of[0], c->out[1], c->out[2]};
    /* Without other axes nothing is added up: gradients of gamma and beta keep a -0. */
    bool summed = lk_shape_of(c->in[0]).ndim > axes_of(c);
    bool y_alone = !lk_is_var(dout[1]) && !lk_is_var(dout[2]);
    if (!lk_tape_is_recording(c->tape) && summed && y_alone)
        LK_TRY(lk_apply_gradient(c, 0, &layer_norm_grad, in, 5, c->attr, din));
    else
        LK_TRY(compose(c, of, din));
    return LK_OK;
}

const lk_op lk__op_layer_norm = {
    .name = "layer_norm",
    .summary =
        "(x - mean) / sqrt(variance + eps) * gamma + beta over the last axes, mean, 1 / sqrt",
    LK_ARITY(3, 3),
    .attr_size = sizeof(lk_layer_norm_attr),
    .saves_in = 3,
    .infer = layer_norm_infer,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
    .samples = (const lk_op_sample[]){{.n_in = 3,
                                       .in = {LK_IN(5, 4), LK_IN_RANGE(0.5, 2, 4), LK_IN(4)},
                                       .attr = &(const lk_layer_norm_attr){0},
                                       .shard_size = 2},
                                      {.n_in = 3,
                                       .in = {LK_IN(2, 3, 2), LK_IN(3, 2), LK_IN(3, 2)},
                                       .attr = &(const lk_layer_norm_attr){.axes = 2, .eps = 0.1}},
                                      {.n_in = 3,
                                       .in = {LK_IN_RANGE(-3, 3, 6), LK_IN(6), LK_IN(6)},
                                       .attr = &(const lk_layer_norm_attr){.axes = 1, .eps = 0.01}},
                                      {.n_in = 3,
                                       .in = {LK_IN(5, 4), LK_IN_RANGE(0.5, 2, 4), LK_IN(4)},
                                       .attr = &(const lk_layer_norm_attr){.act = LK_ACT_RELU},
                                       .shard_size = 2},
                                      {0}},
};

lk_status lk_layer_norm(lk_var x, lk_var gamma, lk_var beta, const lk_layer_norm_attr *attr,
                        lk_var *out)
{
    lk_layer_norm_attr defaults = {0};
    lk_var in[] = {x, gamma, beta}, y[3] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR};
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    lk_status st = lk_apply(x.tape, &lk__op_layer_norm, in, 3, attr ? attr : &defaults, y);
    *out = y[0];
    return LK_TRACE(st);
}
