/* Shapes, operands and a reference for the tests of convolution.
 *
 * The reference is the definition in conv.h, one chain per output, written without regard to speed
 * or to how the library does it.  It computes in double but rounds where f32 does: fma in f32 and
 * exact conversions, so one code serves both types.
 */
#ifndef LK_TEST_CONV_CASES_H
#define LK_TEST_CONV_CASES_H

#include "harness.h"

#include <lockstep/extra/conv.h>

#include <string.h>
#include <sys/mman.h>

/* A block of `bytes` that ends where memory that may not be touched begins. */
typedef struct guarded {
    char *map, *data;
    size_t mapped, bytes;
} guarded;

static inline guarded guarded_new(int64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t usable = ((size_t)bytes + page - 1) / page * page;
    guarded g = {.mapped = usable + page, .bytes = (size_t)bytes};
    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(g.map != MAP_FAILED);
    ASSERT_EQ(mprotect(g.map + usable, page, PROT_NONE), 0);
    g.data = g.map + usable - bytes;
    return g;
}

static inline void guarded_free(guarded *g)
{
    munmap(g->map, g->mapped);
}

static inline double value_get(lk_dtype t, const void *p, int64_t i)
{
    return t == LK_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static inline void value_set(lk_dtype t, void *p, int64_t i, double v)
{
    if (t == LK_F32)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

static inline double value_fma(lk_dtype t, double a, double b, double c)
{
    return t == LK_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

/* Values in [-1, 1); with `spice`, some are 0, -0, denormal or infinite. */
static inline void values_fill(lk_dtype t, void *p, int64_t n, uint64_t seed, bool spice)
{
    uint64_t s = seed * 7919 + 12345;
    for (int64_t i = 0; i < n; i++) {
        s = s * 6364136223846793005U + 1442695040888963407U;
        double v = (double)(int64_t)(s >> 11) * 0x1p-52 - 1;
        if (spice) {
            double tiny = t == LK_F32 ? 0x1p-140 : 0x1p-1060;
            const double odd[8] = {0, -0.0, tiny, -tiny, 0, -0.0, HUGE_VAL, -HUGE_VAL};
            unsigned draw = (unsigned)(s >> 40) % 256;
            if (draw < 48)
                v = odd[draw % 6];
            else if (draw == 48 || draw == 49)
                v = odd[draw - 42];
        }
        value_set(t, p, i, v);
    }
}

/* Equal bits, except that a NaN equals a NaN. */
static inline bool values_equal(lk_dtype t, const void *a, const void *b, int64_t n)
{
    size_t size = lk_dtype_size(t);
    if (memcmp(a, b, (size_t)n * size) == 0)
        return true;
    for (int64_t i = 0; i < n; i++) {
        double va = value_get(t, a, i), vb = value_get(t, b, i);
        if (memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) !=
                0 &&
            !(isnan(va) && isnan(vb)))
            return false;
    }
    return true;
}

typedef struct conv_case {
    const char *name;
    lk_conv_shape s; /* dtype is set by the test */
} conv_case;

/* clang-format off */
static const conv_case conv_cases[] = {
    {"3x3 pad 1", {.window.ndim = 2, .batch = 3, .in_channels = 5, .out_channels = 19, .in = {9, 8}, .out = {9, 8}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"3x3 pad 1, whole blocks", {.window.ndim = 2, .batch = 2, .in_channels = 16, .out_channels = 32, .in = {6, 7}, .out = {6, 7}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"1x1", {.window.ndim = 2, .batch = 2, .in_channels = 17, .out_channels = 40, .in = {5, 7}, .out = {5, 7}, .window.kernel = {1, 1}}},
    {"1x1 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 8, .out_channels = 9, .in = {7, 6}, .out = {4, 3}, .window.kernel = {1, 1}, .window.stride = {2, 2}}},
    {"3x3 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 7, .out_channels = 11, .in = {11, 10}, .out = {6, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"stride 4 above kernel 3", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 5, .in = {13, 14}, .out = {4, 4}, .window.kernel = {3, 3}, .window.stride = {4, 4}, .window.pad_lo = {1, 1}}},
    {"stride 5 above kernel 2", {.window.ndim = 2, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {12, 11}, .out = {3, 2}, .window.kernel = {2, 2}, .window.stride = {5, 5}}},
    {"even kernel 4x2", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 7, .in = {9, 8}, .out = {8, 8}, .window.kernel = {4, 2}, .window.pad_lo = {1, 1}}},
    {"kernel 4 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 4, .out_channels = 6, .in = {12, 12}, .out = {6, 6}, .window.kernel = {4, 4}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"dilation 2", {.window.ndim = 2, .batch = 2, .in_channels = 5, .out_channels = 8, .in = {11, 9}, .out = {11, 9}, .window.kernel = {3, 3}, .window.dilation = {2, 2}, .window.pad_lo = {2, 2}}},
    {"dilation 3 stride 2", {.window.ndim = 2, .batch = 1, .in_channels = 3, .out_channels = 4, .in = {15, 13}, .out = {6, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.dilation = {3, 3}, .window.pad_lo = {2, 1}}},
    {"dilation 4 stride 6", {.window.ndim = 1, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {41}, .out = {6}, .window.kernel = {5}, .window.stride = {6}, .window.dilation = {4}, .window.pad_lo = {3}}},
    {"groups 3", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 12, .groups = 3, .in = {7, 7}, .out = {7, 7}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"groups 2, wide", {.window.ndim = 2, .batch = 1, .in_channels = 10, .out_channels = 66, .groups = 2, .in = {5, 6}, .out = {3, 3}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"depthwise 3x3", {.window.ndim = 2, .batch = 2, .in_channels = 21, .out_channels = 21, .groups = 21, .in = {8, 9}, .out = {8, 9}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise 5x5 stride 2", {.window.ndim = 2, .batch = 3, .in_channels = 16, .out_channels = 16, .groups = 16, .in = {11, 10}, .out = {6, 5}, .window.kernel = {5, 5}, .window.stride = {2, 2}, .window.pad_lo = {2, 2}}},
    {"depthwise stride 3 above kernel 2, dilation 2", {.window.ndim = 2, .batch = 1, .in_channels = 33, .out_channels = 33, .groups = 33, .in = {10, 13}, .out = {3, 4}, .window.kernel = {2, 2}, .window.stride = {3, 3}, .window.dilation = {2, 2}}},
    {"depthwise 3-D", {.window.ndim = 3, .batch = 2, .in_channels = 5, .out_channels = 5, .groups = 5, .in = {4, 5, 6}, .out = {4, 5, 6}, .window.kernel = {3, 3, 3}, .window.pad_lo = {1, 1, 1}}},
    {"depthwise with multiplier 2", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 12, .groups = 6, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"1-D", {.window.ndim = 1, .batch = 3, .in_channels = 7, .out_channels = 13, .in = {29}, .out = {29}, .window.kernel = {5}, .window.pad_lo = {2}}},
    {"1-D, long taps", {.window.ndim = 1, .batch = 1, .in_channels = 1, .out_channels = 3, .in = {300}, .out = {140}, .window.kernel = {161}, .window.dilation = {1}}},
    {"1-D, many segments", {.window.ndim = 1, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {420}, .out = {20}, .window.kernel = {201}, .window.dilation = {2}}},
    {"3-D", {.window.ndim = 3, .batch = 2, .in_channels = 3, .out_channels = 5, .in = {5, 6, 7}, .out = {5, 6, 7}, .window.kernel = {3, 3, 3}, .window.pad_lo = {1, 1, 1}}},
    {"3-D, axes differ", {.window.ndim = 3, .batch = 1, .in_channels = 4, .out_channels = 17, .in = {6, 5, 9}, .out = {3, 5, 4}, .window.kernel = {2, 1, 3}, .window.stride = {2, 1, 2}, .window.pad_lo = {0, 0, 0}}},
    {"more samples than a chunk", {.window.ndim = 2, .batch = 37, .in_channels = 2, .out_channels = 3, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise, more samples than a chunk", {.window.ndim = 2, .batch = 37, .in_channels = 3, .out_channels = 3, .groups = 3, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise, many taps", {.window.ndim = 1, .batch = 1, .in_channels = 3, .out_channels = 3, .groups = 3, .in = {150}, .out = {9}, .window.kernel = {141}, .window.pad_lo = {-1}}},
    {"rows 4096 bytes apart", {.window.ndim = 1, .batch = 1, .in_channels = 1024, .out_channels = 3, .in = {13}, .out = {13}, .window.kernel = {1}}},
    {"all ones", {.window.ndim = 2, .batch = 1, .in_channels = 1, .out_channels = 1, .in = {1, 1}, .out = {1, 1}, .window.kernel = {1, 1}}},
    {"kernel as large as the image", {.window.ndim = 2, .batch = 5, .in_channels = 3, .out_channels = 10, .in = {4, 5}, .out = {1, 1}, .window.kernel = {4, 5}}},
    {"image narrower than the kernel", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {5, 2}, .out = {5, 2}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"primes", {.window.ndim = 2, .batch = 7, .in_channels = 3, .out_channels = 37, .in = {13, 11}, .out = {5, 5}, .window.kernel = {5, 3}, .window.stride = {3, 2}, .window.pad_lo = {2, 0}}},
    {"pad larger than the kernel", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {3, 4}, .out = {11, 12}, .window.kernel = {3, 3}, .window.pad_lo = {5, 5}}},
    {"negative pad", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 18, .in = {9, 10}, .out = {4, 4}, .window.kernel = {3, 3}, .window.pad_lo = {-2, -3}}},
    {"outputs behind the image", {.window.ndim = 2, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {4, 4}, .out = {9, 3}, .window.kernel = {2, 2}, .window.pad_lo = {0, -9}}},
    {"windows", {.window.ndim = 2, .batch = 3, .in_channels = 6, .out_channels = 9, .in = {7, 5}, .out = {7, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}, .x_step = {50, 8}, .y_step = {71, 12}, .x_sample = 400, .y_sample = 600}},
    {"windows, stride 2, groups", {.window.ndim = 2, .batch = 2, .in_channels = 4, .out_channels = 8, .groups = 2, .in = {8, 9}, .out = {4, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}, .x_step = {0, 7}, .y_step = {50, 0}}},
    {"windows, depthwise", {.window.ndim = 2, .batch = 2, .in_channels = 9, .out_channels = 9, .groups = 9, .in = {6, 7}, .out = {3, 4}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}, .x_step = {90, 11}, .y_step = {0, 13}}},
    {"empty batch", {.window.ndim = 2, .batch = 0, .in_channels = 3, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"empty image", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {0, 5}, .out = {2, 5}, .window.kernel = {3, 3}, .window.pad_lo = {2, 1}}},
    {"empty output", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {2, 5}, .out = {0, 3}, .window.kernel = {3, 3}}},
    {"no input channels", {.window.ndim = 2, .batch = 2, .in_channels = 0, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"no output channels", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 0, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
};
/* clang-format on */

enum { N_CONV_CASES = (int)(sizeof conv_cases / sizeof conv_cases[0]) };

static inline int64_t or_one(int64_t v)
{
    return v == 0 ? 1 : v;
}

/* One side of a convolution, x or y: its steps with the defaults filled in. */
typedef struct conv_side {
    int64_t size[3], step[3], sample, channels;
} conv_side;

static inline conv_side conv_side_of(const lk_conv_shape *s, bool y)
{
    const int64_t *size = y ? s->out : s->in, *step = y ? s->y_step : s->x_step;
    conv_side v = {.channels = y ? s->out_channels : s->in_channels};
    int64_t dense = v.channels;
    for (int d = s->window.ndim - 1; d >= 0; d--) {
        v.size[d] = size[d];
        v.step[d] = step[d] ? step[d] : dense;
        dense = v.step[d] * size[d];
    }
    for (int d = s->window.ndim; d < 3; d++)
        v.size[d] = 1;
    int64_t sample = y ? s->y_sample : s->x_sample;
    v.sample = sample ? sample : dense;
    return v;
}

/* Elements from the first to behind the last. */
static inline int64_t conv_side_extent(const lk_conv_shape *s, const conv_side *v)
{
    int64_t n = (s->batch - 1) * v->sample + v->channels;
    for (int d = 0; d < 3; d++) {
        if (v->size[d] == 0)
            return 0;
        n += (v->size[d] - 1) * v->step[d];
    }
    return s->batch == 0 || v->channels == 0 ? 0 : n;
}

static inline int64_t conv_side_at(const conv_side *v, int64_t n, const int64_t p[3])
{
    return n * v->sample + p[0] * v->step[0] + p[1] * v->step[1] + p[2] * v->step[2];
}

/* The next position in raster order; false behind the last. */
static inline bool next(int64_t p[3], const int64_t size[3])
{
    for (int d = 2; d >= 0; d--) {
        if (++p[d] < size[d])
            return true;
        p[d] = 0;
    }
    return false;
}

static inline bool any(const int64_t size[3])
{
    return size[0] > 0 && size[1] > 0 && size[2] > 0;
}

static inline void conv_kernel_size(const lk_conv_shape *s, int64_t size[3])
{
    for (int d = 0; d < 3; d++)
        size[d] = d < s->window.ndim ? s->window.kernel[d] : 1;
}

static inline int64_t conv_w_count(const lk_conv_shape *s)
{
    int64_t k[3];
    conv_kernel_size(s, k);
    return k[0] * k[1] * k[2] * (s->in_channels / or_one(s->groups)) * s->out_channels;
}

/* Which input position output position o meets with tap t; false if it is in the padding. */
static inline bool conv_input_of(const lk_conv_shape *s, const int64_t o[3], const int64_t t[3],
                                 int64_t in[3])
{
    for (int d = 0; d < 3; d++) {
        if (d >= s->window.ndim) {
            in[d] = 0;
            continue;
        }
        in[d] = o[d] * or_one(s->window.stride[d]) - s->window.pad_lo[d] +
                t[d] * or_one(s->window.dilation[d]);
        if (in[d] < 0 || in[d] >= s->in[d])
            return false;
    }
    return true;
}

/* Index of W[t][ic within its group][oc]. */
static inline int64_t conv_w_at(const lk_conv_shape *s, const int64_t t[3], int64_t ic, int64_t oc)
{
    int64_t k[3];
    conv_kernel_size(s, k);
    int64_t group_in = s->in_channels / or_one(s->groups);
    return (((t[0] * k[1] + t[1]) * k[2] + t[2]) * group_in + ic) * s->out_channels + oc;
}

/* One output of the forward pass. */
static inline double conv_ref_output(const lk_conv_shape *s, const void *x, const void *w,
                                     double acc, int64_t n, const int64_t o[3], int64_t oc)
{
    conv_side xs = conv_side_of(s, false);
    int64_t group_in = s->in_channels / or_one(s->groups);
    int64_t group = oc / (s->out_channels / or_one(s->groups));
    int64_t k[3], t[3] = {0}, i[3];
    conv_kernel_size(s, k);
    do {
        if (!conv_input_of(s, o, t, i))
            continue;
        for (int64_t ic = 0; ic < group_in; ic++)
            acc = value_fma(s->dtype,
                            value_get(s->dtype, x, conv_side_at(&xs, n, i) + group * group_in + ic),
                            value_get(s->dtype, w, conv_w_at(s, t, ic, oc)), acc);
    } while (next(t, k));
    return acc;
}

static inline void conv_ref_forward(const lk_conv_shape *s, const void *x, const void *w,
                                    const void *bias, bool relu, void *y)
{
    conv_side ys = conv_side_of(s, true);
    for (int64_t n = 0; n < s->batch && any(ys.size); n++) {
        int64_t o[3] = {0};
        do
            for (int64_t oc = 0; oc < s->out_channels; oc++) {
                double acc = bias ? value_get(s->dtype, bias, oc) : 0;
                acc = conv_ref_output(s, x, w, acc, n, o, oc);
                value_set(s->dtype, y, conv_side_at(&ys, n, o) + oc, relu && acc < 0 ? 0 : acc);
            }
        while (next(o, ys.size));
    }
}

/* The tap with which output position o meets input position i; false if there is none. */
static inline bool conv_tap_of(const lk_conv_shape *s, const int64_t o[3], const int64_t i[3],
                               int64_t t[3])
{
    for (int d = 0; d < 3; d++) {
        t[d] = 0;
        if (d >= s->window.ndim)
            continue;
        int64_t reach = i[d] + s->window.pad_lo[d] - o[d] * or_one(s->window.stride[d]);
        t[d] = reach / or_one(s->window.dilation[d]);
        if (reach < 0 || reach % or_one(s->window.dilation[d]) != 0 || t[d] >= s->window.kernel[d])
            return false;
    }
    return true;
}

/* One input's gradient: all outputs in raster order that it entered. */
static inline double conv_ref_input(const lk_conv_shape *s, const void *dy, const void *w,
                                    double acc, int64_t n, const int64_t i[3], int64_t ic)
{
    conv_side ys = conv_side_of(s, true);
    int64_t group_in = s->in_channels / or_one(s->groups);
    int64_t group_out = s->out_channels / or_one(s->groups);
    int64_t first = ic / group_in * group_out; /* output channel of its group */
    int64_t o[3] = {0}, t[3];
    if (!any(ys.size))
        return acc;
    do {
        if (!conv_tap_of(s, o, i, t))
            continue;
        for (int64_t oc = first; oc < first + group_out; oc++)
            acc = value_fma(s->dtype, value_get(s->dtype, dy, conv_side_at(&ys, n, o) + oc),
                            value_get(s->dtype, w, conv_w_at(s, t, ic % group_in, oc)), acc);
    } while (next(o, ys.size));
    return acc;
}

static inline void conv_ref_data(const lk_conv_shape *s, const void *dy, const void *w,
                                 const void *bias, bool accumulate, void *dx)
{
    conv_side xs = conv_side_of(s, false);
    for (int64_t n = 0; n < s->batch && any(xs.size); n++) {
        int64_t i[3] = {0};
        do
            for (int64_t ic = 0; ic < s->in_channels; ic++) {
                int64_t at = conv_side_at(&xs, n, i) + ic;
                double acc = accumulate ? value_get(s->dtype, dx, at)
                             : bias     ? value_get(s->dtype, bias, ic)
                                        : 0;
                value_set(s->dtype, dx, at, conv_ref_input(s, dy, w, acc, n, i, ic));
            }
        while (next(i, xs.size));
    }
}

#endif /* LK_TEST_CONV_CASES_H */
