/* Copies between tensors, with conversion.
 *
 * Elements of one dtype are moved as bytes by kernel/copy.h.  Others go through a small buffer of
 * double or int64_t, except that whole rows of f32 and 16-bit values have loops of their own.  Where a
 * value may not fit, a first pass over the source looks for one, so that an error leaves dst untouched.
 */
#include "kernel/copy.h"

#include "base/fpenv.h"
#include "base/integer.h"
#include "base/memory/rehearsal.h"
#include "kernel/runtime/parallel.h"
#include "tensor/convert.h"
#include "tensor/walk.h"

#include <lockstep/extra/half.h>

enum {
    CHUNK = 256,
    STRIP = 16,         /* elements of a row where src jumps along it */
    REHEARSED = 1 << 14 /* elements that a rehearsal does not copy */
};

/* The index of element number `number` of t, counted in row-major order. */
static lk_shape index_of(const lk_tensor *t, int64_t number)
{
    lk_shape index = t->shape;
    for (int i = t->shape.ndim - 1; i >= 0; i--) {
        index.dim[i] = number % t->shape.dim[i];
        number /= t->shape.dim[i];
    }
    return index;
}

static lk_status row_check_real(const lk_tensor *src, lk_dtype to, const struct lk__walk *w)
{
    double v[CHUNK];
    for (int64_t done = 0, m; done < w->n; done += m) {
        m = lk__min(w->n - done, CHUNK);
        const char *from = w->row[0] + done * w->step[0] * w->bytes[0];
        lk__load_real(src->dtype, m, from, w->step[0], v);
        int64_t bad = lk__first_unfit_real(to, m, v);
        LK_CHECK(bad == m, LK_EINVAL, "element %s of tensor %s is %.17g, which %s cannot hold",
                 lk_shape_text(index_of(src, w->first + done + bad)).s, lk_tensor_text(src).s,
                 v[bad], lk_dtype_name(to));
    }
    return LK_OK;
}

static lk_status row_check_int(const lk_tensor *src, lk_dtype to, const struct lk__walk *w)
{
    int64_t v[CHUNK];
    for (int64_t done = 0, m; done < w->n; done += m) {
        m = lk__min(w->n - done, CHUNK);
        const char *from = w->row[0] + done * w->step[0] * w->bytes[0];
        lk__load_int(src->dtype, m, from, w->step[0], v);
        int64_t bad = lk__first_unfit_int(to, m, v);
        LK_CHECK(bad == m, LK_EINVAL, "element %s of tensor %s is %lld, which %s cannot hold",
                 lk_shape_text(index_of(src, w->first + done + bad)).s, lk_tensor_text(src).s,
                 (long long)v[bad], lk_dtype_name(to));
    }
    return LK_OK;
}

/* Whether dtype `to` can hold every element of src. */
static lk_status values_check(const lk_tensor *src, lk_dtype to)
{
    if (lk__is_real(to) || to == src->dtype)
        return LK_OK;
    struct lk__walk w;
    for (lk__walk_start(&w, src, NULL); w.rows_left > 0; lk__walk_next(&w)) {
        if (lk__is_real(src->dtype))
            LK_TRY(row_check_real(src, to, &w));
        else
            LK_TRY(row_check_int(src, to, &w));
    }
    return LK_OK;
}

/* Whole rows between f32 and the 16-bit formats; false if this is no such row. */
static bool row_convert_array(lk_dtype from, lk_dtype to, const struct lk__walk *w)
{
    const void *src = w->row[0];
    void *dst = w->row[1];
    if (w->step[0] != 1 || w->step[1] != 1)
        return false;
    if (from == LK_F32 && to == LK_F16)
        lk_f16_encode_array(w->n, src, dst);
    else if (from == LK_F32 && to == LK_BF16)
        lk_bf16_encode_array(w->n, src, dst);
    else if (from == LK_F16 && to == LK_F32)
        lk_f16_decode_array(w->n, src, dst);
    else if (from == LK_BF16 && to == LK_F32)
        lk_bf16_decode_array(w->n, src, dst);
    else
        return false;
    return true;
}

static void row_convert(lk_dtype from, lk_dtype to, const struct lk__walk *w)
{
    union {
        double real[CHUNK];
        int64_t whole[CHUNK];
    } v;
    for (int64_t done = 0, m; done < w->n; done += m) {
        m = lk__min(w->n - done, CHUNK);
        const char *src = w->row[0] + done * w->step[0] * w->bytes[0];
        char *dst = w->row[1] + done * w->step[1] * w->bytes[1];
        if (lk__is_real(from)) {
            lk__load_real(from, m, src, w->step[0], v.real);
            lk__store_real(to, m, v.real, dst, w->step[1]);
        } else {
            lk__load_int(from, m, src, w->step[0], v.whole);
            lk__store_int(to, m, v.whole, dst, w->step[1]);
        }
    }
}

/* Where src jumps along a row, as in a transpose, a strip of STRIP elements of each row is converted
 * before the next strip: the cache lines that one row opens then serve the rows after it. */
static void rows_convert(const lk_tensor *src, const lk_tensor *dst)
{
    struct lk__walk w;
    lk__walk_start(&w, src, dst);
    const int64_t n = w.n, strip = w.step[0] > 1 && w.ndim > 1 ? STRIP : n;
    for (int64_t first = 0; first < n; first += strip) {
        lk__walk_start(&w, src, dst);
        lk__walk_strip(&w, first, lk__min(strip, n - first));
        for (; w.rows_left > 0; lk__walk_next(&w))
            if (!row_convert_array(src->dtype, dst->dtype, &w))
                row_convert(src->dtype, dst->dtype, &w);
    }
}

typedef struct convert_job {
    const lk_tensor *src, *dst;
    int axis;
} convert_job;

/* The indices [first, last) of an axis of t, whose memory it is. */
static lk_tensor axis_range(const lk_tensor *t, int axis, int64_t first, int64_t last)
{
    lk_tensor part = lk__tensor_fields(t);
    part.count = t->count / t->shape.dim[axis] * (last - first);
    part.offset += first * t->stride[axis];
    part.shape.dim[axis] = last - first;
    return part;
}

static void ranges_convert(void *arg, int64_t first, int64_t last)
{
    const convert_job *j = arg;
    const lk_tensor src = axis_range(j->src, j->axis, first, last);
    const lk_tensor dst = axis_range(j->dst, j->axis, first, last);
    rows_convert(&src, &dst);
}

/* Threads share the longest axis of many elements. */
static lk_status elements_convert(const lk_tensor *src, const lk_tensor *dst)
{
    const int64_t *dim = src->shape.dim;
    convert_job job = {.src = src, .dst = dst};
    if (src->count <= CHUNK || lk__rehearses()) {
        rows_convert(src, dst);
        return LK_OK;
    }
    for (int d = 1; d < src->shape.ndim; d++)
        if (dim[d] > dim[job.axis])
            job.axis = d;
    const int64_t n = dim[job.axis];
    return LK_TRACE(lk__parallel(lk__tasks_functions(n, src->count / n), ranges_convert, &job));
}

/* src and dst have one shape, and dst's dtype can hold all values. */
static lk_status elements_copy(const lk_tensor *src, const lk_tensor *dst)
{
    if (src->dtype != dst->dtype) {
        return LK_TRACE(elements_convert(src, dst));
    }
    lk__copy_box box = {.size = (int64_t)lk_dtype_size(src->dtype), .ndim = src->shape.ndim};
    memcpy(box.dim, src->shape.dim, sizeof box.dim);
    memcpy(box.from, src->stride, sizeof box.from);
    memcpy(box.to, dst->stride, sizeof box.to);
    return LK_TRACE(lk__copy_run(&box, lk__tensor_start(src), lk__tensor_start(dst)));
}

/* Whether element i of a is element i of b, for all i; their shapes are equal. */
static bool same_elements(const lk_tensor *a, const lk_tensor *b)
{
    bool same = a->dtype == b->dtype && lk__tensor_start(a) == lk__tensor_start(b);
    for (int i = 0; i < a->shape.ndim; i++)
        same &= a->shape.dim[i] == 1 || a->stride[i] == b->stride[i];
    return same;
}

lk_status lk_tensor_copy(const lk_tensor *src, lk_tensor *dst)
{
    LK_FP_GUARD();
    LK_CHECK(src && dst, LK_EINVAL, "%s is NULL", src ? "dst" : "src");
    LK_CHECK(lk_shape_is_equal(src->shape, dst->shape), LK_ESHAPE, "src is %s, dst is %s",
             lk_tensor_text(src).s, lk_tensor_text(dst).s);
    LK_CHECK(dst->writable, LK_EINVAL, "dst %s is read-only", lk_tensor_text(dst).s);
    if (same_elements(src, dst))
        return LK_OK;
    LK_CHECK(!lk_tensor_overlap(src, dst), LK_EOVERLAP, "src %s and dst %s", lk_tensor_text(src).s,
             lk_tensor_text(dst).s);
    if (lk__rehearses() && dst->count >= REHEARSED)
        return LK_OK;
    LK_TRY(values_check(src, dst->dtype));
    lk__tensor_writes(dst);
    return LK_TRACE(elements_copy(src, dst));
}

lk_status lk_tensor_clone(const lk_tensor *t, lk_dtype dtype, lk_tensor **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_tensor *copy;
    *out = NULL;
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_CHECK(lk_dtype_size(dtype) > 0, LK_EDTYPE, "dtype number %d for a copy of tensor %s",
             (int)dtype, lk_tensor_text(t).s);
    LK_TRY(lk_tensor_new(dtype, t->shape, &copy));
    LK_TRY_TO(failed, values_check(t, dtype));
    LK_TRY_TO(failed, elements_copy(t, copy));
    *out = copy;
    return LK_OK;
failed:
    lk_tensor_free(copy);
    return st;
}

lk_status lk_tensor_contiguous(lk_tensor *t, lk_tensor **out)
{
    *out = NULL;
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    if (lk_tensor_is_contiguous(t))
        *out = lk_tensor_retain(t);
    else
        LK_TRY(lk_tensor_clone(t, t->dtype, out));
    return LK_OK;
}
