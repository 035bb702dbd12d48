/* Check a convolution's shape and fill in its defaults. */
#include "kernel/conv/shape.h"

#include "kernel/steps.h"

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
    const lk__steps x = {.name = "x",
                         .size_name = "in",
                         .step_name = "x_step",
                         .sample_name = "x_sample",
                         .front = a.front,
                         .batch = s.batch,
                         .channels = s.in_channels,
                         .size = s.in,
                         .sample = &s.x_sample,
                         .step = s.x_step,
                         .extent = &s.x_extent};
    const lk__steps y = {.name = "y",
                         .size_name = "out",
                         .step_name = "y_step",
                         .sample_name = "y_sample",
                         .front = a.front,
                         .batch = s.batch,
                         .channels = s.out_channels,
                         .size = s.out,
                         .sample = &s.y_sample,
                         .step = s.y_step,
                         .extent = &s.y_extent};
    LK_TRY(lk__steps_fill(&x, s.elem));
    LK_TRY(lk__steps_fill(&y, s.elem));
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
