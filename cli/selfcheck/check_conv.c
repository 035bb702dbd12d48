/* Shapes of the convolution checks, cut into parts as data and spatial layouts cut them. */
#include "selfcheck/check_conv.h"

#include "kernel/reference/reference.h"
#include "term.h"

#include <stdio.h>

enum { N = LK_CONV_MAX_NDIM };

/* One shape; entries beyond ndim are ignored.  `gap` elements follow each position's channels. */
static const struct conv_case {
    int ndim, batch, ic, oc, groups;
    int in[N], kernel[N], stride[N], dilation[N], pad_lo[N], pad_hi[N];
    int gap, piece;
} cases[CHECK_CONV_CASES] = {
    /* two axes: first layers, odd channels, many channels */
    {2, 2, 3, 8, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 3, 16, 17, 1, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 2},
    {2, 2, 1, 20, 1, {12, 11}, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 0, 1},
    {2, 3, 13, 24, 1, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 0, 1},
    {2, 2, 32, 33, 1, {13, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 5, 24, 50, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 2},
    {2, 2, 37, 10, 1, {4, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 3, 1},
    {2, 1, 130, 40, 1, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 0, 1},
    {2, 2, 5, 100, 1, {10, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 2, 2, 3, 1, {17, 16}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, 0, 1},
    /* strides, also larger than the kernel; kernels of even size */
    {2, 2, 5, 9, 1, {11, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 2, 4, 6, 1, {13, 11}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, 0, 1},
    {2, 3, 6, 16, 1, {8, 9}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 0, 2},
    {2, 2, 3, 7, 1, {10, 9}, {4, 2}, {2, 1}, {1, 1}, {1, 0}, {2, 1}, 0, 1},
    {2, 2, 2, 20, 1, {23, 19}, {7, 7}, {4, 4}, {1, 1}, {3, 3}, {3, 3}, 0, 1},
    {2, 2, 8, 8, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 2, 3, 4, 1, {9, 7}, {3, 2}, {2, 3}, {1, 1}, {2, 1}, {0, 1}, 2, 1},
    /* dilation, groups, depthwise */
    {2, 2, 6, 7, 1, {13, 12}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 0, 1},
    {2, 2, 3, 5, 1, {12, 9}, {2, 3}, {2, 1}, {3, 2}, {1, 2}, {1, 2}, 0, 1},
    {2, 2, 6, 8, 2, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 2, 19, 19, 19, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 4, 9, 6, 3, {7, 5}, {2, 3}, {2, 1}, {1, 2}, {0, 2}, {1, 1}, 1, 3},
    /* one axis and three */
    {1, 3, 4, 5, 1, {31}, {7}, {2}, {1}, {3}, {3}, 0, 1},
    {1, 2, 16, 33, 1, {29}, {3}, {1}, {1}, {1}, {1}, 0, 1},
    {3, 2, 3, 4, 1, {5, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0, 1},
    {3, 1, 4, 10, 2, {6, 5, 8}, {2, 3, 2}, {2, 1, 3}, {1, 2, 1}, {1, 1, 0}, {0, 2, 1}, 1, 1},
    /* cropping, outputs without a single tap, a kernel larger than the image */
    {2, 2, 5, 6, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {0, -1}, 0, 1},
    {2, 2, 3, 4, 1, {4, 3}, {2, 2}, {1, 1}, {1, 1}, {4, 3}, {4, 3}, 0, 1},
    {2, 3, 7, 11, 1, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    /* empty axes */
    {2, 0, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 1},
    {2, 2, 3, 4, 1, {2, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 0, 1},
    {2, 2, 3, 4, 1, {0, 3}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, {2, 1}, 0, 1},
};

lk_status check_conv_shape(const check_case *c, lk_conv_shape *s)
{
    const struct conv_case *k = &cases[c->index];
    lk_conv_shape given = {.dtype = c->dtype,
                           .window.ndim = k->ndim,
                           .batch = k->batch,
                           .in_channels = k->ic,
                           .out_channels = k->oc,
                           .groups = k->groups,
                           .piece = k->piece};
    for (int d = 0; d < k->ndim; d++) {
        given.in[d] = k->in[d];
        given.window.kernel[d] = k->kernel[d];
        given.window.stride[d] = k->stride[d];
        given.window.dilation[d] = k->dilation[d];
        given.window.pad_lo[d] = k->pad_lo[d];
        LK_TRY(lk_conv_out(k->in[d], k->kernel[d], k->stride[d], k->dilation[d], k->pad_lo[d],
                           k->pad_hi[d], &given.out[d]));
    }
    given.x_step[k->ndim - 1] = k->ic + k->gap;
    given.y_step[k->ndim - 1] = k->oc + k->gap;
    *s = lk__ref_conv_shape(&given);
    return LK_OK;
}

static int print_axes(char *buf, size_t size, const char *what, int ndim, const int *v)
{
    int n = snprintf(buf, size, "%s", what);
    for (int d = 0; d < ndim; d++)
        n += snprintf(buf + n, size - (size_t)n, "%s%d", d ? "x" : "", v[d]);
    return n;
}

lk_status check_conv_label(check_case *c)
{
    const struct conv_case *k = &cases[c->index];
    char *at = c->label, *end = c->label + sizeof c->label;
    at += snprintf(at, (size_t)(end - at), "%d of", k->batch);
    at += print_axes(at, (size_t)(end - at), " ", k->ndim, k->in);
    at += snprintf(at, (size_t)(end - at), "x%d-%d", k->ic, k->oc);
    at += print_axes(at, (size_t)(end - at), ", kernel ", k->ndim, k->kernel);
    at += print_axes(at, (size_t)(end - at), ", stride ", k->ndim, k->stride);
    at += print_axes(at, (size_t)(end - at), ", dilation ", k->ndim, k->dilation);
    at += print_axes(at, (size_t)(end - at), ", pad ", k->ndim, k->pad_lo);
    snprintf(at, (size_t)(end - at), ", %d group%s", k->groups, plural(k->groups));
    return LK_OK;
}

int64_t check_conv_x_size(const lk_conv_shape *s)
{
    return s->batch * s->x_sample;
}

int64_t check_conv_y_size(const lk_conv_shape *s)
{
    return s->batch * s->y_sample;
}

check_conv_part check_conv_samples(const lk_conv_shape *s, lk_range b)
{
    check_conv_part p = {.shape = *s, .x = b.first * s->x_sample, .y = b.first * s->y_sample};
    p.shape.batch = b.n;
    return p;
}

/* Inputs i and outputs o of axis d are in the part. */
static void set_axis(check_conv_part *p, const lk_conv_shape *s, int d, lk_range i, lk_range o)
{
    p->i[d] = i.first;
    p->o[d] = o.first;
    p->shape.in[d] = i.n;
    p->shape.out[d] = o.n;
    p->shape.window.pad_lo[d] = s->window.pad_lo[d] - o.first * s->window.stride[d] + i.first;
    p->x += i.first * s->x_step[d];
    p->y += o.first * s->y_step[d];
}

/* Tile `which` of the image (bit d: the upper half of axis d), with the halo it needs.  Forward passes cut y,
 * `of_input` cuts x. */
static check_conv_part tile_of(const lk_conv_shape *s, int which, bool of_input)
{
    check_conv_part p = {.shape = *s};
    for (int d = 0; d < s->window.ndim; d++) {
        int64_t size = of_input ? s->in[d] : s->out[d], middle = (size + 1) / 2;
        lk_range half = which >> d & 1 ? (lk_range){middle, size - middle} : (lk_range){0, middle};
        if (of_input)
            set_axis(&p, s, d, half, lk_window_feeds(&s->window, d, half, s->out[d]));
        else
            set_axis(&p, s, d, lk_window_needs(&s->window, d, half, s->in[d]), half);
    }
    return p;
}

check_conv_part check_conv_widen(const lk_conv_shape *s, const check_conv_part *tile)
{
    check_conv_part p = {.shape = *s};
    for (int d = 0; d < s->window.ndim; d++) {
        lk_range i = {tile->i[d], tile->shape.in[d]}, o = {tile->o[d], tile->shape.out[d]};
        lk_range read = lk_window_needs(&s->window, d, o, s->in[d]);
        int64_t end = i.first + i.n, read_end = read.first + read.n;
        if (read.n > 0) {
            i.first = read.first < i.first ? read.first : i.first;
            i.n = (read_end > end ? read_end : end) - i.first;
        }
        set_axis(&p, s, d, i, o);
    }
    return p;
}

int check_conv_n_parts(const lk_conv_shape *s, int way)
{
    return way == CONV_WHOLE ? 1 : way == CONV_BATCH ? 2 : 1 << s->window.ndim;
}

check_conv_part check_conv_get_part(const lk_conv_shape *s, int way, int i, bool of_input)
{
    int64_t middle = (s->batch + 1) / 2;
    if (way == CONV_IMAGE)
        return tile_of(s, i, of_input);
    if (way == CONV_WHOLE)
        return check_conv_samples(s, (lk_range){0, s->batch});
    return check_conv_samples(s, i ? (lk_range){middle, s->batch - middle} : (lk_range){0, middle});
}
