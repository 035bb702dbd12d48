/* Copies and fills, cut along the longest axis. */
#include "ops/common/parts.h"

#include "kernel/parallel.h"
#include "ops/common/ops.h"

enum { GRAIN = 16384 };

typedef struct parts_job {
    const lk_tensor *src; /* NULL: fill */
    const lk_tensor *dst;
    double value;
    int axis;
    _Atomic int failed; /* the status of a part that failed */
} parts_job;

lk_tensor lk__part(const lk_tensor *t, int axis, int64_t start, int64_t n, int64_t step)
{
    lk_tensor part = lk__tensor_fields(t);
    part.shape.dim[axis] = n;
    part.count = 1;
    for (int d = 0; d < t->shape.ndim; d++)
        part.count = lk__times(part.count, part.shape.dim[d]);
    if (part.count > 0)
        part.offset += start * t->stride[axis];
    if (n > 1)
        part.stride[axis] *= step;
    return part;
}

static lk_status part_run(const parts_job *j, int64_t first, int64_t last)
{
    lk_tensor dst = lk__part(j->dst, j->axis, first, last - first, 1);
    if (!j->src) {
        LK_TRY(lk_tensor_fill_f64(&dst, j->value));
        return LK_OK;
    }
    lk_tensor src = lk__part(j->src, j->axis, first, last - first, 1);
    LK_TRY(lk_tensor_copy(&src, &dst));
    return LK_OK;
}

static void parts_task(void *arg, int64_t first, int64_t last)
{
    parts_job *j = arg;
    lk_status st = part_run(j, first, last);
    if (st != LK_OK)
        j->failed = st;
}

/* Run a job that has elements and axes. */
static lk_status parts_run(parts_job *j)
{
    const lk_shape *s = &j->dst->shape;
    for (int d = 1; d < s->ndim; d++)
        if (s->dim[d] > s->dim[j->axis])
            j->axis = d;
    int64_t n = s->dim[j->axis], grain = GRAIN / (j->dst->count / n);
    LK_TRY(lk__parallel(n, grain > 0 ? grain : 1, parts_task, j));
    LK_CHECK(j->failed == LK_OK, (lk_status)j->failed, "a part of %s failed",
             lk_tensor_text(j->dst).s);
    return LK_OK;
}

static bool is_integer(lk_dtype t)
{
    return t == LK_I32 || t == LK_I64 || t == LK_U8;
}

lk_status lk__copy(const lk_tensor *src, const lk_tensor *dst)
{
    lk_tensor to = lk__tensor_fields(dst);
    bool can_fail = is_integer(dst->dtype) && src->dtype != dst->dtype;
    if (can_fail || dst->count == 0 || dst->shape.ndim == 0)
        LK_TRY(lk_tensor_copy(src, &to));
    else
        LK_TRY(parts_run(&(parts_job){.src = src, .dst = dst}));
    return LK_OK;
}

lk_status lk__fill(const lk_tensor *dst, double value)
{
    lk_tensor to = lk__tensor_fields(dst);
    if (is_integer(dst->dtype) || dst->count == 0 || dst->shape.ndim == 0)
        LK_TRY(lk_tensor_fill_f64(&to, value));
    else
        LK_TRY(parts_run(&(parts_job){.dst = dst, .value = value}));
    return LK_OK;
}
