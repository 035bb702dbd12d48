/* Check a pooling shape, fill in its defaults, and check operands against it. */
#include "kernel/pool/pool.h"
#include "kernel/steps.h"

#include <stdio.h>

/* Positions are sums of a few terms; each may be this large. */
static const int64_t position_max = INT64_MAX / 8;

/* Copy one field of the caller's axes behind the unused ones; 0 becomes `unset`. */
static lk_status field_copy(const lk_pool_shape *p, const char *field, const int64_t *from,
                            int64_t least, int64_t unset, int64_t to[3])
{
    int front = 3 - p->window.ndim;
    for (int d = 0; d < p->window.ndim; d++) {
        LK_CHECK(from[d] >= least, LK_EINVAL, "%s[%d] is %lld; must be at least %lld", field, d,
                 (long long)from[d], (long long)least);
        LK_CHECK(from[d] <= position_max, LK_EOVERFLOW, "%s[%d] is %lld; must be at most %lld",
                 field, d, (long long)from[d], (long long)position_max);
        to[front + d] = from[d] == 0 ? unset : from[d];
    }
    return LK_OK;
}

/* Elements of one side; the bytes must fit, and those of the index, too. */
static lk_status side_check(const lk_pool_shape *p, const char *field, const int64_t size[3],
                            int64_t *positions)
{
    const int64_t factor[] = {size[0], size[1], size[2], p->channels, p->batch, sizeof(int64_t)};
    int64_t n = 1;
    bool empty = false, fits = true;
    for (int i = 0; i < 6; i++) {
        empty = empty || factor[i] == 0;
        fits = fits && !__builtin_mul_overflow(n, factor[i], &n);
        if (i == 2)
            *positions = n;
    }
    if (empty)
        *positions = 0;
    LK_CHECK(fits || empty, LK_EOVERFLOW,
             "batch %lld with %s %lld x %lld x %lld positions of %lld channels",
             (long long)p->batch, field, (long long)size[0], (long long)size[1], (long long)size[2],
             (long long)p->channels);
    return LK_OK;
}

/* Steps of both sides.  An index has 64 bits, whatever the elements have. */
static lk_status steps_fill(const lk_pool_shape *p, lk__pool_shape *s)
{
    LK_CHECK(p->x_sample >= 0, LK_EINVAL, "x_sample is %lld; must be at least 0",
             (long long)p->x_sample);
    LK_CHECK(p->y_sample >= 0, LK_EINVAL, "y_sample is %lld; must be at least 0",
             (long long)p->y_sample);
    s->x_sample = p->x_sample;
    s->y_sample = p->y_sample;
    LK_TRY(field_copy(p, "x_step", p->x_step, 0, 0, s->x_step));
    LK_TRY(field_copy(p, "y_step", p->y_step, 0, 0, s->y_step));
    int front = 3 - p->window.ndim;
    const lk__steps x = {.name = "x",
                         .size_name = "in",
                         .step_name = "x_step",
                         .sample_name = "x_sample",
                         .front = front,
                         .batch = s->batch,
                         .channels = s->channels,
                         .size = s->in,
                         .sample = &s->x_sample,
                         .step = s->x_step,
                         .extent = &s->x_extent};
    const lk__steps y = {.name = "y",
                         .size_name = "out",
                         .step_name = "y_step",
                         .sample_name = "y_sample",
                         .front = front,
                         .batch = s->batch,
                         .channels = s->channels,
                         .size = s->out,
                         .sample = &s->y_sample,
                         .step = s->y_step,
                         .extent = &s->y_extent};
    LK_TRY(lk__steps_fill(&x, sizeof(int64_t)));
    return LK_TRACE(lk__steps_fill(&y, sizeof(int64_t)));
}

lk_status lk__pool_check(const lk_pool_shape *p, lk__pool_shape *s)
{
    LK_CHECK(p, LK_EINVAL, "the shape is NULL");
    LK_CHECK(lk_dtype_is_real(p->dtype), LK_EDTYPE, "dtype is %s; must be f32 or f64",
             lk_dtype_name(p->dtype));
    LK_CHECK(p->window.ndim >= 1 && p->window.ndim <= LK_CONV_MAX_NDIM, LK_EINVAL,
             "ndim is %d; must be from 1 to %d", p->window.ndim, LK_CONV_MAX_NDIM);
    LK_CHECK(p->batch >= 0, LK_EINVAL, "batch is %lld; must be at least 0", (long long)p->batch);
    LK_CHECK(p->channels >= 0, LK_EINVAL, "channels is %lld; must be at least 0",
             (long long)p->channels);
    *s = (lk__pool_shape){.dtype = p->dtype,
                          .elem = (int64_t)lk_dtype_size(p->dtype),
                          .batch = p->batch,
                          .channels = p->channels,
                          .in = {1, 1, 1},
                          .out = {1, 1, 1},
                          .window = {.ndim = p->window.ndim,
                                     .kernel = {1, 1, 1},
                                     .stride = {1, 1, 1},
                                     .dilation = {1, 1, 1}}};
    LK_TRY(field_copy(p, "in", p->in, 0, 0, s->in));
    LK_TRY(field_copy(p, "out", p->out, 0, 0, s->out));
    LK_TRY(field_copy(p, "kernel", p->window.kernel, 1, 1, s->window.kernel));
    LK_TRY(field_copy(p, "stride", p->window.stride, 0, 1, s->window.stride));
    LK_TRY(field_copy(p, "pad_lo", p->window.pad_lo, -position_max, 0, s->window.pad_lo));
    for (int d = 0; d < p->window.ndim; d++)
        LK_CHECK(p->window.dilation[d] == 0 || p->window.dilation[d] == 1, LK_EINVAL,
                 "dilation[%d] is %lld; windows of pools have none", d,
                 (long long)p->window.dilation[d]);
    LK_TRY(side_check(p, "in", s->in, &s->n_in));
    LK_TRY(side_check(p, "out", s->out, &s->n_out));
    LK_TRY(steps_fill(p, s));
    int64_t window = 1, reach;
    for (int d = 0; d < 3; d++) {
        LK_CHECK(!__builtin_mul_overflow(s->out[d], s->window.stride[d], &reach) &&
                     reach <= position_max,
                 LK_EOVERFLOW, "out * stride is %lld * %lld", (long long)s->out[d],
                 (long long)s->window.stride[d]);
        LK_CHECK(!p->count_padding || !__builtin_mul_overflow(window, s->window.kernel[d], &window),
                 LK_EOVERFLOW, "a window of %lld x %lld x %lld positions",
                 (long long)s->window.kernel[0], (long long)s->window.kernel[1],
                 (long long)s->window.kernel[2]);
    }
    s->divisor = p->count_padding ? window : 0;
    return LK_OK;
}

/* "[2][5][5][8]" */
static const char *shape_text(const lk__pool_shape *s, bool is_out, char *buf, size_t size)
{
    const int64_t *axis = is_out ? s->out : s->in;
    int len = snprintf(buf, size, "[%lld]", (long long)s->batch);
    for (int d = 3 - s->window.ndim; d < 3; d++)
        len += snprintf(buf + len, size - (size_t)len, "[%lld]", (long long)axis[d]);
    snprintf(buf + len, size - (size_t)len, "[%lld]", (long long)s->channels);
    return buf;
}

static uintptr_t bytes_of(const lk__pool_shape *s, const lk__pool_operand *o)
{
    int64_t elem = o->is_index ? (int64_t)sizeof(int64_t) : s->elem;
    return (uintptr_t)((o->is_out ? s->y_extent : s->x_extent) * elem);
}

static bool overlap(const lk__pool_shape *s, const lk__pool_operand *a, const lk__pool_operand *b)
{
    uintptr_t pa = (uintptr_t)a->p, pb = (uintptr_t)b->p, na = bytes_of(s, a), nb = bytes_of(s, b);
    return a->p && b->p && na > 0 && nb > 0 && pa < pb + nb && pb < pa + na;
}

lk_status lk__pool_operands_check(const lk__pool_shape *s, int n, const lk__pool_operand *operand)
{
    char one[128], other[128];
    for (int i = 0; i < n; i++) {
        const lk__pool_operand *a = &operand[i];
        LK_CHECK(a->p || a->may_be_null || bytes_of(s, a) == 0, LK_EINVAL, "%s %s is NULL", a->name,
                 shape_text(s, a->is_out, one, sizeof one));
        for (int k = 0; k < i; k++) {
            const lk__pool_operand *b = &operand[k];
            LK_CHECK(!(a->is_written || b->is_written) || !overlap(s, a, b), LK_EOVERLAP,
                     "%s %s overlaps %s %s", a->name, shape_text(s, a->is_out, one, sizeof one),
                     b->name, shape_text(s, b->is_out, other, sizeof other));
        }
    }
    return LK_OK;
}
