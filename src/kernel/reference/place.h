/* Positions of a convolution or a pool, in raster order, and the taps that join them. */
#ifndef LK_KERNEL_REFERENCE_PLACE_H
#define LK_KERNEL_REFERENCE_PLACE_H

#include <lockstep/extra/conv.h>

enum { LK__REF_AXES = LK_CONV_MAX_NDIM };

/* A position of three axes, if there is one. */
typedef struct lk__ref_place {
    int64_t at[LK__REF_AXES];
    bool is;
} lk__ref_place;

static inline lk__ref_place place_first(const int64_t size[LK__REF_AXES])
{
    return (lk__ref_place){.is = size[0] > 0 && size[1] > 0 && size[2] > 0};
}

static inline lk__ref_place place_next(lk__ref_place p, const int64_t size[LK__REF_AXES])
{
    for (int d = LK__REF_AXES - 1; d >= 0; d--) {
        if (++p.at[d] < size[d])
            return p;
        p.at[d] = 0;
    }
    p.is = false;
    return p;
}

/* Elements before a position, with these steps. */
static inline int64_t place_offset(lk__ref_place p, const int64_t step[LK__REF_AXES])
{
    return p.at[0] * step[0] + p.at[1] * step[1] + p.at[2] * step[2];
}

/* The input position that output o reads through tap t; none in the padding.  Shapes are complete. */
static inline lk__ref_place place_read(const lk_conv_shape *s, lk__ref_place o, lk__ref_place t)
{
    lk__ref_place i = {.is = true};
    for (int d = 0; d < LK__REF_AXES; d++) {
        i.at[d] = o.at[d] * s->window.stride[d] - s->window.pad_lo[d] +
                  t.at[d] * s->window.dilation[d];
        i.is = i.is && i.at[d] >= 0 && i.at[d] < s->in[d];
    }
    return i;
}

/* The tap through which output o reads input i, if there is one. */
static inline lk__ref_place place_tap(const lk_conv_shape *s, lk__ref_place o, lk__ref_place i)
{
    lk__ref_place t = {.is = true};
    for (int d = 0; d < LK__REF_AXES && t.is; d++) {
        int64_t reach = i.at[d] + s->window.pad_lo[d] - o.at[d] * s->window.stride[d];
        t.at[d] = reach / s->window.dilation[d];
        t.is = reach >= 0 && reach % s->window.dilation[d] == 0 && t.at[d] < s->window.kernel[d];
    }
    return t;
}

#endif /* LK_KERNEL_REFERENCE_PLACE_H */
