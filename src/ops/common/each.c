/* Runs of elements for element-wise ops.
 *
 * Inputs that are contiguous and have the output's shape are read where they are.  Others are first
 * gathered into a buffer that stays in cache, by axes of which there are as few as possible: those of
 * size 1 are left out, and neighbours that are one axis for all inputs are one.
 */
#include "ops/common/each.h"

#include "autograd/guest.h"
#include "base/fpenv.h"
#include "kernel/maps.h"
#include "kernel/parallel.h"
#include "ops/common/gather.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

enum { RUN = LK_EACH_RUN, GRAIN = 8192 / RUN }; /* elements, runs */

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

/* Whether axis `d` continues axis `a`, which is before it, in every input that is gathered. */
static bool continues(const each_job *j, int a, int d)
{
    for (int i = 0; i < j->n_in; i++)
        if (!j->direct[i] && j->stride[i][a] != j->stride[i][d] * j->dim[d])
            return false;
    return true;
}

/* Make the axes as few as possible, but at least one. */
static void merge_axes(each_job *j)
{
    int last = -1;
    for (int d = 0; d < j->ndim; d++) {
        if (j->dim[d] == 1)
            continue;
        int64_t n = j->dim[d];
        if (last >= 0 && continues(j, last, d))
            n *= j->dim[last];
        else
            last++;
        j->dim[last] = n;
        for (int i = 0; i < j->n_in; i++)
            j->stride[i][last] = j->stride[i][d];
    }
    j->ndim = last + 1;
    if (j->ndim == 0) {
        j->ndim = 1;
        j->dim[0] = 1;
    }
}

/* Copy n elements of the output's row-major order from `first` on, as input `i` has them: the rest of
 * a row, or as many whole rows as follow each other along one axis. */
static void gather(const each_job *j, int i, int64_t first, int64_t n, char *to)
{
    int64_t index[LK_MAX_NDIM], at = 0;
    const int64_t *stride = j->stride[i];
    const int last = j->ndim - 1;
    lk__gather g = {.size = j->in_size[i], .step = stride[last]};
    for (int d = last; d >= 0; d--) {
        index[d] = first % j->dim[d];
        first /= j->dim[d];
        at += index[d] * stride[d];
    }
    while (n > 0) {
        g.rows = 1;
        g.cols = j->dim[last] - index[last];
        if (g.cols > n) {
            g.cols = n;
        } else if (last > 0 && index[last] == 0) {
            int64_t left = j->dim[last - 1] - index[last - 1], whole = n / g.cols;
            g.rows = left < whole ? left : whole;
            g.row_step = stride[last - 1];
        }
        lk__gather_run(&g, j->start[i] + at * (int64_t)g.size, to);
        to += g.rows * g.cols * (int64_t)g.size;
        n -= g.rows * g.cols;
        at -= index[last] * stride[last];
        index[last] = 0;
        int64_t step = g.rows;
        for (int d = last - 1; d >= 0; d--, step = 1) {
            index[d] += step;
            at += step * stride[d];
            if (index[d] < j->dim[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    }
}

static lk_status run(const each_job *j, int64_t first)
{
    lk__each_room room[LK_EACH_MAX_IN];
    lk__each e = j->each;
    e.first = first;
    e.n = j->count - first < RUN ? j->count - first : RUN;
    e.y = (char *)e.y + first * (int64_t)j->size;
    for (int i = 0; i < j->n_in; i++) {
        e.x[i] = &room[i];
        if (j->direct[i])
            e.x[i] = j->start[i] + first * (int64_t)j->in_size[i];
        else
            gather(j, i, first, e.n, (char *)&room[i]);
    }
    for (int i = j->n_in; i < LK_EACH_MAX_IN; i++)
        e.x[i] = e.x[0];
    LK_TRY(j->fn(&e));
    return LK_OK;
}

static void run_all(void *arg, int64_t first, int64_t last)
{
    each_job *j = arg;
    for (int64_t r = first; r < last; r++) {
        lk_status st = run(j, r * RUN);
        if (st != LK_OK)
            j->failed = st;
    }
}

static bool is_direct(const lk_tensor *x, const lk_tensor *y)
{
    return x->count == y->count && lk_tensor_is_contiguous(x);
}

static lk_status run_many(lk_call *c, const lk__each *each, lk__each_fn *fn)
{
    const lk_tensor *y = c->y[0];
    each_job j = {.fn = fn,
                  .each = *each,
                  .size = lk_dtype_size(y->dtype),
                  .n_in = c->n_in,
                  .ndim = y->shape.ndim,
                  .count = y->count};
    memcpy(j.dim, y->shape.dim, sizeof j.dim);
    for (int i = 0; i < c->n_in; i++) {
        const lk_tensor *x = c->x[i];
        j.start[i] = lk__tensor_start(x);
        j.in_size[i] = lk_dtype_size(x->dtype);
        j.direct[i] = is_direct(x, y);
        if (!j.direct[i])
            broadcast_strides(x, y, j.stride[i]);
    }
    merge_axes(&j);
    LK_TRY(lk__parallel((j.count + RUN - 1) / RUN, GRAIN, run_all, &j));
    LK_CHECK(j.failed == LK_OK, (lk_status)j.failed, "%s: a part of the elements failed",
             c->op->name);
    return LK_OK;
}

lk_status lk__each_run(lk_call *c, lk__each_fn *fn, double p)
{
    const lk_tensor *y = c->y[0];
    lk__each e = {.dtype = y->dtype, .p = p, .attr = c->attr, .n = y->count};
    LK_CHECK(c->n_in <= LK_EACH_MAX_IN, LK_EINVAL, "%s has %d inputs", c->op->name, c->n_in);
    if (!lk__tape_is_canonical(c->tape))
        LK_TRY(lk__fp_check());
    if (y->count == 0)
        return LK_OK;
    e.y = lk__tensor_start(y);
    bool short_cut = y->count <= RUN;
    for (int i = 0; i < c->n_in && short_cut; i++) {
        e.x[i] = lk__tensor_start(c->x[i]);
        short_cut = is_direct(c->x[i], y);
    }
    for (int i = c->n_in; i < LK_EACH_MAX_IN; i++)
        e.x[i] = e.x[0];
    if (short_cut)
        LK_TRY(fn(&e));
    else
        LK_TRY(run_many(c, &e, fn));
    return LK_OK;
}

lk_status lk__each_map1(const lk__each *e, lk_map1_op op, const void *x, void *y)
{
    const lk__maps1_table *t = NULL;
    LK_TRY(lk__maps1_get(&t));
    t->map[e->dtype][op](e->n, e->p, x, y);
    return LK_OK;
}

lk_status lk__each_map2(const lk__each *e, lk_map2_op op, const void *x, const void *y, void *z)
{
    const lk__maps2_table *t = NULL;
    LK_TRY(lk__maps2_get(&t));
    t->map[e->dtype][op](e->n, e->p, x, y, z);
    return LK_OK;
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
    LK_TRY(lk_sum_to(g, lk_shape_of(c->in[i]), out));
    return LK_OK;
}
