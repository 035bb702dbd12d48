/* The one node of a parallel model on the program's tape.
 *
 *     y = the replicas' outputs, one behind the other
 *     dx = their gradients of x, the same way;  dw = those of what they share, joined by the tree
 *
 * Its inputs are x and the parameters, which are leaves of the program's tape: so gradients arrive in the
 * program's accumulator as from any op.  A run is the node's until the tape is reset, which releases the
 * token.  On the calling thread; pass.c applies it when the replicas have run.
 */
#include "autograd/tape_access.h"
#include "nn/model.h"
#include "ops/common/parts.h"
#include "parallel/devices/replicas.h"
#include "tensor/tensor.h"

enum { SHORT = 1 << 16 }; /* elements that the calling thread joins alone */

typedef struct node_attr {
    lk__parallel_run *run;
    int64_t from; /* of what is joined; or the number of an x */
} node_attr;

/* ---- putting together ---- */

/* What of a run goes one behind the other to `y`: output number j, or gradients of x number j. */
typedef struct rows {
    const lk__parallel_run *run;
    lk_tensor *y;
    int j;
    bool dx;
} rows;

static lk_status rows_copy(void *arg, int i, lk_comm *comm)
{
    const rows *c = arg;
    (void)i;
    (void)comm;
    for (int r = 0; r < c->run->of->n; r++)
        for (int64_t k = 0; k < c->run->replica[r].n_passages; k++) {
            const lk__passage *p = &c->run->replica[r].passage[k];
            const lk_tensor *from = c->dx ? p->dx[c->j] : NULL;
            if (!from)
                LK_TRY(lk_value(p->out[c->j], &from));
            lk_tensor to = lk__part(c->y, 0, p->first, p->n, 1);
            LK_TRY(lk_tensor_copy(from, &to));
        }
    return LK_OK;
}

static lk_status rows_gather(const lk__parallel_run *run, int j, bool dx, lk_tensor *y)
{
    rows c = {run, y, j, dx};
    return LK_TRACE(lk__crew_run(run->of->ps, rows_copy, &c, false));
}

static lk_status join_here(void *arg, int i, lk_comm *comm)
{
    (void)i;
    (void)comm;
    return LK_TRACE(lk__join_run(arg));
}

/* A replica joins its part. */
static lk_status join_part(void *arg, int i, lk_comm *comm)
{
    lk__join part = *(const lk__join *)arg;
    lk_range mine = lk_range_split(part.n, i, part.run->of->n);
    (void)comm;
    part.from += mine.first;
    part.n = mine.n;
    part.out = (char *)part.out + mine.first * (int64_t)lk_dtype_size(part.run->shape.dtype);
    return LK_TRACE(lk__join_run(&part));
}

lk_status lk__join_anywhere(lk__join *join)
{
    const lk_parallel_model *p = join->run->of;
    if (!p->ps && p->crew && join->n > SHORT)
        LK_TRY(lk__crew_run(p->crew, join_part, join, false));
    else
        LK_TRY(lk__crew_run(p->ps, join_here, join, false));
    return LK_OK;
}

/* ---- the ops of backward, which read what the replicas have left ---- */

static lk_status dx_infer(lk_call *c, lk_output_spec *out)
{
    const node_attr *a = c->attr;
    const lk__parallel_run *run = a->run;
    for (int r = 0; r < run->of->n; r++)
        if (run->replica[r].n_passages > 0) {
            const lk_tensor *dx = run->replica[r].passage[0].dx[a->from];
            out->dtype = dx->dtype;
            out->shape = dx->shape;
            out->shape.dim[0] = run->samples;
        }
    return LK_OK;
}

static lk_status dx_forward(lk_call *c)
{
    const node_attr *a = c->attr;
    return LK_TRACE(rows_gather(a->run, (int)a->from, true, c->y[0]));
}

static const lk_op dx_op = {.name = "parallel.dx",
                            .summary = "the replicas' gradients of x, one behind the other",
                            .n_out = 1,
                            .flags = LK_OP_FIRST_ORDER,
                            .attr_size = sizeof(node_attr),
                            .infer = dx_infer,
                            .forward = dx_forward};

typedef struct join_attr {
    node_attr node;
    lk_shape shape;
} join_attr;

static lk_status join_infer(lk_call *c, lk_output_spec *out)
{
    const join_attr *a = c->attr;
    out->dtype = a->node.run->shape.dtype;
    out->shape = a->shape;
    return LK_OK;
}

static lk_status join_forward(lk_call *c)
{
    const join_attr *a = c->attr;
    lk__join join = {.run = a->node.run,
                     .from = a->node.from,
                     .n = c->y[0]->count,
                     .out = lk__tensor_start(c->y[0]),
                     .add = c->accumulate && !c->overwrite,
                     .zeros = c->overwrite};
    return LK_TRACE(lk__join_anywhere(&join));
}

static const lk_op join_op = {.name = "parallel.join",
                              .summary = "gradients of the micro-batches, joined by the tree",
                              .n_out = 1,
                              .flags = LK_OP_FIRST_ORDER | LK_OP_ACCUMULATES | LK_OP_OVERWRITES,
                              .attr_size = sizeof(join_attr),
                              .infer = join_infer,
                              .forward = join_forward};

/* ---- the node ---- */

static lk_status node_infer(lk_call *c, lk_output_spec *out)
{
    const lk__parallel_run *run = ((const node_attr *)c->attr)->run;
    for (int r = 0; r < run->of->n; r++)
        for (int j = 0; run->replica[r].n_passages > 0 && j < c->n_out; j++) {
            lk_var y = run->replica[r].passage[0].out[j];
            out[j].dtype = lk_dtype_of(y);
            out[j].shape = lk_shape_of(y);
            out[j].shape.dim[0] = run->samples;
        }
    return LK_OK;
}

static lk_status node_forward(lk_call *c)
{
    const lk__parallel_run *run = ((const node_attr *)c->attr)->run;
    for (int j = 0; j < c->n_out; j++)
        LK_TRY(rows_gather(run, j, false, c->y[j]));
    return LK_OK;
}

/* Where the gradients of input `i` behind x lie in a slab of sums. */
static lk_status place_of(const lk__parallel_run *run, int i, int64_t *from)
{
    lk_slab_slice slice;
    int64_t k = 0;
    if (run->pass.accumulator) {
        *from = run->pass.accumulator->grad[i]->offset;
        return LK_OK;
    }
    for (int s = 0; s < i; s++)
        k += run->wants[run->n_x + s];
    LK_TRY(lk_slab_layout_slice(run->layout, k, &slice));
    *from = slice.offset / (int64_t)lk_dtype_size(slice.dtype);
    return LK_OK;
}

static lk_status node_gradients(lk_call *c, lk__parallel_run *run, lk_var *din)
{
    for (int i = 0; i < c->n_in; i++) {
        join_attr a;
        memset(&a, 0, sizeof a);
        a.node.run = run;
        a.node.from = i;
        if (!lk_call_needs_grad(c, i))
            continue;
        if (i < run->n_x) {
            LK_TRY(lk_apply(c->tape, &dx_op, NULL, 0, &a.node, &din[i]));
            continue;
        }
        a.shape = lk_shape_of(c->in[i]);
        LK_TRY(place_of(run, i - run->n_x, &a.node.from));
        LK_TRY(lk_apply_gradient(c, i, &join_op, NULL, 0, &a, &din[i]));
    }
    return LK_OK;
}

static lk_status node_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__parallel_run *run = ((const node_attr *)c->attr)->run;
    for (int j = 0; j < c->n_out; j++) {
        run->dy[j] = NULL;
        if (lk_is_var(dout[j]))
            LK_TRY(lk_value(dout[j], &run->dy[j]));
    }
    run->retains = lk__tape_retains(c->tape);
    LK_TRY(lk__crew_run(run->of->crew, lk__replica_backward, run, run->communicates));
    run->passed = true;
    return LK_TRACE(node_gradients(c, run, din));
}

#define NODE(n)                                                                         \
    {                                                                                   \
        .name = "parallel", .summary = "a model on several devices", .max_in = 1 << 30, \
        .n_out = (n), .flags = LK_OP_FIRST_ORDER | LK_OP_STRIDED, .saves_in = ~0u,      \
        .attr_size = sizeof(node_attr), .infer = node_infer, .forward = node_forward,   \
        .backward = node_backward                                                       \
    }
static const lk_op node[LK_MAX_OUT] = {NODE(1), NODE(2), NODE(3), NODE(4)};

lk_status lk__parallel_apply(lk__parallel_run *run, const lk_list *x, const lk_var *further,
                             int64_t n, lk_var *out)
{
    lk_var few[32], *in = few, token;
    int64_t all = x->n + n;
    if (all > LK_COUNT(few))
        LK_TRY(lk_alloc(&in, all, sizeof *in));
    memcpy(in, x->at, (size_t)x->n * sizeof *in);
    if (n > 0)
        memcpy(in + x->n, further, (size_t)n * sizeof *in);
    node_attr a = {.run = run};
    lk_status st = run->records ? lk_constant(run->pass.tape, run->token, &token) : LK_OK;
    if (st == LK_OK)
        st = lk_apply(run->pass.tape, &node[run->n_out - 1], in, (int)all, &a, out);
    if (in != few)
        lk_free(in);
    return LK_TRACE(st);
}
