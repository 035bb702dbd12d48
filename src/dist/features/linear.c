/* feature_linear: linear layers whose units, or whose inputs, are cut over ranks.
 *
 *   cut out   y = b + x w                     one chain, as ops/linear.c
 *             dx = tree over blocks of units( dy w' )       then an allreduce or a reduce_scatter
 *   cut in    y = b + tree over blocks of in( x w )         an allreduce
 *             dx = dy w'                      one chain, nothing travels
 *   dw, db    of what this rank has, as ops/linear.c
 *
 * With an activation y = act(z) of that z, and dy is dz, from dy and y.  A layer that is cut out may have
 * several gates, w [in][gates][units]: a block of dx is then a chain over the gates, and in each the units.
 *
 * The one is the mirror image of the other: the same product with pieces, the same sum over ranks.
 * Made by lk_dist_feature_linear(), run on the thread of the tape.
 */
#include "dist/common/features.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "ops/common/sums.h"
#include "tensor/tensor.h"

#include <lockstep/extra/gemm.h>

#include <string.h>

typedef struct linear_attr {
    lk__feature_node f; /* n: `in` where x is gathered, otherwise 0; of: the axis that is cut */
    lk_feature_cut cut;
    lk_feature_sum sum;
    int64_t in, units;
    int64_t gates; /* columns of w for each unit */
    lk_act act;
} linear_attr;

static int64_t last_of(const lk_tensor *t)
{
    return t->shape.dim[t->shape.ndim - 1];
}

/* The product x w [+ b] of `rows` rows, y [rows][units]. */
static lk_gemm product(const lk_tensor *w, int64_t rows)
{
    return (lk_gemm){.dtype = w->dtype,
                     .m = rows,
                     .n = w->shape.dim[1],
                     .k = w->shape.dim[0],
                     .lda = w->shape.dim[0],
                     .ldb = w->shape.dim[1],
                     .ldc = w->shape.dim[1]};
}

/* x [..., in], w [in][units] and b [units], of this rank. */
static lk_status linear_infer(lk_call *c, lk_output_spec *out)
{
    const linear_attr *a = c->attr;
    const lk_feature_split *s = a->f.split;
    const lk_tensor *x = c->x[0], *w = c->x[1];
    bool splits_in = a->cut == LK_FEATURE_IN;
    int64_t in = splits_in ? lk__feature_held(s, a->in) : a->in;
    int64_t units = a->gates * (splits_in ? a->units : lk__feature_held(s, a->units));
    LK_TRY(lk__feature_check(c, "x", x, a->f.n > 0 ? lk__feature_held(s, a->in) : in));
    LK_CHECK(x->shape.ndim > 1, LK_ESHAPE,
             "%s of %s: needs [batch, ..., in]; lk_reshape() a sample", c->op->name,
             lk_tensor_text(x).s);
    LK_CHECK(w->dtype == x->dtype, LK_EDTYPE, "%s of %s with weights %s: lk_cast() one of them",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(w).s);
    LK_CHECK(w->shape.ndim == 2 && w->shape.dim[0] == in && w->shape.dim[1] == units, LK_ESHAPE,
             "%s of %s with weights %s: of [%lld, %lld] this rank has [%lld, %lld]", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(w).s, (long long)a->in,
             (long long)(a->gates * a->units), (long long)in, (long long)units);
    if (c->n_in > 2)
        LK_TRY(lk__bias_check(c, 2, units));
    out[0].dtype = x->dtype;
    out[0].shape = x->shape;
    out[0].shape.dim[x->shape.ndim - 1] = units;
    if (a->f.n > 0) {
        out[1] = out[0];
        out[1].shape.dim[x->shape.ndim - 1] = a->in;
    }
    return LK_OK;
}

static int64_t rows_of(const lk_tensor *t)
{
    int64_t rows = 1;
    for (int d = 0; d < t->shape.ndim - 1; d++)
        rows *= t->shape.dim[d];
    return rows;
}

/* ---- cut out ---- */

static lk_status out_forward(lk_call *c)
{
    const linear_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t rows = rows_of(x);
    lk_gemm g = product(c->x[1], rows);
    g.act = a->act;
    if (a->f.n > 0) {
        LK_TRY(lk__feature_gather(c, &a->f, x, rows, lk__tensor_start(c->y[1])));
        x = c->y[1];
    }
    return LK_TRACE(lk_gemm_run(&g, lk__tensor_start(x), lk__tensor_start(c->x[1]),
                                c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL,
                                lk__tensor_start(c->y[0])));
}

/* dx of dy [..., held units] and w: the tree over this rank's blocks, or by rank if it is dealt out. */
static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    const linear_attr *a = c->attr;
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[out->shape.ndim - 1] = a->in;
    if (a->f.n > 0)
        out->shape = LK_SHAPE(rows_of(c->x[0]) * a->in);
    return LK_OK;
}

/* Columns of several gates, [row][gate][unit], put into the order of blocks: [row][block][gate][unit]. */
typedef struct columns_job {
    const char *from;
    char *to;
    int64_t gates, held, size, elem; /* size: units of a block */
} columns_job;

static void columns_task(void *arg, int64_t first, int64_t last)
{
    const columns_job *j = arg;
    int64_t wide = j->gates * j->held;
    char *to = j->to + first * wide * j->elem;
    for (int64_t row = first; row < last; row++)
        for (int64_t unit = 0; unit < j->held; unit += j->size) {
            int64_t n = j->held - unit < j->size ? j->held - unit : j->size;
            for (int64_t g = 0; g < j->gates; g++, to += n * j->elem)
                memcpy(to, j->from + (row * wide + g * j->held + unit) * j->elem,
                       (size_t)(n * j->elem));
        }
}

/* *out = the rows of t with their columns in that order: t itself, if they are. */
static lk_status columns_order(lk_call *c, const lk_tensor *t, char **out)
{
    const linear_attr *a = c->attr;
    int64_t wide = last_of(t), elem = (int64_t)lk_dtype_size(t->dtype);
    columns_job j = {.from = lk__tensor_start(t),
                     .gates = a->gates,
                     .held = wide / a->gates,
                     .size = lk__feature_block(a->f.split, a->units),
                     .elem = elem};
    *out = lk__tensor_start(t);
    if (a->gates == 1 || j.held <= j.size)
        return LK_OK;
    LK_TRY(lk_call_scratch(c, t->count * elem, &j.to));
    LK_TRY(lk__parallel(lk__tasks_bytes(t->count / wide, wide * elem), columns_task, &j));
    *out = j.to;
    return LK_OK;
}

static lk_status data_forward(lk_call *c)
{
    const linear_attr *a = c->attr;
    const lk_feature_split *s = a->f.split;
    int64_t rows = rows_of(c->x[0]), units = last_of(c->x[0]);
    int64_t elem = (int64_t)lk_dtype_size(c->x[0]->dtype);
    char *dx = lk__tensor_start(c->y[0]), *dy = NULL, *w = NULL;
    LK_TRY(columns_order(c, c->x[0], &dy));
    LK_TRY(columns_order(c, c->x[1], &w));
    for (int r = 0; r < (a->f.n > 0 ? s->size : 1); r++) {
        lk_range own = a->f.n > 0 ? lk_feature_range(s, r, a->in) : (lk_range){0, a->in};
        lk_gemm g = {.dtype = c->x[0]->dtype,
                     .trans_b = true,
                     .m = rows,
                     .n = own.n,
                     .k = units,
                     .lda = units,
                     .ldb = units,
                     .ldc = own.n,
                     .piece = a->gates * lk__feature_block(s, a->units)};
        LK_TRY(
            lk_gemm_run(&g, dy, w + own.first * units * elem, NULL, dx + own.first * rows * elem));
    }
    return LK_OK;
}

static const lk_op data_grad = {.name = "feature_linear.data",
                                .summary = "the gradient of x, summed over this rank's blocks",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_FIRST_ORDER,
                                .attr_size = sizeof(linear_attr),
                                .infer = data_infer,
                                .forward = data_forward};

/* dw and db; where dx is joined, meanwhile. */
static lk_status weights_gradients(lk_call *c, lk_var x, lk_var dy, lk_var *din)
{
    if (lk_call_needs_grad(c, 1))
        LK_TRY(
            lk_apply_gradient(c, 1, &lk__op_linear_weights, (lk_var[]){x, dy}, 2, NULL, &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__bias_gradient(c, 2, dy, &din[2]));
    return LK_OK;
}

static lk_status out_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    linear_attr a = *(const linear_attr *)c->attr;
    lk_request *request = NULL;
    lk_var dy, partial;
    LK_TRY(lk__feature_adjoint(&a.f, c->op->name, &a.f));
    LK_TRY(lk__act_grad(a.act, dout[0], c->out[0], &dy));
    LK_TRY(lk_contiguous(dy, &dy));
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_apply(c->tape, &data_grad, (lk_var[]){dy, c->in[1]}, 2, &a, &partial));
        LK_TRY(lk__feature_dx_begin(c, &a.f, a.sum, lk_shape_of(c->in[0]), partial, &request,
                                    &din[0]));
    }
    lk_status st = weights_gradients(c, a.f.n > 0 ? c->out[1] : c->in[0], dy, din);
    return LK_TRACE(lk__feature_dx_end(&request, st));
}

/* ---- cut in ---- */

static void biased_sheet(lk__sheet *t)
{
    lk__sheet_loop(t, LK__LOOP_ADD);
}

/* y as it is, for the activation behind it. */
static void plain_sheet(lk__sheet *t)
{
    (void)t;
}

/* y = act(b + y), behind the sum over ranks. */
static lk_status in_finish(lk_call *c, int64_t rows)
{
    const linear_attr *a = c->attr;
    void *y = lk__tensor_start(c->y[0]);
    lk__map_sums s = {.dtype = c->y[0]->dtype,
                      .rows = rows,
                      .n = a->units,
                      .x = {y},
                      .y = y,
                      .fn = plain_sheet,
                      .folds = true,
                      .act = a->act};
    if (c->n_in > 2) {
        s.x[0] = lk__tensor_start(c->x[2]);
        s.of[0] = LK_SUMS_SHARED;
        s.x[1] = y;
        s.fn = biased_sheet;
    }
    if (c->n_in > 2 || a->act != LK_ACT_NONE)
        LK_TRY(lk__call_sums(c, &s));
    return LK_OK;
}

static lk_status in_forward(lk_call *c)
{
    const linear_attr *a = c->attr;
    const lk_feature_split *s = a->f.split;
    int64_t rows = rows_of(c->x[0]);
    bool joins = s->size > 1 && a->sum == LK_FEATURE_JOINED;
    void *y = lk__tensor_start(c->y[0]), *b = c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL;
    lk_gemm g = product(c->x[1], rows);
    g.piece = lk__feature_block(s, a->in);
    g.act = joins ? LK_ACT_NONE : a->act;
    LK_TRY(
        lk_gemm_run(&g, lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]), joins ? NULL : b, y));
    if (!joins)
        return LK_OK;
    lk_collective sum = {.call = LK_CALL_ALLREDUCE,
                         .out = y,
                         .count = c->y[0]->count,
                         .dtype = g.dtype,
                         .op = LK_REDUCE_SUM};
    LK_TRY(lk__feature_run(c, &a->f, &sum, sum.count * (int64_t)lk_dtype_size(g.dtype)));
    return LK_TRACE(in_finish(c, rows));
}

static lk_status in_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dy;
    LK_TRY(lk__act_grad(((const linear_attr *)c->attr)->act, dout[0], c->out[0], &dy));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_matmul_trans(dy, c->in[1], false, true, &din[0]));
    return LK_TRACE(weights_gradients(c, c->in[0], dy, din));
}

/* ---- the call ---- */

#define LINEAR(text, formula, outputs, ahead, back)                                      \
    {                                                                                    \
        .name = text, .summary = formula, .min_in = 2, .max_in = 3, .n_out = (outputs),  \
        .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER, .attr_size = sizeof(linear_attr), \
        .saves_in = 3, .infer = linear_infer, .forward = (ahead), .backward = (back)     \
    }

static const lk_op cut_out = LINEAR("feature_linear", "x w + b, its units over ranks", 1,
                                    out_forward, out_backward);
static const lk_op cut_out_gathered = LINEAR("feature_linear_gathered",
                                             "the same of x gathered, which is kept", 2,
                                             out_forward, out_backward);
static const lk_op cut_in = LINEAR("feature_linear_in", "x w + b, its sums over ranks", 1,
                                   in_forward, in_backward);

static lk_status attr_check(const lk_feature_linear_attr *a, lk_var b)
{
    LK_CHECK(a, LK_EINVAL, "feature_linear: attr is NULL");
    LK_CHECK(a->cut == LK_FEATURE_OUT || a->cut == LK_FEATURE_IN, LK_EINVAL,
             "feature_linear: the cut is number %d; there are out and in", (int)a->cut);
    LK_TRY(lk__act_check("feature_linear", a->act));
    LK_CHECK(a->in >= 0 && a->units >= 0, LK_EINVAL, "feature_linear: %lld inputs and %lld units",
             (long long)a->in, (long long)a->units);
    LK_CHECK(a->sum == LK_FEATURE_JOINED || a->sum == LK_FEATURE_PARTIAL ||
                 (a->sum == LK_FEATURE_SCATTERED && a->cut == LK_FEATURE_OUT),
             LK_EINVAL,
             "feature_linear: the sum is number %d; there are joined and partial, and scattered "
             "where units are cut",
             (int)a->sum);
    LK_CHECK(a->cut == LK_FEATURE_OUT || a->sum == LK_FEATURE_JOINED ||
                 (!lk_is_var(b) && a->act == LK_ACT_NONE),
             LK_EINVAL,
             "feature_linear: a partial sum with %s: it comes behind the join, or every rank adds "
             "its own",
             lk_is_var(b) ? "a bias" : "an activation");
    return LK_OK;
}

lk_status lk__feature_linear(const lk_feature_split *split, const lk_feature_linear_attr *attr,
                             int64_t gates, lk_var x, lk_var w, lk_var b, const char *name,
                             lk_var *out)
{
    linear_attr a;
    const lk_op *op = &cut_in;
    LK_TRY(lk__feature_begin(split, "feature_linear", x, out));
    LK_TRY(attr_check(attr, b));
    bool gathers = attr->sum == LK_FEATURE_SCATTERED && lk__feature_travels(split, attr->in);
    if (!lk_feature_is_cut(split, attr->cut == LK_FEATURE_OUT ? attr->units : attr->in)) {
        if (gathers)
            LK_TRY(lk_dist_feature_gather(split, x, attr->in, name, &x));
        return LK_TRACE(lk_linear_act(x, w, b, attr->act, out));
    }
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.f = lk__feature_of(split, gathers ? attr->in : 0,
                         attr->cut == LK_FEATURE_OUT ? attr->units : attr->in, name);
    a.cut = attr->cut;
    a.sum = attr->sum == LK_FEATURE_SCATTERED && !gathers ? LK_FEATURE_JOINED : attr->sum;
    a.in = attr->in;
    a.units = attr->units;
    a.gates = gates;
    a.act = attr->act;
    if (attr->cut == LK_FEATURE_OUT)
        op = gathers ? &cut_out_gathered : &cut_out;
    lk_var y[2];
    LK_TRY_DIST(split->comm,
                lk_apply(x.tape, op, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2, &a, y));
    *out = y[0];
    return LK_OK;
}

lk_status lk_dist_feature_linear(const lk_feature_split *split, const lk_feature_linear_attr *attr,
                                 lk_var x, lk_var w, lk_var b, const char *name, lk_var *out)
{
    return LK_TRACE(lk__feature_linear(split, attr, 1, x, w, b, name, out));
}
