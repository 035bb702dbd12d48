/* Shapes with operands for tests of the weight gradient of a convolution. */
#ifndef LK_TEST_CONV_GRADIENT_H
#define LK_TEST_CONV_GRADIENT_H

#include "guard.h"
#include "kernel/conv/shape.h"
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
    const lk_conv_shape full = lk__ref_conv_shape(shape);
    const lk_window *w = &full.window;
    c->shape = *shape;
    c->shape.dtype = dtype;
    for (int d = 0; d < w->ndim; d++)
        if (shape->out[d] == 0)
            ASSERT_OK(lk_conv_out(shape->in[d], w->kernel[d], w->stride[d], w->dilation[d],
                                  w->pad_lo[d], w->pad_lo[d], &c->shape.out[d]));
    ASSERT_OK(lk__conv_shape_make(&c->shape, &c->s));
    c->dw_bytes = (size_t)(c->s.w_extent * c->s.elem);
    c->x = guard_real(dtype, c->s.x_extent, 1, odd);
    c->dy = guard_real(dtype, c->s.y_extent, 2, odd);
    c->dw = guard_real(dtype, c->s.w_extent, 3, odd);
}

static inline void gradient_case_free(struct gradient_case *c)
{
    guard_free(&c->x);
    guard_free(&c->dy);
    guard_free(&c->dw);
}

#endif /* LK_TEST_CONV_GRADIENT_H */
