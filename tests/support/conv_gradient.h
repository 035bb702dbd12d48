/* Shapes with operands for tests of the weight gradient of a convolution. */
#ifndef LK_TEST_CONV_GRADIENT_H
#define LK_TEST_CONV_GRADIENT_H

#include "guard.h"
#include "kernel/conv_shape.h"
#include "kernel/reference/reference.h"
#include "real.h"

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
