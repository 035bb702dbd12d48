/* Check a convolution's shape and fill in its defaults. */
#include "kernel/conv_shape.h"

/* Positions are sums of a few terms; each may be this large. */
static const int64_t position_max = INT64_MAX / 8;

/* Axes of the caller, and where they are among ours. */
typedef struct axes {
    int ndim, front;
} axes;

static lk_status counts_check(const lk_conv_shape *c)
{
    const struct {
        const char *name;
        int64_t value;
    } count[] = {{"batch", c->batch},
                 {"in_channels", c->in_channels},
                 {"out_channels", c->out_channels},
                 {"groups", c->groups},
                 {"piece", c->piece},
                 {"x_sample", c->x_sample},
                 {"y_sample", c->y_sample}};
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++)
        LK_CHECK(count[i].value >= 0, LK_EINVAL, "%s is %lld; must be at least 0", count[i].name,
                 (long long)count[i].value);
    return LK_OK;
}

/* Copy the caller's entries of one field behind the leading axes; 0 becomes `unset`. */
static lk_status field_copy(axes a, const char *name, const int64_t *from, int64_t least,
                            int64_t unset, int64_t *to)
{
    for (int d = 0; d < a.ndim; d++) {
        LK_CHECK(from[d] >= least, LK_EINVAL, "%s[%d] is %lld; must be at least %lld", name, d,
                 (long long)from[d], (long long)least);
        LK_CHECK(from[d] <= position_max, LK_EOVERFLOW, "%s[%d] is %lld; must be at most %lld",
                 name, d, (long long)from[d], (long long)position_max);
        to[a.front + d] = from[d] == 0 ? unset : from[d];
    }
    return LK_OK;
}

static lk_status fields_copy(axes a, const lk_conv_shape *c, lk__conv_shape *s)
{
    s->window.ndim = LK_CONV_AXES;
    for (int d = 0; d < LK_CONV_AXES; d++)
        s->in[d] = s->out[d] = s->window.kernel[d] = s->window.stride[d] = s->window
                                                                               .dilation[d] = 1;
    LK_TRY(field_copy(a, "in", c->in, 0, 0, s->in));
    LK_TRY(field_copy(a, "out", c->out, 0, 0, s->out));
    LK_TRY(field_copy(a, "kernel", c->window.kernel, 1, 1, s->window.kernel));
    LK_TRY(field_copy(a, "stride", c->window.stride, 0, 1, s->window.stride));
    LK_TRY(field_copy(a, "dilation", c->window.dilation, 0, 1, s->window.dilation));
    LK_TRY(field_copy(a, "pad_lo", c->window.pad_lo, -position_max, 0, s->window.pad_lo));
    LK_TRY(field_copy(a, "x_step", c->x_step, 0, 0, s->x_step));
    LK_TRY(field_copy(a, "y_step", c->y_step, 0, 0, s->y_step));
    for (int d = 0; d < a.ndim; d++) {
        int e = a.front + d;
        int64_t last;
        LK_CHECK(!__builtin_mul_overflow(s->out[e], s->window.stride[e], &last) &&
                     last <= position_max,
                 LK_EOVERFLOW, "out[%d] * stride[%d] is %lld * %lld", d, d, (long long)s->out[e],
                 (long long)s->window.stride[e]);
        LK_CHECK(!__builtin_mul_overflow(s->window.kernel[e], s->window.dilation[e], &last) &&
                     last <= position_max,
                 LK_EOVERFLOW, "kernel[%d] * dilation[%d] is %lld * %lld", d, d,
                 (long long)s->window.kernel[e], (long long)s->window.dilation[e]);
    }
    return LK_OK;
}

static lk_status channels_fill(const lk_conv_shape *c, lk__conv_shape *s)
{
    s->batch = c->batch;
    s->in_channels = c->in_channels;
    s->out_channels = c->out_channels;
    s->groups = c->groups == 0 ? 1 : c->groups;
    s->piece = c->piece == 0 ? 1 : c->piece;
    if (s->piece > c->batch && c->batch > 0)
        s->piece = c->batch; /* one piece all the same, and sums with it do not overflow */
    LK_CHECK(c->in_channels % s->groups == 0, LK_ESHAPE,
             "groups %lld does not divide in_channels %lld", (long long)s->groups,
             (long long)c->in_channels);
    LK_CHECK(c->out_channels % s->groups == 0, LK_ESHAPE,
             "groups %lld does not divide out_channels %lld", (long long)s->groups,
             (long long)c->out_channels);
    s->group_in = c->in_channels / s->groups;
    s->group_out = c->out_channels / s->groups;
    return LK_OK;
}

/* The weights are dense: [kernel...][group_in][out_channels]. */
static lk_status weights_fill(lk__conv_shape *s)
{
    bool fits = true;
    s->taps = 1;
    for (int d = 0; d < LK_CONV_AXES; d++)
        fits = fits && !__builtin_mul_overflow(s->taps, s->window.kernel[d], &s->taps);
    int64_t bytes;
    fits = fits && !__builtin_mul_overflow(s->taps, s->group_in, &s->w_extent) &&
           !__builtin_mul_overflow(s->w_extent, s->out_channels, &s->w_extent) &&
           !__builtin_mul_overflow(s->w_extent, s->elem, &bytes);
    LK_CHECK(fits, LK_EOVERFLOW, "w has %lld x %lld x %lld taps, %lld x %lld channels",
             (long long)s->window.kernel[0], (long long)s->window.kernel[1],
             (long long)s->window.kernel[2], (long long)s->group_in, (long long)s->out_channels);
    return LK_OK;
}

/* One side of the convolution, x or y, for the code that both need. */
typedef struct side {
    const char *name, *size_name; /* "x", "in" */
    int64_t batch, channels;
    const int64_t *size;
    int64_t *sample, *step, *extent;
} side;

/* `n` blocks of `span` elements, `*step` apart (0: dense); afterwards `*span` covers all of them.
 * False if it does not fit in 64 bits. */
static bool span_extend(int64_t n, int64_t *step, int64_t *dense, int64_t *span)
{
    if (*step == 0)
        *step = *dense;
    int64_t reach;
    return !__builtin_mul_overflow(n, *step, dense) &&
           !__builtin_mul_overflow(n - 1, *step, &reach) &&
           !__builtin_add_overflow(*span, reach, span);
}

/* Fill in dense steps and the extent; refuse steps that make positions overlap. */
static lk_status side_fill(axes a, const side *v, int64_t elem)
{
    bool empty = v->batch == 0 || v->channels == 0;
    for (int d = 0; d < LK_CONV_AXES; d++)
        empty = empty || v->size[d] == 0;
    if (empty) {
        *v->sample = *v->extent = 0;
        for (int d = 0; d < LK_CONV_AXES; d++)
            v->step[d] = 0;
        return LK_OK;
    }
    int64_t span = v->channels, dense = v->channels;
    for (int d = LK_CONV_AXES - 1; d >= 0; d--) {
        int64_t inner = span;
        LK_CHECK(span_extend(v->size[d], &v->step[d], &dense, &span), LK_EOVERFLOW,
                 "%s has %lld positions along %s[%d], %lld elements apart", v->name,
                 (long long)v->size[d], v->size_name, d - a.front, (long long)v->step[d]);
        LK_CHECK(v->size[d] == 1 || v->step[d] >= inner, LK_ESHAPE,
                 "%s_step[%d] is %lld, but what lies within one step takes %lld elements", v->name,
                 d - a.front, (long long)v->step[d], (long long)inner);
    }
    int64_t inner = span, bytes;
    LK_CHECK(span_extend(v->batch, v->sample, &dense, &span) &&
                 !__builtin_mul_overflow(span, elem, &bytes),
             LK_EOVERFLOW, "%s has %lld samples of %lld elements, %lld apart", v->name,
             (long long)v->batch, (long long)inner, (long long)*v->sample);
    LK_CHECK(v->batch == 1 || *v->sample >= inner, LK_ESHAPE,
             "%s_sample is %lld, but one sample takes %lld elements", v->name,
             (long long)*v->sample, (long long)inner);
    *v->extent = span;
    return LK_OK;
}

lk_status lk__conv_shape_make(const lk_conv_shape *from, lk__conv_shape *out)
{
    LK_CHECK(from, LK_EINVAL, "shape is NULL");
    LK_CHECK(lk_dtype_is_real(from->dtype), LK_EDTYPE, "dtype is %s; must be f32 or f64",
             lk_dtype_name(from->dtype));
    LK_CHECK(from->window.ndim >= 1 && from->window.ndim <= LK_CONV_MAX_NDIM, LK_EINVAL,
             "ndim is %d; must be 1 to %d", from->window.ndim, LK_CONV_MAX_NDIM);
    LK_TRY(counts_check(from));
    LK_TRY(lk__conv_algorithm_check(from));
    lk__conv_shape s = {.dtype = from->dtype,
                        .algorithm = from->algorithm,
                        .elem = (int64_t)lk_dtype_size(from->dtype),
                        .x_sample = from->x_sample,
                        .y_sample = from->y_sample};
    axes a = {from->window.ndim, LK_CONV_AXES - from->window.ndim};
    LK_TRY(fields_copy(a, from, &s));
    LK_TRY(channels_fill(from, &s));
    LK_TRY(weights_fill(&s));
    const side x = {"x", "in", s.batch, s.in_channels, s.in, &s.x_sample, s.x_step, &s.x_extent};
    const side y = {"y", "out", s.batch, s.out_channels, s.out, &s.y_sample, s.y_step, &s.y_extent};
    LK_TRY(side_fill(a, &x, s.elem));
    LK_TRY(side_fill(a, &y, s.elem));
    *out = s;
    return LK_OK;
}

lk_status lk_conv_out(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_lo,
                      int64_t pad_hi, int64_t *out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    LK_CHECK(in >= 0, LK_EINVAL, "in is %lld; must be at least 0", (long long)in);
    LK_CHECK(kernel >= 1, LK_EINVAL, "kernel is %lld; must be at least 1", (long long)kernel);
    LK_CHECK(stride >= 1, LK_EINVAL, "stride is %lld; must be at least 1", (long long)stride);
    LK_CHECK(dilation >= 1, LK_EINVAL, "dilation is %lld; must be at least 1", (long long)dilation);
    int64_t last, reach;
    LK_CHECK(!__builtin_add_overflow(in, pad_lo, &last) &&
                 !__builtin_add_overflow(last, pad_hi, &last) &&
                 !__builtin_mul_overflow(dilation, kernel - 1, &reach) &&
                 !__builtin_sub_overflow(last, reach, &last) &&
                 !__builtin_sub_overflow(last, (int64_t)1, &last) && last < INT64_MAX,
             LK_EOVERFLOW, "in %lld, pads %lld and %lld, dilation %lld, kernel %lld", (long long)in,
             (long long)pad_lo, (long long)pad_hi, (long long)dilation, (long long)kernel);
    *out = last < 0 ? 0 : last / stride + 1;
    return LK_OK;
}

int64_t lk__conv_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}
