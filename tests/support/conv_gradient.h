/* The weight gradient of a convolution by its definition in conv.h, one element at a time. */
#ifndef LK_TEST_CONV_GRADIENT_H
#define LK_TEST_CONV_GRADIENT_H

#include "guard.h"
#include "kernel/conv_shape.h"
#include "real.h"

/* tree(v0 ... v(n-1)) of reduce.h. */
static inline double gradient_tree(lk_dtype t, const double *v, int64_t n)
{
    if (n == 1)
        return v[0];
    int64_t h = 1;
    while (2 * h < n)
        h *= 2;
    return real_add(t, gradient_tree(t, v, h), gradient_tree(t, v + h, n - h));
}

/* dw[tap][ic][oc] of one sample, the chain going on from `acc`. */
static inline double gradient_chain(const lk__conv_shape *s, const void *x, const void *dy,
                                    const int64_t *tap, int64_t ic, int64_t oc, double acc)
{
    int64_t o[LK_CONV_AXES];
    for (o[0] = 0; o[0] < s->out[0]; o[0]++)
        for (o[1] = 0; o[1] < s->out[1]; o[1]++)
            for (o[2] = 0; o[2] < s->out[2]; o[2]++) {
                int64_t xi = ic, yi = oc;
                bool inside = true;
                for (int d = 0; d < LK_CONV_AXES; d++) {
                    int64_t i = o[d] * s->window.stride[d] - s->window.pad_lo[d] +
                                tap[d] * s->window.dilation[d];
                    inside = inside && i >= 0 && i < s->in[d];
                    xi += inside ? i * s->x_step[d] : 0;
                    yi += o[d] * s->y_step[d];
                }
                if (inside)
                    acc = real_fma(s->dtype, real_get(s->dtype, x, xi), real_get(s->dtype, dy, yi),
                                   acc);
            }
    return acc;
}

static inline double gradient_element(const lk__conv_shape *s, const void *x, const void *dy,
                                      const int64_t *tap, int64_t ic, int64_t oc)
{
    int64_t n_pieces = (s->batch + s->piece - 1) / s->piece;
    double *piece = calloc((size_t)n_pieces, sizeof *piece);
    ASSERT_TRUE(piece);
    for (int64_t n = 0; n < s->batch; n++)
        piece[n / s->piece] = gradient_chain(s, (const char *)x + n * s->x_sample * s->elem,
                                             (const char *)dy + n * s->y_sample * s->elem, tap, ic,
                                             oc, piece[n / s->piece]);
    double sum = gradient_tree(s->dtype, piece, n_pieces);
    free(piece);
    return sum;
}

/* dw = the gradient; batch > 0. */
static inline void gradient_reference(const lk__conv_shape *s, const void *x, const void *dy,
                                      void *dw)
{
    int64_t tap[LK_CONV_AXES], i = 0;
    for (tap[0] = 0; tap[0] < s->window.kernel[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < s->window.kernel[1]; tap[1]++)
            for (tap[2] = 0; tap[2] < s->window.kernel[2]; tap[2]++)
                for (int64_t ic = 0; ic < s->group_in; ic++)
                    for (int64_t oc = 0; oc < s->out_channels; oc++) {
                        int64_t group = oc / s->group_out;
                        real_set(s->dtype, dw, i++,
                                 gradient_element(s, x, dy, tap, group * s->group_in + ic, oc));
                    }
}

/* The same, added to what `dw` holds. */
static inline void gradient_reference_add(const lk__conv_shape *s, const void *grad, void *dw)
{
    for (int64_t i = 0; i < s->w_extent; i++)
        real_set(s->dtype, dw, i,
                 real_add(s->dtype, real_get(s->dtype, dw, i), real_get(s->dtype, grad, i)));
}

/* A shape with its operands, each of which ends at a page that must not be touched. */
struct gradient_case {
    lk_conv_shape shape;
    lk__conv_shape s;
    struct guard x, dy, dw;
    size_t dw_bytes;
};

/* An `out` of 0 becomes what lk_conv_out() says with the same pad on both sides. */
static inline void gradient_case_new(struct gradient_case *c, const lk_conv_shape *shape,
                                     lk_dtype dtype, bool odd)
{
    c->shape = *shape;
    c->shape.dtype = dtype;
    for (int d = 0; d < shape->window.ndim; d++) {
        lk_conv_shape *q = &c->shape;
        int64_t stride = q->window.stride[d] ? q->window.stride[d] : 1,
                dilation = q->window.dilation[d] ? q->window.dilation[d] : 1;
        if (q->out[d] == 0)
            ASSERT_OK(lk_conv_out(q->in[d], q->window.kernel[d], stride, dilation,
                                  q->window.pad_lo[d], q->window.pad_lo[d], &q->out[d]));
    }
    ASSERT_OK(lk__conv_shape_make(&c->shape, &c->s));
    size_t elem = (size_t)c->s.elem;
    c->x = guard_new((size_t)c->s.x_extent * elem);
    c->dy = guard_new((size_t)c->s.y_extent * elem);
    c->dw_bytes = (size_t)c->s.w_extent * elem;
    c->dw = guard_new(c->dw_bytes);
    real_fill(dtype, c->x.data, c->s.x_extent, 1, odd);
    real_fill(dtype, c->dy.data, c->s.y_extent, 2, odd);
    real_fill(dtype, c->dw.data, c->s.w_extent, 3, odd);
}

static inline void gradient_case_free(struct gradient_case *c)
{
    guard_free(&c->x);
    guard_free(&c->dy);
    guard_free(&c->dw);
}

#endif /* LK_TEST_CONV_GRADIENT_H */
