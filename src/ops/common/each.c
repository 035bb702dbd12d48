/* Runs of elements for element-wise ops.
 *
 * Where all inputs are contiguous and have the output's shape, a run is a part of them.  Otherwise a
 * run is short, and inputs with other strides are first gathered into a buffer that stays in cache.
 */
#include "ops/common/each.h"

#include "kernel/isa.h"
#include "kernel/parallel.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

enum { GRAIN = 8192, RUN = 512 };

typedef struct each_job {
    lk__each_fn *fn;
    lk__each each;
    size_t size;
    int n_in, ndim;
    int64_t dim[LK_MAX_NDIM];
    bool direct[LK_EACH_MAX_IN];
    int64_t stride[LK_EACH_MAX_IN][LK_MAX_NDIM];
    const char *start[LK_EACH_MAX_IN];
    size_t in_size[LK_EACH_MAX_IN];
    int64_t count;
    _Atomic int failed; /* the status of a run that failed */
} each_job;

/* Strides of x as a tensor of y's shape: 0 along axes that are repeated. */
static void broadcast_strides(const lk_tensor *x, const lk_tensor *y, int64_t *stride)
{
    int skip = y->shape.ndim - x->shape.ndim;
    for (int d = 0; d < y->shape.ndim; d++)
        stride[d] = d < skip || x->shape.dim[d - skip] == 1 ? 0 : x->stride[d - skip];
}

/* Copy n elements of the output's row-major order from `first` on, as input `i` has them. */
static void gather(const each_job *j, int i, int64_t first, int64_t n, char *to)
{
    int64_t index[LK_MAX_NDIM], at = 0;
    const int64_t *stride = j->stride[i];
    size_t size = j->in_size[i];
    int last = j->ndim - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = first % j->dim[d];
        first /= j->dim[d];
        at += index[d] * stride[d];
    }
    while (n > 0) {
        int64_t row = last < 0 ? 1 : j->dim[last] - index[last];
        int64_t step = last < 0 ? 0 : stride[last];
        if (row > n)
            row = n;
        lk__row_gather(size, row, j->start[i] + at * (int64_t)size, step, to);
        to += row * (int64_t)size;
        n -= row;
        if (n == 0)
            break;
        at -= index[last] * step;
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < j->dim[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    }
}

static lk_status run(each_job *j, lk__each *e)
{
    _Alignas(64) char buffer[LK_EACH_MAX_IN][RUN * sizeof(double)];
    for (int i = 0; i < j->n_in; i++) {
        e->x[i] = buffer[i];
        if (j->direct[i])
            e->x[i] = j->start[i] + e->first * (int64_t)j->in_size[i];
        else
            gather(j, i, e->first, e->n, buffer[i]);
    }
    for (int i = j->n_in; i < LK_EACH_MAX_IN; i++)
        e->x[i] = e->x[0];
    LK_TRY(j->fn(e));
    return LK_OK;
}

/* Tasks are elements, or runs of RUN elements if something is gathered. */
static void run_elements(void *arg, int64_t first, int64_t last)
{
    each_job *j = arg;
    lk__each e = j->each;
    e.first = first;
    e.n = last - first;
    e.y = (char *)e.y + first * (int64_t)j->size;
    lk_status st = run(j, &e);
    if (st != LK_OK)
        j->failed = st;
}

static void run_runs(void *arg, int64_t first, int64_t last)
{
    const each_job *j = arg;
    for (int64_t r = first; r < last; r++) {
        int64_t end = (r + 1) * RUN;
        run_elements(arg, r * RUN, end < j->count ? end : j->count);
    }
}

lk_status lk__each_run(lk_call *c, lk__each_fn *fn, double p)
{
    const lk_tensor *y = c->y[0];
    each_job j = {.fn = fn,
                  .each = {.dtype = y->dtype, .p = p, .attr = c->attr, .y = lk__tensor_start(y)},
                  .size = lk_dtype_size(y->dtype),
                  .n_in = c->n_in,
                  .ndim = y->shape.ndim,
                  .count = y->count};
    bool all_direct = true;
    LK_CHECK(c->n_in <= LK_EACH_MAX_IN, LK_EINVAL, "%s has %d inputs", c->op->name, c->n_in);
    LK_TRY(lk__fp_check());
    memcpy(j.dim, y->shape.dim, sizeof j.dim);
    for (int i = 0; i < c->n_in; i++) {
        const lk_tensor *x = c->x[i];
        j.start[i] = lk__tensor_start(x);
        j.in_size[i] = lk_dtype_size(x->dtype);
        j.direct[i] = x->count == y->count && lk_tensor_is_contiguous(x);
        if (!j.direct[i])
            broadcast_strides(x, y, j.stride[i]);
        all_direct &= j.direct[i];
    }
    if (j.count == 0)
        return LK_OK;
    if (all_direct)
        LK_TRY(lk__parallel(j.count, GRAIN, run_elements, &j));
    else
        LK_TRY(lk__parallel((j.count + RUN - 1) / RUN, GRAIN / RUN, run_runs, &j));
    LK_CHECK(j.failed == LK_OK, (lk_status)j.failed, "%s: a part of the elements failed",
             c->op->name);
    return LK_OK;
}

lk_status lk__each_infer(lk_call *c, lk_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    LK_CHECK(lk_dtype_is_real(out->dtype), LK_EDTYPE,
             "%s of %s: only f32 and f64 are computed with", c->op->name,
             lk_tensor_text(c->x[0]).s);
    for (int i = 1; i < c->n_in; i++) {
        LK_CHECK(c->x[i]->dtype == out->dtype, LK_EDTYPE, "%s of %s and %s: lk_cast() one of them",
                 c->op->name, lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[i]).s);
        LK_TRY(lk__broadcast_shapes(c->op->name, out->shape, c->x[i]->shape, &out->shape));
    }
    return LK_OK;
}

lk_status lk__each_grad(const lk_call *c, int i, lk_var g, lk_var *out)
{
    LK_TRY(lk_sum_to(g, lk_shape_of(c->in[i]), out));
    return LK_OK;
}
