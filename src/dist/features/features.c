/* feature_copy, feature_gather, feature_gather_sum, feature_take, feature_join: values on their way into
 * and out of layers whose features are cut over ranks.
 *
 *   copy         y = x                        dx = the tree over blocks of dy       allreduce
 *   gather       y = all ranks' features      dx = the own features of dy           allgather
 *   gather_sum   the same                     dx = own features of the tree of dy   reduce_scatter
 *   take         y = the own features of x    dx = all ranks' features of dy        allgather
 *   join         y = the tree over blocks     dx = dy                               allreduce
 *
 * What a rank gives to a tree is one vector, the sum over its blocks, a subtree; a rank whose blocks are
 * empty gives none, for a zero would make +0 of -0.  The tape calls these, on the thread of the split's
 * communicator.
 */
#include "dist/common/features.h"

#include "base/memory/rehearsal.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

/* ---- collectives ---- */

lk_status lk__feature_run(lk_call *c, const lk__feature_node *a, lk_collective *call, int64_t bytes)
{
    const lk_feature_split *s = a->split;
    int64_t *first = NULL;
    if (!s->comm) { /* a rehearsal, without the ranks that have the rest */
        if (bytes > 0 && !lk__rehearses())
            memset(call->out, 0, (size_t)bytes);
        return LK_OK;
    }
    call->name = a->d.name;
    if (call->call != LK_CALL_ALLGATHER && a->of > 0 && !call->first) {
        int64_t size = lk__feature_block(s, a->of);
        LK_TRY(lk_call_scratch(c, (s->size + 1) * (int64_t)sizeof *first, &first));
        call->pieces = (a->of - 1) / size + 1;
        for (int r = 0; r <= s->size; r++)
            first[r] = s->first[r] < call->pieces ? s->first[r] : call->pieces;
        call->first = first;
    }
    if (a->request)
        LK_TRY(lk_coll_start(s->comm, call, a->request));
    else
        LK_TRY(lk_coll_run(s->comm, call));
    return LK_OK;
}

/* The elements of each rank, of `rows` rows that have its features. */
static lk_status counts_of(lk_call *c, const lk__feature_node *a, int64_t rows, int64_t **out)
{
    LK_TRY(lk_call_scratch(c, a->split->size * (int64_t)sizeof **out, out));
    for (int r = 0; r < a->split->size; r++)
        (*out)[r] = rows * lk_feature_range(a->split, r, a->n).n;
    return LK_OK;
}

/* Rows [rows][n], and the same by rank, [rank][row][its features]. */
typedef struct ranks_job {
    const lk__feature_node *a;
    int64_t rows, elem;
    char *whole, *by_rank;
    bool deals; /* from the first to the second; otherwise back */
} ranks_job;

static void ranks_task(void *arg, int64_t first, int64_t last)
{
    const ranks_job *j = arg;
    int64_t n = j->a->n, elem = j->elem;
    for (int r = 0; r < j->a->split->size; r++) {
        lk_range own = lk_feature_range(j->a->split, r, n);
        char *part = j->by_rank + own.first * j->rows * elem;
        for (int64_t i = first; i < last; i++) {
            char *row = j->whole + (i * n + own.first) * elem, *at = part + i * own.n * elem;
            memcpy(j->deals ? at : row, j->deals ? row : at, (size_t)(own.n * elem));
        }
    }
}

static lk_status ranks_move(const ranks_job *job)
{
    ranks_job j = *job;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(j.rows, j.a->n * j.elem), ranks_task, &j));
}

lk_status lk__feature_gather(lk_call *c, const lk__feature_node *a, const lk_tensor *x,
                             int64_t rows, void *y)
{
    int64_t elem = (int64_t)lk_dtype_size(x->dtype), *counts = NULL;
    lk_collective call = {.call = LK_CALL_ALLGATHER, .in = lk__tensor_start(x), .dtype = x->dtype};
    LK_TRY(counts_of(c, a, rows, &counts));
    call.counts = counts;
    LK_TRY(lk_call_scratch(c, rows * a->n * elem, &call.out));
    LK_TRY(lk__feature_run(c, a, &call, rows * a->n * elem));
    return LK_TRACE(ranks_move(&(ranks_job){a, rows, elem, y, call.out, false}));
}

/* ---- a sum over blocks, on all ranks ---- */

static lk_status sum_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "%s of %s: only f32 and f64", c->op->name,
             lk_tensor_text(x).s);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return LK_OK;
}

static lk_status sum_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0];
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .in = lk__tensor_start(x),
                          .out = lk__tensor_start(c->y[0]),
                          .count = x->count,
                          .dtype = x->dtype,
                          .op = LK_REDUCE_SUM};
    return LK_TRACE(
        lk__feature_run(c, c->attr, &call, x->count * (int64_t)lk_dtype_size(x->dtype)));
}

static lk_status join_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)c;
    din[0] = dout[0];
    return LK_OK;
}

static const lk_op join = {.name = "feature_join",
                           .summary = "what ranks have summed over their blocks, joined",
                           LK_ARITY(1, 1),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(lk__feature_node),
                           .infer = sum_infer,
                           .forward = sum_forward,
                           .backward = join_backward};

/* ---- the features of each rank ---- */

static lk_status by_rank_infer(lk_call *c, lk_output_spec *out)
{
    const lk__feature_node *a = c->attr;
    LK_TRY(lk__feature_check(c, "x", c->x[0], a->n));
    out->dtype = c->x[0]->dtype;
    out->shape = LK_SHAPE(c->x[0]->count);
    return LK_OK;
}

static lk_status by_rank_forward(lk_call *c)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *x = c->x[0];
    return LK_TRACE(ranks_move(&(ranks_job){a, x->count / a->n, (int64_t)lk_dtype_size(x->dtype),
                                            lk__tensor_start(x), lk__tensor_start(c->y[0]), true}));
}

static const lk_op by_rank = {.name = "feature_by_rank",
                              .summary = "the features of each rank, one rank behind the other",
                              LK_ARITY(1, 1),
                              .flags = LK_OP_FIRST_ORDER,
                              .attr_size = sizeof(lk__feature_node),
                              .infer = by_rank_infer,
                              .forward = by_rank_forward};

lk_status lk__feature_by_rank(const lk_call *c, const lk__feature_node *a, lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(c->tape, &by_rank, &x, 1, a, out));
}

/* The sum over blocks of what lies by rank, of which each rank gets its part. */
typedef struct scatter_attr {
    lk__feature_node f;
    lk_shape shape; /* of this rank's part */
} scatter_attr;

static lk_status scatter_infer(lk_call *c, lk_output_spec *out)
{
    const scatter_attr *a = c->attr;
    out->dtype = c->x[0]->dtype;
    out->shape = a->shape;
    return LK_OK;
}

static lk_status scatter_forward(lk_call *c)
{
    const scatter_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t *counts = NULL;
    lk_collective call = {.call = LK_CALL_REDUCE_SCATTER,
                          .in = lk__tensor_start(x),
                          .out = lk__tensor_start(c->y[0]),
                          .dtype = x->dtype,
                          .op = LK_REDUCE_SUM};
    LK_TRY(counts_of(c, &a->f, x->count / a->f.n, &counts));
    call.counts = counts;
    return LK_TRACE(
        lk__feature_run(c, &a->f, &call, c->y[0]->count * (int64_t)lk_dtype_size(x->dtype)));
}

static const lk_op scatter = {.name = "feature_scatter",
                              .summary = "sums over blocks, to each rank its features",
                              LK_ARITY(1, 1),
                              .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                              .attr_size = sizeof(scatter_attr),
                              .infer = scatter_infer,
                              .forward = scatter_forward};

lk_status lk__feature_scatter(const lk_call *c, const lk__feature_node *a, lk_shape shape, lk_var x,
                              lk_var *out)
{
    scatter_attr s;
    memset(&s, 0, sizeof s); /* attributes are compared as bytes */
    s.f = *a;
    s.shape = shape;
    return LK_TRACE(lk_apply(c->tape, &scatter, &x, 1, &s, out));
}

lk_status lk__feature_sum(const lk_call *c, const lk__feature_node *a, lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(c->tape, &join, &x, 1, a, out));
}

/* ---- copy ---- */

static lk_status copy_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    *out = (lk_output_spec){.dtype = x->dtype, .shape = x->shape, .is_view = true};
    memcpy(out->stride, x->stride, sizeof out->stride);
    return LK_OK;
}

static lk_status copy_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__feature_node g;
    LK_TRY(lk__feature_adjoint(c->attr, c->op->name, &g));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__feature_sum(c, &g, dout[0], &din[0]));
    return LK_OK;
}

static const lk_op copy = {.name = "feature_copy",
                           .summary = "a value that all ranks have, for a layer of cut features",
                           LK_ARITY(1, 1),
                           .flags = LK_OP_COLLECTIVE | LK_OP_STRIDED | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(lk__feature_node),
                           .infer = copy_infer,
                           .backward = copy_backward};

/* ---- gather, gather_sum ---- */

static lk_status gather_infer(lk_call *c, lk_output_spec *out)
{
    const lk__feature_node *a = c->attr;
    LK_TRY(lk__feature_check(c, "x", c->x[0], lk__feature_held(a->split, a->n)));
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[out->shape.ndim - 1] = a->n;
    return LK_OK;
}

static lk_status gather_forward(lk_call *c)
{
    const lk__feature_node *a = c->attr;
    return LK_TRACE(
        lk__feature_gather(c, a, c->x[0], c->y[0]->count / a->n, lk__tensor_start(c->y[0])));
}

static lk_status gather_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__feature_node *a = c->attr;
    lk_shape shape = lk_shape_of(c->in[0]);
    lk_range own = lk_feature_range(a->split, a->split->rank, a->n);
    lk__feature_node g;
    lk_var dy;
    LK_TRY(lk__feature_adjoint(a, c->op->name, &g));
    if (!lk_call_needs_grad(c, 0))
        return LK_OK;
    if (a->of == 0) {
        return LK_TRACE(
            lk_slice(dout[0], shape.ndim - 1, own.first, own.first + own.n, 1, &din[0]));
    }
    LK_TRY(lk__feature_by_rank(c, &g, dout[0], &dy));
    return LK_TRACE(lk__feature_scatter(c, &g, shape, dy, &din[0]));
}

#define GATHER(text, formula)                                                                 \
    {                                                                                         \
        .name = text, .summary = formula, LK_ARITY(1, 1),                                     \
        .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER, .attr_size = sizeof(lk__feature_node), \
        .infer = gather_infer, .forward = gather_forward, .backward = gather_backward         \
    }

static const lk_op gather = GATHER("feature_gather", "the features of all ranks");
static const lk_op gather_sum = GATHER("feature_gather_sum",
                                       "the features of all ranks, for a layer of cut features");

/* ---- take ---- */

static lk_status take_infer(lk_call *c, lk_output_spec *out)
{
    const lk__feature_node *a = c->attr;
    LK_TRY(lk__feature_check(c, "x", c->x[0], a->n));
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[out->shape.ndim - 1] = lk__feature_held(a->split, a->n);
    return LK_OK;
}

static lk_status take_forward(lk_call *c)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t elem = (int64_t)lk_dtype_size(x->dtype), rows = a->n > 0 ? x->count / a->n : 0;
    lk_range own = lk_feature_range(a->split, a->split->rank, a->n);
    for (int64_t i = 0; i < rows; i++)
        memcpy(lk__tensor_start(c->y[0]) + i * own.n * elem,
               lk__tensor_start(x) + (i * a->n + own.first) * elem, (size_t)(own.n * elem));
    return LK_OK;
}

static lk_status take_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__feature_node g;
    LK_TRY(lk__feature_adjoint(c->attr, c->op->name, &g));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &gather, &dout[0], 1, &g, &din[0]));
    return LK_OK;
}

static const lk_op take = {.name = "feature_take",
                           .summary = "this rank's features of a value that all ranks have",
                           LK_ARITY(1, 1),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(lk__feature_node),
                           .infer = take_infer,
                           .forward = take_forward,
                           .backward = take_backward};

/* ---- the calls ---- */

/* `n` and `of` as in lk__feature_node. */
static lk_status apply(const lk_op *op, const lk_feature_split *split, lk_var x, int64_t n,
                       int64_t of, const char *name, lk_var *out)
{
    lk__feature_node a;
    LK_TRY(lk__feature_begin(split, op->name, x, out));
    LK_CHECK(n >= 0 && of >= 0, LK_EINVAL, "%s: an axis of %lld features", op->name,
             (long long)(n < 0 ? n : of));
    bool sums = op == &copy || op == &join;
    if (!lk__feature_travels(split, sums ? of : n)) {
        *out = x;
        return LK_OK;
    }
    a = lk__feature_of(split, n, of, name);
    LK_TRY_DIST(split->comm, lk_apply(x.tape, op, &x, 1, &a, out));
    return LK_OK;
}

lk_status lk_dist_feature_copy(const lk_feature_split *split, lk_var x, int64_t of,
                               const char *name, lk_var *out)
{
    return LK_TRACE(apply(&copy, split, x, 0, of, name, out));
}

lk_status lk_dist_feature_gather(const lk_feature_split *split, lk_var x, int64_t n,
                                 const char *name, lk_var *out)
{
    return LK_TRACE(apply(&gather, split, x, n, 0, name, out));
}

lk_status lk_dist_feature_gather_sum(const lk_feature_split *split, lk_var x, int64_t n, int64_t of,
                                     const char *name, lk_var *out)
{
    LK_CHECK(split, LK_EINVAL, "feature_gather_sum: split is NULL");
    if (of >= 0 && !lk_feature_is_cut(split, of)) /* dy is not partial */
        LK_TRY(apply(&gather, split, x, n, 0, name, out));
    else if (n >= 0 && !lk_feature_is_cut(split, n)) /* all have all of x */
        LK_TRY(apply(&copy, split, x, 0, of, name, out));
    else
        LK_TRY(apply(&gather_sum, split, x, n, of, name, out));
    return LK_OK;
}

lk_status lk_dist_feature_take(const lk_feature_split *split, lk_var x, int64_t n, const char *name,
                               lk_var *out)
{
    return LK_TRACE(apply(&take, split, x, n, 0, name, out));
}

lk_status lk_dist_feature_join(const lk_feature_split *split, lk_var x, int64_t of,
                               const char *name, lk_var *out)
{
    return LK_TRACE(apply(&join, split, x, 0, of, name, out));
}
