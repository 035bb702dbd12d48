/* Element-wise ops: their tensors as operands of a job of runs. */
#include "ops/common/each.h"

#include "autograd/tape_access.h"
#include "base/fpenv.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

/* Strides of x as a tensor of y's shape: 0 along axes that are repeated. */
static void broadcast_strides(const lk_tensor *x, const lk_tensor *y, int64_t *stride)
{
    int skip = y->shape.ndim - x->shape.ndim;
    for (int d = 0; d < y->shape.ndim; d++)
        stride[d] = d < skip || x->shape.dim[d - skip] == 1 ? 0 : x->stride[d - skip];
}

static bool is_direct(const lk_tensor *x, const lk_tensor *y)
{
    return x->count == y->count && lk_tensor_is_contiguous(x);
}

static void *second_start(const lk_call *c)
{
    return c->op->n_out > 1 ? lk__tensor_start(c->y[1]) : NULL;
}

static lk_status run_many(lk_call *c, lk__loop loop, lk__each_store store, const double *p)
{
    const lk_tensor *y = c->y[0];
    lk__each_job j = {.loop = loop,
                      .store = store,
                      .dtype = y->dtype,
                      .y = lk__tensor_start(y),
                      .z = second_start(c),
                      .n = y->count,
                      .n_in = c->n_in,
                      .ndim = y->shape.ndim};
    memcpy(j.p, p, sizeof j.p);
    memcpy(j.dim, y->shape.dim, sizeof j.dim);
    for (int i = 0; i < c->n_in; i++) {
        const lk_tensor *x = c->x[i];
        j.in[i].start = lk__tensor_start(x);
        j.in[i].size = lk_dtype_size(x->dtype);
        j.in[i].direct = is_direct(x, y);
        if (!j.in[i].direct)
            broadcast_strides(x, y, j.in[i].stride);
    }
    return LK_TRACE(lk__each_job_run(&j));
}

lk_status lk__each_run_with(lk_call *c, lk__loop loop, double p, double q)
{
    const lk_tensor *y = c->y[0];
    lk__operands o = {.n = y->count, .p = {p, q}};
    lk__each_store store = c->overwrite    ? LK_EACH_FIRST
                           : c->accumulate ? LK_EACH_ADD
                                           : LK_EACH_STORE;
    LK_CHECK(c->n_in <= LK_LOOP_MAX_IN, LK_EINVAL, "%s has %d inputs", c->op->name, c->n_in);
    if (!lk__tape_is_canonical(c->tape))
        LK_TRY(lk__fp_check());
    if (y->count == 0)
        return LK_OK;
    o.y = lk__tensor_start(y);
    o.z = second_start(c);
    bool short_cut = y->count <= LK_EACH_RUN;
    for (int i = 0; i < c->n_in && short_cut; i++) {
        o.x[i] = lk__tensor_start(c->x[i]);
        short_cut = is_direct(c->x[i], y);
    }
    if (short_cut)
        LK_TRY(lk__each_one(y->dtype, loop, store, &o));
    else
        LK_TRY(run_many(c, loop, store, o.p));
    return LK_OK;
}

lk_status lk__each_run(lk_call *c, lk__loop loop)
{
    return LK_TRACE(lk__each_run_with(c, loop, 0, 0));
}

lk_status lk__each_forward(lk_call *c)
{
    const lk__each *each = c->op->data;
    const double *p = c->attr;
    const size_t n = c->op->attr_size / sizeof *p;
    return LK_TRACE(lk__each_run_with(c, each->loop, n > 0 ? p[0] : 0, n > 1 ? p[1] : 0));
}

static bool same_shape(const lk_shape *a, const lk_shape *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]) == 0;
}

lk_status lk__each_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    LK_CHECK(lk_dtype_is_real(out->dtype), LK_EDTYPE,
             "%s of %s: only f32 and f64 are computed with", c->op->name,
             lk_tensor_text(c->x[0]).s);
    for (int i = 1; i < c->n_in; i++) {
        LK_CHECK(c->x[i]->dtype == out->dtype, LK_EDTYPE, "%s of %s and %s: lk_cast() one of them",
                 c->op->name, lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[i]).s);
        if (!same_shape(&out->shape, &c->x[i]->shape))
            LK_TRY(lk__broadcast_shapes(c->op->name, out->shape, c->x[i]->shape, &out->shape));
    }
    return LK_OK;
}

lk_status lk__each_grad(const lk_call *c, int i, lk_var g, lk_var *out)
{
    return LK_TRACE(lk_sum_to(g, lk_shape_of(c->in[i]), out));
}

lk_status lk__each_grad_apply(const lk_call *c, int i, const lk_op *op, const lk_var *in, int n_in,
                              const void *attr, lk_var *out)
{
    lk_var g;
    if (same_shape(lk__var_shape(c->in[i]), lk__var_shape(c->out[0]))) {
        return LK_TRACE(lk_apply_gradient(c, i, op, in, n_in, attr, out));
    }
    LK_TRY(lk_apply(c->tape, op, in, n_in, attr, &g));
    return LK_TRACE(lk__each_grad(c, i, g, out));
}

const lk_op_sample lk__pair_samples[] = {
    {.n_in = 2, .in = {LK_IN(2, 3), LK_IN(2, 3)}},
    {.n_in = 2, .in = {LK_IN(2, 1, 3), LK_IN(4, 1)}},
    {.n_in = 2, .in = {LK_IN(3), LK_IN(5, 3)}, .shard_size = 2},
    {0}};
