/* softmax_cross_entropy: of logits x [...][classes] and labels k [...], or probabilities t of x's
 * shape, for each row with p = softmax(x)
 *
 *   l  = -log p[k]              or  -sum of t log p, where a term with t = 0 is 0
 *   dx = (p - [c = k]) dl       or  (p sum t - t) dl
 *   dt = -log p dl
 *
 * and then the mean or sum, see common/loss.h.  Sums over classes are the lane sums of lk_reduce_axis(),
 * one piece.
 */
#include "ops/common/index.h"
#include "ops/common/loss/loss.h"
#include "ops/common/loss/softmax.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"

#include <string.h>

static bool by_label(lk_dtype target)
{
    return lk__is_index(target);
}

/* The shape of the losses. */
static lk_shape losses_of(lk_shape x)
{
    x.ndim--;
    return x;
}

static lk_status softmax_cross_entropy_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0], *t = c->x[1];
    lk_short_string logits = lk_tensor_text(x), target = lk_tensor_text(t);
    LK_CHECK(lk_dtype_is_real(x->dtype) && (by_label(t->dtype) || t->dtype == x->dtype), LK_EDTYPE,
             "%s of logits %s and %s: logits are f32 or f64, labels i64 or i32, probabilities of "
             "the dtype of the logits",
             c->op->name, logits.s, target.s);
    LK_CHECK(x->shape.ndim > 0, LK_ESHAPE, "%s of logits %s, which have no axis of classes",
             c->op->name, logits.s);
    LK_CHECK(lk_shape_is_equal(t->shape, by_label(t->dtype) ? losses_of(x->shape) : x->shape),
             LK_ESHAPE,
             "%s of logits %s and %s: labels have the axes of the logits but the last, "
             "probabilities have all",
             c->op->name, logits.s, target.s);
    return LK_TRACE(lk__loss_infer(c, losses_of(x->shape), out));
}

/* What rows need besides their elements. */
typedef struct entropy_job {
    const lk__labels *labels; /* NULL: probabilities */
    void *losses;
    const void *dl;
} entropy_job;

enum { MAX, LOG_SUM, LOG_P }; /* numbers of a row */

/* x and, of probabilities, t; y is then room. */
static void entropy_sheet(lk__sheet *t)
{
    const entropy_job *j = t->arg;
    lk__sheet_log_sum(t, MAX);
    if (j->labels) {
        lk__labels_less(t, j->labels, MAX, LOG_P);
        for (int64_t r = t->first; r < t->last; r++)
            lk__sheet_set(t, LOG_P, r, lk__sheet_get(t, LOG_P, r) - lk__sheet_get(t, LOG_SUM, r));
    } else {
        lk__sheet_loop(t, LK__LOOP_ENTROPY);
        lk__sheet_sum_y(t, LK__ALONG_VALUES, LOG_P);
    }
    for (int64_t r = t->first; r < t->last; r++)
        lk__sheet_set(t, LOG_P, r, 0 - lk__sheet_get(t, LOG_P, r));
    lk__sheet_keep(t, LOG_P, j->losses);
}

static lk_status softmax_cross_entropy_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0], *t = c->x[1];
    lk_shape shape = losses_of(x->shape);
    int64_t classes = x->shape.dim[shape.ndim], n;
    const lk__labels labels = {t, {0, classes}};
    entropy_job j = {.labels = by_label(t->dtype) ? &labels : NULL};
    LK_TRY(lk_shape_count(shape, &n));
    LK_TRY(lk__loss_room(c, shape, &j.losses));
    if (j.labels)
        LK_TRY(lk__index_check(t, classes, "softmax_cross_entropy: label"));
    lk__map_sums s = {.dtype = x->dtype,
                      .rows = n,
                      .n = classes,
                      .x = {lk__tensor_start(x), j.labels ? NULL : lk__tensor_start(t)},
                      .fn = entropy_sheet,
                      .arg = &j};
    if (!j.labels)
        LK_TRY(lk_call_scratch(c, x->count * (int64_t)lk_dtype_size(x->dtype), &s.y));
    if (classes == 0) /* a sum of nothing */
        memset(j.losses, 0, (size_t)n * lk_dtype_size(x->dtype));
    LK_TRY(lk__call_sums(c, &s));
    return LK_TRACE(lk__loss_reduce(c, LK_LOSS_MEAN, shape, j.losses));
}

/* ---- softmax_cross_entropy_grad: dx of x, k or t, and dl ---- */

enum { SUM, DL, SUM_T }; /* numbers of a row */

static void entropy_grad_sheet(lk__sheet *t)
{
    const entropy_job *j = t->arg;
    lk__sheet_exps(t, SUM);
    lk__sheet_take(t, DL, j->dl);
    if (j->labels) {
        lk__labels_gradient(t, j->labels);
        return;
    }
    lk__sheet_sum(t, LK__ALONG_SECONDS, SUM_T);
    lk__sheet_map_y(t, LK__TERM_SHARE_LESS);
}

static lk_status entropy_grad_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0], *t = c->x[1];
    int64_t classes = x->shape.dim[x->shape.ndim - 1];
    const lk__labels labels = {t, {0, classes}};
    entropy_job j = {.labels = by_label(t->dtype) ? &labels : NULL,
                     .dl = lk__tensor_start(c->x[2])};
    lk__map_sums s = {.dtype = x->dtype,
                      .rows = classes > 0 ? x->count / classes : 0,
                      .n = classes,
                      .x = {lk__tensor_start(x), j.labels ? NULL : lk__tensor_start(t)},
                      .y = lk__tensor_start(c->y[0]),
                      .overwrite = c->overwrite,
                      .fn = entropy_grad_sheet,
                      .arg = &j};
    return LK_TRACE(lk__call_sums(c, &s));
}

/* *out = x summed over the classes, an axis that stays with size 1. */
static lk_status sum_classes(lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    shape.dim[shape.ndim - 1] = 1;
    return LK_TRACE(lk_sum_to(x, shape, out));
}

/* With g the gradient of dx, and p and n = sum t (1 for labels) of x and t:
 *
 *   for x    the gradient of softmax from g dl n
 *   for t    (sum (g p) - g) dl
 *   for dl   sum (g (p n - t)), which is this op with dl = 1
 */
static lk_status entropy_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var x = c->in[0], t = c->in[1], dl = c->in[2], g = dout[0], p = LK_NO_VAR, s, one;
    bool labels = by_label(lk_dtype_of(t));
    if (lk_call_needs_grad(c, 0) || lk_call_needs_grad(c, 1))
        LK_TRY(lk_softmax(x, LK_LAST_AXIS, &p));
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_mul(g, dl, &din[0]));
        if (!labels) {
            LK_TRY(sum_classes(t, &s));
            LK_TRY(lk_mul(din[0], s, &din[0]));
        }
        LK_TRY(lk__softmax_grad(p, din[0], &din[0]));
    }
    if (lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(g, p, &s));
        LK_TRY(sum_classes(s, &s));
        LK_TRY(lk_sub(s, g, &s));
        LK_TRY(lk_mul(s, dl, &din[1]));
    }
    if (lk_call_needs_grad(c, 2)) {
        LK_TRY(lk_full(c->tape, lk_dtype_of(dl), lk_shape_of(dl), 1, &one));
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){x, t, one}, 3, NULL, &s));
        LK_TRY(lk_mul(g, s, &s));
        LK_TRY(sum_classes(s, &din[2]));
    }
    return LK_OK;
}

static const lk_op softmax_cross_entropy_grad = {
    .name = "softmax_cross_entropy_grad",
    .summary = "(softmax(x) sum t - t) dl",
    LK_ARITY(3, 1),
    .flags = LK_OP_OVERWRITES,
    .saves_in = 7,
    .infer = lk__same_infer,
    .forward = entropy_grad_forward,
    .backward = entropy_grad_backward,
};

/* ---- softmax_cross_entropy ---- */

static lk_status softmax_cross_entropy_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_shape rows = lk_shape_of(c->in[0]);
    rows.dim[rows.ndim - 1] = 1;
    lk_var dl = dout[0];
    if (((const lk_loss_attr *)c->attr)->reduction == LK_LOSS_NONE)
        LK_TRY(lk_reshape(dl, rows, &dl));
    LK_TRY(lk__loss_grad(c, LK_LOSS_MEAN, dl, rows, &dl));
    if (lk_call_needs_grad(c, 0)) {
        lk_var in[] = {c->in[0], c->in[1], dl};
        LK_TRY(lk_apply_gradient(c, 0, &softmax_cross_entropy_grad, in, 3, NULL, &din[0]));
    }
    if (lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_log_softmax(c->in[0], LK_LAST_AXIS, &din[1]));
        LK_TRY(lk_neg(dl, &dl));
        LK_TRY(lk_mul(din[1], dl, &din[1]));
    }
    return LK_OK;
}

const lk_op lk__op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .summary = "-log softmax(x)[label], or -sum of t log softmax(x); mean, sum or none",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_loss_attr),
    .saves_in = 3,
    .infer = softmax_cross_entropy_infer,
    .forward = softmax_cross_entropy_forward,
    .backward = softmax_cross_entropy_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN_RANGE(-3, 3, 3, 5), LK_IN_INDEX(5, 3)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_DEFAULT}},
                                      {.n_in = 2,
                                       .in = {LK_IN_RANGE(-2, 2, 5, 4), LK_IN_RANGE(0.1, 1, 5, 4)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_MEAN},
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(5, 2, 3), LK_IN_INDEX(3, 5, 2)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_SAMPLE_MEAN},
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(5, 2), LK_IN_INDEX(2, 5)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_SUM},
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 2, 3), LK_IN(2, 2, 3)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_NONE}},
                                      {.n_in = 2,
                                       .in = {LK_IN(4, 3), LK_IN_INDEX(3, 4)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_NONE}},
                                      {0}},
};

lk_status lk_softmax_cross_entropy(lk_var x, lk_var target, lk_loss_reduction reduction,
                                   lk_var *out)
{
    lk_loss_attr attr = {reduction};
    lk_var in[] = {x, target};
    return LK_TRACE(lk_apply(x.tape, &lk__op_softmax_cross_entropy, in, 2, &attr, out));
}
