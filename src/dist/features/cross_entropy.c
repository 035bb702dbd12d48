/* feature_cross_entropy: softmax cross entropy of logits x [...][classes] whose classes are cut over ranks,
 * with labels k [...], for each row
 *
 *   m  = max of x
 *   s  = tree over blocks( lane sum of exp(x - m) )
 *   l  = log s - (x[k] - m)
 *   dx = (exp(x - m) / s - [c = k]) dl
 *
 * and then the mean or sum, see ops/common/loss/loss.h.  Three vectors of a number for each row are joined: m by
 * max, s by the tree, and x[k] - m by OR on the bits, for one rank alone has it.  m and s are kept, and
 * backward sends nothing.  Made by lk_dist_feature_cross_entropy(), run on the thread of the tape.
 */
#include "dist/common/features.h"
#include "ops/common/index.h"
#include "ops/common/loss/loss.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"

#include <lockstep/extra/map.h>
#include <lockstep/extra/reduce.h>

#include <string.h>

typedef struct entropy_attr {
    lk_loss_attr loss; /* what the reduction looks at */
    lk__feature_node f;
} entropy_attr;

enum { LOSS, MAX, SUM }; /* outputs */

static lk_shape losses_of(lk_shape x)
{
    x.ndim--;
    return x;
}

static lk_status entropy_infer(lk_call *c, lk_output_spec *out)
{
    const entropy_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *k = c->x[1];
    LK_TRY(lk__feature_check(c, "x", x, lk__feature_held(a->f.split, a->f.n)));
    LK_CHECK(
        lk__is_index(k->dtype) && lk_shape_is_equal(k->shape, losses_of(x->shape)), LK_ESHAPE,
        "%s of logits %s and %s: labels are i64 or i32 and have the axes of the logits but the "
        "last",
        c->op->name, lk_tensor_text(x).s, lk_tensor_text(k).s);
    LK_TRY(lk__loss_infer(c, losses_of(x->shape), &out[LOSS]));
    out[MAX] = (lk_output_spec){.dtype = x->dtype, .shape = k->shape};
    out[SUM] = out[MAX];
    return LK_OK;
}

/* What rows need besides their elements. */
typedef struct entropy_job {
    lk__labels labels;
    const void *max, *sum, *dl;
    void *hit; /* x[k] - m where k is here, otherwise 0 */
} entropy_job;

static entropy_job job_of(const lk_call *c)
{
    const lk__feature_node *f = &((const entropy_attr *)c->attr)->f;
    return (entropy_job){.labels = {c->x[1], lk_feature_range(f->split, f->split->rank, f->n)}};
}

static void exp_sheet(lk__sheet *t)
{
    const entropy_job *j = t->arg;
    lk__sheet_take(t, 0, j->max);
    lk__sheet_loop(t, LK__LOOP_EXP_LESS);
    lk__labels_less(t, &j->labels, 0, 1);
    lk__sheet_keep(t, 1, j->hit);
}

/* Join a vector of one number for each row over ranks, in place; of sums the blocks are pieces. */
static lk_status rows_join(lk_call *c, lk_reduce_op op, int64_t rows, void *v)
{
    const entropy_attr *a = c->attr;
    lk__feature_node f = a->f;
    lk_dtype dtype = c->x[0]->dtype, bits = dtype == LK_F32 ? LK_I32 : LK_I64;
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .out = v,
                          .count = rows,
                          .dtype = op == LK_REDUCE_OR ? bits : dtype,
                          .op = op};
    if (op != LK_REDUCE_SUM)
        f.of = 0;
    if (f.split->size > 1)
        LK_TRY(lk__feature_run(c, &f, &call, rows * (int64_t)lk_dtype_size(dtype)));
    return LK_OK;
}

static lk_status entropy_forward(lk_call *c)
{
    const entropy_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *k = c->x[1];
    int64_t n = x->shape.dim[x->shape.ndim - 1], rows = k->count;
    int64_t elem = (int64_t)lk_dtype_size(x->dtype);
    char *max = lk__tensor_start(c->y[MAX]), *sum = lk__tensor_start(c->y[SUM]);
    void *losses = NULL, *log_sum = NULL;
    lk_reduce_axis_shape along = {.outer = rows, .n = n, .inner = 1};
    entropy_job j = job_of(c);
    j.max = max;
    LK_TRY(lk__index_check(k, a->f.n, "feature_cross_entropy: label"));
    LK_TRY(lk__loss_room(c, k->shape, &losses));
    LK_TRY(lk_call_scratch(c, rows * elem, &j.hit));
    LK_TRY(lk_call_scratch(c, rows * elem, &log_sum));
    lk__map_sums s = {.dtype = x->dtype,
                      .rows = rows,
                      .n = n,
                      .x = {lk__tensor_start(x)},
                      .fn = exp_sheet,
                      .arg = &j};
    LK_TRY(lk_call_scratch(c, x->count * elem, &s.y));
    LK_TRY(lk_reduce_axis(x->dtype, LK_REDUCE_AXIS_MAX, &along, s.x[0], max));
    LK_TRY(rows_join(c, LK_REDUCE_MAX, rows, max));
    if (n == 0) /* all labels are elsewhere */
        memset(j.hit, 0, (size_t)(rows * elem));
    LK_TRY(lk__call_sums(c, &s));
    along.piece = lk__feature_block(a->f.split, a->f.n);
    LK_TRY(lk_reduce_axis(x->dtype, LK_REDUCE_AXIS_SUM, &along, s.y, sum));
    LK_TRY(rows_join(c, LK_REDUCE_SUM, rows, sum));
    LK_TRY(rows_join(c, LK_REDUCE_OR, rows, j.hit));
    LK_TRY(lk_map1(x->dtype, LK_MAP1_LOG, 0, rows, sum, log_sum));
    LK_TRY(lk_map2(x->dtype, LK_MAP2_SUB, 0, rows, log_sum, j.hit, losses));
    return LK_TRACE(lk__loss_reduce(c, LK_LOSS_MEAN, k->shape, losses));
}

/* ---- the gradient: of x, labels, dl, m and s ---- */

static void grad_sheet(lk__sheet *t)
{
    const entropy_job *j = t->arg;
    lk__sheet_take(t, 0, j->max);
    lk__sheet_loop(t, LK__LOOP_EXP_LESS);
    lk__sheet_take(t, 0, j->sum);
    lk__sheet_take(t, 1, j->dl);
    lk__labels_gradient(t, &j->labels);
}

static lk_status grad_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0];
    entropy_job j = job_of(c);
    j.dl = lk__tensor_start(c->x[2]);
    j.max = lk__tensor_start(c->x[3]);
    j.sum = lk__tensor_start(c->x[4]);
    lk__map_sums s = {.dtype = x->dtype,
                      .rows = c->x[1]->count,
                      .n = x->shape.dim[x->shape.ndim - 1],
                      .x = {lk__tensor_start(x)},
                      .y = lk__tensor_start(c->y[0]),
                      .overwrite = c->overwrite,
                      .fn = grad_sheet,
                      .arg = &j};
    return LK_TRACE(lk__call_sums(c, &s));
}

static const lk_op entropy_grad = {.name = "feature_cross_entropy.grad",
                                   .summary = "(exp(x - m) / s - [is label]) dl",
                                   LK_ARITY(5, 1),
                                   .flags = LK_OP_FIRST_ORDER | LK_OP_OVERWRITES,
                                   .attr_size = sizeof(entropy_attr),
                                   .infer = lk__same_infer,
                                   .forward = grad_forward};

static lk_status entropy_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_shape rows = lk_shape_of(c->in[1]);
    lk_var dl;
    if (!lk_call_needs_grad(c, 0))
        return LK_OK;
    LK_TRY(lk__loss_grad(c, LK_LOSS_MEAN, dout[LOSS], rows, &dl));
    lk_var in[] = {c->in[0], c->in[1], dl, c->out[MAX], c->out[SUM]};
    return LK_TRACE(lk_apply_gradient(c, 0, &entropy_grad, in, 5, c->attr, &din[0]));
}

static const lk_op cross_entropy = {.name = "feature_cross_entropy",
                                    .summary = "-log softmax(x)[label], the classes over ranks",
                                    LK_ARITY(2, 3),
                                    .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                                    .attr_size = sizeof(entropy_attr),
                                    .saves_in = 3,
                                    .infer = entropy_infer,
                                    .forward = entropy_forward,
                                    .backward = entropy_backward};

lk_status lk_dist_feature_cross_entropy(const lk_feature_split *split, int64_t classes, lk_var x,
                                        lk_var label, lk_loss_reduction reduction, const char *name,
                                        lk_var *out)
{
    entropy_attr a;
    lk_var y[3];
    LK_TRY(lk__feature_begin(split, cross_entropy.name, x, out));
    LK_CHECK(classes >= 0, LK_EINVAL, "%s: %lld classes", cross_entropy.name, (long long)classes);
    if (!lk_feature_is_cut(split, classes)) {
        return LK_TRACE(lk_softmax_cross_entropy(x, label, reduction, out));
    }
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.loss.reduction = reduction;
    a.f = lk__feature_of(split, classes, classes, name);
    LK_TRY_DIST(split->comm, lk_apply(x.tape, &cross_entropy, (lk_var[]){x, label}, 2, &a, y));
    *out = y[LOSS];
    return LK_OK;
}
