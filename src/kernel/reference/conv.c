/* Convolution: one chain for each output, in all three passes. */
#include "kernel/reference/chain.h"
#include "kernel/reference/place.h"

/* Steps of one side of a convolution, as given or dense. */
static void steps_complete(const int64_t *size, int64_t channels, int64_t *step, int64_t *sample)
{
    int64_t dense = channels;
    for (int d = LK__REF_AXES - 1; d >= 0; d--) {
        if (step[d] == 0)
            step[d] = dense;
        dense = step[d] * size[d];
    }
    if (*sample == 0)
        *sample = dense;
}

static int64_t or_one(int64_t v)
{
    return v == 0 ? 1 : v;
}

lk_conv_shape lk__ref_conv_shape(const lk_conv_shape *shape)
{
    lk_conv_shape s = *shape;
    s.groups = or_one(s.groups);
    s.piece = or_one(s.piece);
    for (int d = 0; d < LK__REF_AXES; d++) {
        const bool used = d < shape->window.ndim;
        s.in[d] = used ? s.in[d] : 1;
        s.out[d] = used ? s.out[d] : 1;
        s.window.kernel[d] = used ? s.window.kernel[d] : 1;
        s.window.stride[d] = used ? or_one(s.window.stride[d]) : 1;
        s.window.dilation[d] = used ? or_one(s.window.dilation[d]) : 1;
        s.window.pad_lo[d] = used ? s.window.pad_lo[d] : 0;
        s.x_step[d] = used ? s.x_step[d] : 0;
        s.y_step[d] = used ? s.y_step[d] : 0;
    }
    steps_complete(s.in, s.in_channels, s.x_step, &s.x_sample);
    steps_complete(s.out, s.out_channels, s.y_step, &s.y_sample);
    return s;
}

int64_t lk__ref_conv_extent(const lk_conv_shape *s, bool y)
{
    const int64_t *size = y ? s->out : s->in, *step = y ? s->y_step : s->x_step;
    const int64_t channels = y ? s->out_channels : s->in_channels;
    int64_t n = (s->batch - 1) * (y ? s->y_sample : s->x_sample) + channels;
    if (s->batch == 0 || channels == 0)
        return 0;
    for (int d = 0; d < LK__REF_AXES; d++) {
        if (size[d] == 0)
            return 0;
        n += (size[d] - 1) * step[d];
    }
    return n;
}

int64_t lk__ref_conv_weights(const lk_conv_shape *s)
{
    return s->window.kernel[0] * s->window.kernel[1] * s->window.kernel[2] *
           (s->in_channels / s->groups) * s->out_channels;
}

/* Place in w of tap t from input channel ic, of its group, to output channel oc. */
static int64_t weight_at(const lk_conv_shape *s, lk__ref_place t, int64_t ic, int64_t oc)
{
    const int64_t *k = s->window.kernel;
    const int64_t tap = (t.at[0] * k[1] + t.at[1]) * k[2] + t.at[2];
    return (tap * (s->in_channels / s->groups) + ic) * s->out_channels + oc;
}

/* y[n][o][oc]: taps, then input channels. */
static void forward_chain(const lk_conv_shape *s, const void *x, const void *w, int64_t n,
                          lk__ref_place o, int64_t oc, lk__ref_chain *c)
{
    const int64_t group_in = s->in_channels / s->groups,
                  first = oc / (s->out_channels / s->groups) * group_in;
    for (lk__ref_place t = place_first(s->window.kernel); t.is;
         t = place_next(t, s->window.kernel)) {
        const lk__ref_place i = place_read(s, o, t);
        const int64_t at = n * s->x_sample + place_offset(i, s->x_step) + first;
        for (int64_t ic = 0; i.is && ic < group_in; ic++)
            chain_fma(c, real_get(s->dtype, x, at + ic),
                      real_get(s->dtype, w, weight_at(s, t, ic, oc)));
    }
}

lk_status lk__ref_conv_forward(const lk_conv_shape *shape, const void *x, const void *w,
                               const void *bias, lk_act act, void *y, lk__ref_value *exact)
{
    const lk_conv_shape s = lk__ref_conv_shape(shape);
    if (s.algorithm == LK_CONV_WINOGRAD)
        return lk__ref_conv_winograd(&s, false, x, w, bias, false, act, y);
    for (int64_t n = 0; n < s.batch; n++)
        for (lk__ref_place o = place_first(s.out); o.is; o = place_next(o, s.out))
            for (int64_t oc = 0; oc < s.out_channels; oc++) {
                const double start = bias ? real_get(s.dtype, bias, oc) : 0;
                lk__ref_chain c = chain_start(s.dtype, start, exact != NULL);
                forward_chain(&s, x, w, n, o, oc, &c);
                chain_store(&c, act, n * s.y_sample + place_offset(o, s.y_step) + oc, y, exact);
            }
    return LK_OK;
}

/* dx[n][i][ic]: the outputs that read it, then their channels. */
static void data_chain(const lk_conv_shape *s, const void *dy, const void *w, int64_t n,
                       lk__ref_place i, int64_t ic, lk__ref_chain *c)
{
    const int64_t group_in = s->in_channels / s->groups, group_out = s->out_channels / s->groups,
                  first = ic / group_in * group_out;
    for (lk__ref_place o = place_first(s->out); o.is; o = place_next(o, s->out)) {
        const lk__ref_place t = place_tap(s, o, i);
        const int64_t at = n * s->y_sample + place_offset(o, s->y_step);
        for (int64_t oc = first; t.is && oc < first + group_out; oc++)
            chain_fma(c, real_get(s->dtype, dy, at + oc),
                      real_get(s->dtype, w, weight_at(s, t, ic % group_in, oc)));
    }
}

lk_status lk__ref_conv_backward_data(const lk_conv_shape *shape, const void *dy, const void *w,
                                     const void *bias, bool accumulate, void *dx,
                                     lk__ref_value *exact)
{
    const lk_conv_shape s = lk__ref_conv_shape(shape);
    if (s.algorithm == LK_CONV_WINOGRAD)
        return lk__ref_conv_winograd(&s, true, dy, w, bias, accumulate, LK_ACT_NONE, dx);
    for (int64_t n = 0; n < s.batch; n++)
        for (lk__ref_place i = place_first(s.in); i.is; i = place_next(i, s.in))
            for (int64_t ic = 0; ic < s.in_channels; ic++) {
                const int64_t at = n * s.x_sample + place_offset(i, s.x_step) + ic;
                const double start = accumulate ? real_get(s.dtype, dx, at)
                                     : bias     ? real_get(s.dtype, bias, ic)
                                                : 0;
                lk__ref_chain c = chain_start(s.dtype, start, exact != NULL);
                data_chain(&s, dy, w, n, i, ic, &c);
                chain_store(&c, LK_ACT_NONE, at, dx, exact);
            }
    return LK_OK;
}

/* One weight: tap t from input channel ic to oc. */
struct weight {
    const lk_conv_shape *s;
    const void *x, *dy;
    lk__ref_place t;
    int64_t ic, oc;
    bool traced;
};

/* The samples of piece p, then output positions. */
static lk__ref_chain piece_leaf(const void *of, int64_t p)
{
    const struct weight *k = of;
    const lk_conv_shape *s = k->s;
    const int64_t first = p * s->piece;
    lk__ref_chain c = chain_start(s->dtype, 0, k->traced);
    for (int64_t n = first; n < s->batch && n - first < s->piece; n++)
        for (lk__ref_place o = place_first(s->out); o.is; o = place_next(o, s->out)) {
            const lk__ref_place i = place_read(s, o, k->t);
            if (i.is)
                chain_fma(
                    &c,
                    real_get(s->dtype, k->x, n * s->x_sample + place_offset(i, s->x_step) + k->ic),
                    real_get(s->dtype, k->dy,
                             n * s->y_sample + place_offset(o, s->y_step) + k->oc));
        }
    return c;
}

void lk__ref_conv_backward_weights(const lk_conv_shape *shape, const void *x, const void *dy,
                                   bool accumulate, void *dw, lk__ref_value *exact)
{
    const lk_conv_shape s = lk__ref_conv_shape(shape);
    const int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups,
                  pieces = s.batch > 0 ? (s.batch - 1) / s.piece + 1 : 0;
    struct weight k = {.s = &s, .x = x, .dy = dy, .traced = exact != NULL};
    for (k.t = place_first(s.window.kernel); k.t.is; k.t = place_next(k.t, s.window.kernel))
        for (int64_t ic = 0; ic < group_in; ic++)
            for (k.oc = 0; k.oc < s.out_channels; k.oc++) {
                const int64_t at = weight_at(&s, k.t, ic, k.oc);
                const double old = accumulate ? real_get(s.dtype, dw, at) : 0;
                lk__ref_chain sum = chain_start(s.dtype, old, k.traced);
                k.ic = k.oc / group_out * group_in + ic;
                if (pieces > 0 && accumulate)
                    sum = lk__ref_chain_join(sum, lk__ref_chain_tree(piece_leaf, &k, 0, pieces));
                else if (pieces > 0)
                    sum = lk__ref_chain_tree(piece_leaf, &k, 0, pieces);
                chain_store(&sum, LK_ACT_NONE, at, dw, exact);
            }
}
