/* Sizes of pooling. */
#include "ops/common/windows/pool.h"

#include "ops/common/windows/conv.h"
#include "tensor/tensor.h"

lk_status lk__pool_infer(lk_call *c, lk_output_spec *out)
{
    const lk_pool_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    lk_conv_attr conv = {.window = a->window, .groups = 1};
    int ndim = 0;
    int64_t groups;
    LK_TRY(lk__conv_begin(c, &conv, &ndim, &groups));
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < ndim; d++)
        LK_TRY(lk__conv_out_of(c, &conv, d, x->shape.dim[d + 1], a->window.kernel[d],
                               &out->shape.dim[d + 1]));
    return LK_OK;
}

lk_status lk__pool_back_infer(lk_call *c, lk_output_spec *out)
{
    const lk__pool_back *b = c->attr;
    out->dtype = c->x[0]->dtype;
    out->shape = b->x;
    return LK_OK;
}

lk_pool_shape lk__pool_shape_of(const lk_pool_attr *a, const lk_tensor *x, const lk_tensor *y)
{
    int ndim = x->shape.ndim - 2;
    lk_pool_shape s = {.dtype = x->dtype,
                       .window = a->window,
                       .batch = x->shape.dim[0],
                       .channels = x->shape.dim[ndim + 1],
                       .count_padding = a->count_padding,
                       .relu = a->relu};
    s.window.ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        s.in[d] = x->shape.dim[d + 1];
        s.out[d] = y->shape.dim[d + 1];
    }
    return s;
}
