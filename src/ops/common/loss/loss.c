/* Losses: their reduction and how its gradient is shared among them, squared errors, and labels. */
#include "ops/common/loss/loss.h"

#include "base/fpenv.h"
#include "ops/common/each.h"
#include "ops/common/index.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"
#include "tensor/tensor.h"

static lk_loss_reduction reduction_of(const lk_call *c, lk_loss_reduction otherwise)
{
    const lk_loss_attr *a = c->attr;
    return a->reduction == LK_LOSS_DEFAULT ? otherwise : a->reduction;
}

lk_status lk__loss_infer(const lk_call *c, lk_shape shape, lk_output_spec *out)
{
    const lk_loss_attr *a = c->attr;
    LK_CHECK((unsigned)a->reduction <= LK_LOSS_NONE, LK_EINVAL, "%s has no reduction number %d",
             c->op->name, (int)a->reduction);
    out->dtype = c->x[0]->dtype;
    out->shape = a->reduction == LK_LOSS_NONE ? shape : LK_SCALAR;
    return LK_OK;
}

lk_status lk__loss_infer_pair(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0], *t = c->x[1];
    LK_CHECK(lk_dtype_is_real(x->dtype) && t->dtype == x->dtype, LK_EDTYPE,
             "%s of %s and the target %s: both are f32 or both f64", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(t).s);
    LK_CHECK(lk_shape_is_equal(x->shape, t->shape), LK_ESHAPE,
             "%s of %s and the target %s: they must have one shape", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(t).s);
    return LK_TRACE(lk__loss_infer(c, x->shape, out));
}

lk_status lk__loss_room(lk_call *c, lk_shape shape, void **out)
{
    int64_t count;
    const lk_tensor *y = c->y[0];
    *out = lk__tensor_start(y);
    LK_TRY(lk_shape_count(shape, &count));
    if (((const lk_loss_attr *)c->attr)->reduction != LK_LOSS_NONE)
        LK_TRY(lk_call_scratch(c, count * (int64_t)lk_dtype_size(y->dtype), out));
    return LK_OK;
}

/* What a sum of losses of `shape` is divided by; 0: nothing. */
static int64_t divisor(lk_loss_reduction reduction, lk_shape shape, int64_t count)
{
    if (reduction == LK_LOSS_SAMPLE_MEAN)
        return shape.ndim > 0 ? shape.dim[0] : 1;
    return reduction == LK_LOSS_MEAN ? count : 0;
}

/* Losses of a piece of the batch; 0: all. */
static int64_t piece_of(const lk_call *c, lk_shape shape, int64_t count)
{
    const int64_t samples = lk_tape_shard_size(c->tape);
    return shape.ndim > 0 && count > 0 && samples < shape.dim[0] ? samples * (count / shape.dim[0])
                                                                 : 0;
}

/* The output from losses, or sums of some, for a reduction that divides by n or is a sum. */
static lk_status sum_and_divide(lk_call *c, lk_reduce_axis_shape s, const void *x,
                                lk_loss_reduction reduction, int64_t n)
{
    void *y = lk__tensor_start(c->y[0]);
    LK_TRY(lk_reduce_axis(c->y[0]->dtype, LK_REDUCE_AXIS_SUM, &s, x, y));
    if (reduction == LK_LOSS_SUM)
        return LK_OK;
    if (c->y[0]->dtype == LK_F32)
        *(float *)y /= (float)n;
    else
        *(double *)y /= (double)n;
    return LK_OK;
}

lk_status lk__loss_reduce(lk_call *c, lk_loss_reduction otherwise, lk_shape shape,
                          const void *losses)
{
    lk_loss_reduction reduction = reduction_of(c, otherwise);
    lk_reduce_axis_shape s = {.outer = 1, .inner = 1};
    LK_TRY(lk_shape_count(shape, &s.n));
    if (reduction == LK_LOSS_NONE)
        return LK_OK;
    s.piece = piece_of(c, shape, s.n);
    return LK_TRACE(sum_and_divide(c, s, losses, reduction, divisor(reduction, shape, s.n)));
}

lk_status lk__loss_each(lk_call *c, lk_loss_reduction otherwise, lk__loop loop, double p)
{
    const lk_tensor *x = c->x[0];
    void *losses = NULL;
    LK_TRY(lk__fp_check());
    LK_TRY(lk__loss_room(c, x->shape, &losses));
    lk__each_job j = {.loop = loop,
                      .dtype = x->dtype,
                      .p = {p},
                      .y = losses,
                      .n = x->count,
                      .n_in = 2,
                      .ndim = 1,
                      .dim = {x->count}};
    for (int i = 0; i < 2; i++)
        j.in[i] = (lk__each_in){
            .start = lk__tensor_start(c->x[i]), .size = lk_dtype_size(x->dtype), .direct = true};
    if (x->count > 0)
        LK_TRY(lk__each_job_run(&j));
    return LK_TRACE(lk__loss_reduce(c, otherwise, x->shape, losses));
}

/* What sheets of lk__loss_terms() share: the number p, and where the sums go. */
typedef struct terms_job {
    lk__sum_along sum;
    double p;
    void *sums;
} terms_job;

static void terms_sheet(lk__sheet *t)
{
    const terms_job *j = t->arg;
    for (int64_t r = t->first; r < t->last; r++)
        lk__sheet_set(t, 0, r, j->p);
    lk__sheet_sum(t, j->sum, 1);
    lk__sheet_keep(t, 1, j->sums);
}

/* Pieces are rows, the last of which may be shorter. */
lk_status lk__loss_terms(lk_call *c, lk_loss_reduction otherwise, lk__loop loop, lk__sum_along sum,
                         double p)
{
    const lk_tensor *x = c->x[0];
    const lk_loss_reduction reduction = reduction_of(c, otherwise);
    if (reduction == LK_LOSS_NONE) {
        return LK_TRACE(lk__loss_each(c, otherwise, loop, p));
    }
    const int64_t piece = piece_of(c, x->shape, x->count), elem = (int64_t)lk_dtype_size(x->dtype);
    lk_reduce_axis_shape tree = {.outer = 1, .inner = 1, .piece = 1};
    char *sums;
    LK_TRY(lk_call_scratch(c, (piece > 0 ? x->count / piece + 1 : 1) * elem, &sums));
    for (int64_t at = 0, left = x->count; left > 0; left = x->count - at) {
        const int64_t n = piece > 0 && piece < left ? piece : left;
        terms_job j = {sum, p, sums + tree.n * elem};
        lk__map_sums s = {
            .dtype = x->dtype, .rows = left / n, .n = n, .fn = terms_sheet, .arg = &j};
        for (int i = 0; i < 2; i++)
            s.x[i] = lk__tensor_start(c->x[i]) + at * elem;
        LK_TRY(lk__call_sums(c, &s));
        tree.n += s.rows;
        at += s.rows * n;
    }
    return LK_TRACE(
        sum_and_divide(c, tree, sums, reduction, divisor(reduction, x->shape, x->count)));
}

lk_status lk__loss_grad(const lk_call *c, lk_loss_reduction otherwise, lk_var dout, lk_shape shape,
                        lk_var *out)
{
    lk_loss_reduction reduction = reduction_of(c, otherwise);
    int64_t count;
    LK_TRY(lk_shape_count(shape, &count));
    *out = dout;
    if (reduction == LK_LOSS_NONE)
        return LK_OK;
    int64_t n = divisor(reduction, shape, count);
    if (n > 0) {
        lk_var by;
        LK_TRY(lk_full(c->tape, lk_dtype_of(dout), LK_SCALAR, (double)n, &by));
        LK_TRY(lk_div(dout, by, out));
    }
    return LK_TRACE(lk_broadcast(*out, shape, out));
}

/* ---- squared errors: l = w (x - t)^2, dx = 2 w (x - t) dl, dt = -dx ---- */

lk_status lk__squared_forward(lk_call *c)
{
    const lk__squared *s = c->op->data;
    return LK_TRACE(
        lk__loss_terms(c, s->otherwise, LK__LOOP_SQUARED_ERROR, LK__ALONG_ERRORS, s->w));
}

/* ---- squared_grad: dx of x, t and dl; the attribute is 2 w ---- */

/* With g the gradient of dx: for x 2 w g dl, for t minus that, for dl 2 w g (x - t). */
static lk_status grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var gd;
    if (lk_call_needs_grad(c, 0) || lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(dout[0], c->in[2], &gd));
        LK_TRY(lk_affine(gd, *(const double *)c->attr, 0, &din[0]));
    }
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_neg(din[0], &din[1]));
    if (lk_call_needs_grad(c, 2)) {
        lk_var in[] = {c->in[0], c->in[1], dout[0]};
        LK_TRY(lk_apply(c->tape, c->op, in, 3, c->attr, &din[2]));
    }
    return LK_OK;
}

static const lk_op squared_grad = {
    .name = "squared_grad",
    .summary = "2 w (x - t) dl",
    LK_EACH_OP(3),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(double),
    .saves_in = 7,
    .backward = grad_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SQUARED_ERROR_GRAD},
};

lk_status lk__squared_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__squared *s = c->op->data;
    lk_var dl;
    double twice = 2 * s->w;
    LK_TRY(lk__loss_grad(c, s->otherwise, dout[0], lk_shape_of(c->in[0]), &dl));
    lk_var in[] = {c->in[0], c->in[1], dl};
    if (!lk_call_needs_grad(c, 1)) {
        return LK_TRACE(lk_apply_gradient(c, 0, &squared_grad, in, 3, &twice, &din[0]));
    }
    LK_TRY(lk_apply(c->tape, &squared_grad, in, 3, &twice, &din[0]));
    return LK_TRACE(lk_neg(din[0], &din[1]));
}

const lk_op_sample lk__squared_samples[] = {
    {.n_in = 2, .in = {LK_IN(3, 4), LK_IN(3, 4)}, .attr = &(const lk_loss_attr){LK_LOSS_DEFAULT}},
    {.n_in = 2,
     .in = {LK_IN(5, 2), LK_IN_FIXED(-1, 1, 5, 2)},
     .attr = &(const lk_loss_attr){LK_LOSS_SUM},
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(5, 1, 2), LK_IN(5, 1, 2)},
     .attr = &(const lk_loss_attr){LK_LOSS_SAMPLE_MEAN},
     .shard_size = 3},
    {.n_in = 2, .in = {LK_IN(6), LK_IN(6)}, .attr = &(const lk_loss_attr){LK_LOSS_MEAN}},
    {.n_in = 2, .in = {LK_IN(7), LK_IN(7)}, .attr = &(const lk_loss_attr){LK_LOSS_NONE}},
    {0}};

/* ---- cross entropy by labels ---- */

/* The label of row r among its classes; -1: it is elsewhere. */
static int64_t label_of(const lk__sheet *t, const lk__labels *l, int64_t r)
{
    int64_t k = lk__index_at(l->label, t->row + r) - l->own.first;
    return k >= 0 && k < l->own.n ? k : -1;
}

static double at(lk_dtype dtype, const void *x, int64_t i)
{
    return dtype == LK_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void set(lk_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == LK_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* A number that was computed in f64 from numbers of the dtype, rounded as if it were in that. */
static double rounded(lk_dtype dtype, double value)
{
    return dtype == LK_F32 ? (double)(float)value : value;
}

void lk__labels_less(lk__sheet *t, const lk__labels *l, int k, int to)
{
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        double x = i < 0 ? 0 : at(t->dtype, t->x[0], r * t->step[0] + i) - lk__sheet_get(t, k, r);
        lk__sheet_set(t, to, r, x);
    }
}

void lk__labels_gradient(lk__sheet *t, const lk__labels *l)
{
    double y[LK_SHEET_ROWS]; /* of labels */
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        y[r] = i < 0 ? 0 : at(t->dtype, t->y, r * t->step_y + i);
    }
    lk__sheet_map_y(t, LK__TERM_SHARE);
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        double p = rounded(t->dtype, y[r] / lk__sheet_get(t, 0, r));
        double dx = rounded(t->dtype, rounded(t->dtype, p - 1) * lk__sheet_get(t, 1, r));
        if (i >= 0)
            set(t->dtype, t->y, r * t->step_y + i, t->overwrite ? 0 + dx : dx);
    }
}
