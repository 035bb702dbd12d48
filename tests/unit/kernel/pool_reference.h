/* Pooling by its definition in pool.h, one number at a time, for the tests. */
#ifndef LK_TEST_POOL_REFERENCE_H
#define LK_TEST_POOL_REFERENCE_H

#include "real.h"

#include <lockstep/extra/pool.h>

/* Three axes, the unused ones first. */
struct axes {
    int64_t in[3], out[3], kernel[3], stride[3], pad[3];
    int64_t n_in, n_out;
};

static inline struct axes axes_of(const lk_pool_shape *s)
{
    struct axes a = {.n_in = 1, .n_out = 1};
    for (int d = 0; d < 3; d++) {
        int from = d - (3 - s->window.ndim);
        a.in[d] = from < 0 ? 1 : s->in[from];
        a.out[d] = from < 0 ? 1 : s->out[from];
        a.kernel[d] = from < 0 ? 1 : s->window.kernel[from];
        a.stride[d] = from < 0 || s->window.stride[from] == 0 ? 1 : s->window.stride[from];
        a.pad[d] = from < 0 ? 0 : s->window.pad_lo[from];
        a.n_in *= a.in[d];
        a.n_out *= a.out[d];
    }
    return a;
}

/* Tap `tap` of window `out`, both counted in raster order: its input position, or -1. */
static inline int64_t tap_of(const struct axes *a, int64_t out, int64_t tap)
{
    int64_t place = 0, at[3];
    for (int d = 2; d >= 0; d--) {
        at[d] = out % a->out[d] * a->stride[d] - a->pad[d] + tap % a->kernel[d];
        out /= a->out[d];
        tap /= a->kernel[d];
        if (at[d] < 0 || at[d] >= a->in[d])
            return -1;
    }
    for (int d = 0; d < 3; d++)
        place = place * a->in[d] + at[d];
    return place;
}

static inline int64_t taps_of(const struct axes *a)
{
    return a->kernel[0] * a->kernel[1] * a->kernel[2];
}

static inline int64_t divisor_of(const lk_pool_shape *s, const struct axes *a, int64_t out)
{
    int64_t n = 0;
    for (int64_t t = 0; t < taps_of(a); t++)
        n += tap_of(a, out, t) >= 0;
    return s->count_padding ? taps_of(a) : n;
}

static inline double real_div(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a / (float)b) : a / b;
}

/* One output, channel c of sample b: its maximum, average, norm and index. */
struct pooled {
    double max, avg, l2;
    int64_t index;
};

static inline struct pooled pooled_of(const lk_pool_shape *s, const void *x, int64_t b, int64_t out,
                                      int64_t c)
{
    struct axes a = axes_of(s);
    struct pooled p = {.max = -HUGE_VAL, .index = -1};
    double sum = 0, squares = 0;
    for (int64_t t = 0; t < taps_of(&a); t++) {
        int64_t place = tap_of(&a, out, t);
        if (place < 0)
            continue;
        double v = real_get(s->dtype, x, (b * a.n_in + place) * s->channels + c);
        if (p.index < 0 || v > p.max || (isnan(v) && !isnan(p.max))) {
            p.max = v;
            p.index = place;
        }
        sum = real_add(s->dtype, sum, v);
        squares = real_fma(s->dtype, v, v, squares);
    }
    int64_t n = divisor_of(s, &a, out);
    p.avg = n > 0 ? real_div(s->dtype, sum, (double)n) : 0;
    p.l2 = s->dtype == LK_F32 ? (double)sqrtf((float)squares) : sqrt(squares);
    return p;
}

/* One input's gradient, channel c of sample b at `place`, for the three operators. */
struct gradient {
    double max, avg, l2;
};

struct gradient_operands {
    const void *x, *y, *dy; /* y of l2 */
    const int64_t *index;
};

static inline struct gradient gradient_of(const lk_pool_shape *s, const struct gradient_operands *p,
                                          int64_t b, int64_t place, int64_t c)
{
    struct axes a = axes_of(s);
    struct gradient g = {0};
    double x = real_get(s->dtype, p->x, (b * a.n_in + place) * s->channels + c);
    for (int64_t out = 0; out < a.n_out; out++)
        for (int64_t t = 0; t < taps_of(&a); t++) {
            if (tap_of(&a, out, t) != place)
                continue;
            int64_t i = (b * a.n_out + out) * s->channels + c;
            double dy = real_get(s->dtype, p->dy, i), y = real_get(s->dtype, p->y, i);
            if (p->index[i] == place)
                g.max = real_add(s->dtype, g.max, dy);
            int64_t n = divisor_of(s, &a, out);
            g.avg = real_add(s->dtype, g.avg, real_div(s->dtype, dy, (double)n));
            if (y != 0)
                g.l2 = real_fma(s->dtype, dy, real_div(s->dtype, x, y), g.l2);
        }
    return g;
}

#endif /* LK_TEST_POOL_REFERENCE_H */
