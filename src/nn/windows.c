/* Windows over spatial axes: from the options of convolution and pooling layers to lk_window, when they
 * are built.
 */
#include "kernel/conv/shape.h"
#include "nn/layers.h"

#include <lockstep/extra/checked.h>

/* "same": as many positions as the input has, divided by the stride, rounded up. */
static void pad_same(lk_window *w, lk_shape in)
{
    for (int i = 0; i < w->ndim; i++) {
        int64_t wanted = (in.dim[i] + w->stride[i] - 1) / w->stride[i];
        int64_t extent = w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t all = (wanted - 1) * w->stride[i] + extent - in.dim[i];
        all = all < 0 ? 0 : all;
        w->pad_lo[i] = all / 2;
        w->pad_hi[i] = all - all / 2;
    }
}

lk_status lk__layer_window(const lk__window_options *o, lk_shape in, int64_t stride,
                           lk_window *window, int64_t positions[3])
{
    lk_window w = {.ndim = in.ndim - 1};
    LK_CHECK(w.ndim >= 1 && w.ndim <= 3, LK_ESHAPE,
             "the input %s must have 1 to 3 spatial axes, then channels", lk_shape_text(in).s);
    LK_TRY(lk__option_per_axis("kernel", &o->kernel, w.ndim, 1, w.kernel));
    LK_TRY(lk__option_per_axis("dilation", &o->dilation, w.ndim, 1, w.dilation));
    LK_TRY(lk__option_per_axis("stride", &o->stride, w.ndim, stride, w.stride));
    LK_TRY(lk__option_per_axis("padding", &o->padding, w.ndim, 0, w.pad_lo));
    LK_TRY(lk__option_per_axis("padding", &o->padding, w.ndim, 0, w.pad_hi));
    for (int i = 0; i < w.ndim; i++)
        if (w.stride[i] == 0)
            w.stride[i] = w.kernel[i];
    LK_CHECK(o->pad == 0 || o->padding.n == 0, LK_EINVAL,
             "pad: same and padding exclude each other");
    if (o->pad == 1)
        pad_same(&w, in);
    for (int i = 0; i < w.ndim; i++) {
        int64_t extent = w.dilation[i] * (w.kernel[i] - 1), room; /* both at most 1e6 */
        LK_TRY(lk_add_i64(in.dim[i], w.pad_lo[i] + w.pad_hi[i], &room));
        LK_CHECK(room > extent, LK_ESHAPE,
                 "a window of %lld positions does not fit axis %d of the input %s with padding "
                 "%lld: one of at most %lld fits, or padding of at least %lld",
                 (long long)extent + 1, i, lk_shape_text(in).s, (long long)w.pad_lo[i],
                 (long long)room, (long long)(extent + 2 - in.dim[i]) / 2);
        positions[i] = (room - extent - 1) / w.stride[i] + 1;
    }
    *window = w;
    return LK_OK;
}

void lk__window_conv(const lk_window *w, int64_t groups, lk_conv_attr *out)
{
    *out = (lk_conv_attr){.window = *w, .groups = groups};
}

lk_status lk__layer_algorithm(int algorithm, int ndim, const int64_t *kernel, lk_conv_attr *attr)
{
    attr->algorithm = (lk_conv_algorithm)algorithm;
    lk_conv_shape s = {.window.ndim = ndim, .groups = attr->groups, .algorithm = attr->algorithm};
    for (int d = 0; d < ndim; d++) {
        s.window.kernel[d] = kernel[d];
        s.window.stride[d] = attr->window.stride[d];
        s.window.dilation[d] = attr->window.dilation[d];
    }
    return LK_TRACE(lk__conv_algorithm_check(&s));
}

lk_status lk__layer_fit(const lk_build *build, int ndim, lk_conv_attr *attr, lk_shape *out)
{
    lk_shape list = lk_build_list_in(build).shape;
    LK_CHECK(list.ndim == ndim + 1, LK_ESHAPE,
             "fit: the list of layers begins with %s, which has not the axes of %s",
             lk_shape_text(list).s, lk_shape_text(*out).s);
    for (int i = 0; i < ndim; i++) {
        int64_t least = out->dim[i] - attr->extra[i], wanted = list.dim[i],
                stride = attr->window.stride[i];
        LK_CHECK(least - wanted < stride && wanted - least < stride, LK_ESHAPE,
                 "fit: along axis %d this gives %lld positions, and the list of layers begins with "
                 "%lld, which must be less than the stride, %lld, away",
                 i, (long long)least, (long long)wanted, (long long)stride);
        attr->window.pad_hi[i] += least > wanted ? least - wanted : 0;
        attr->extra[i] = least < wanted ? wanted - least : 0;
        out->dim[i] = wanted;
    }
    return LK_OK;
}

lk_status lk__pool_build(lk_build *build, const void *options, lk_tensor_type in,
                         lk_tensor_type *out)
{
    const lk__pool_options *o = options;
    lk_window w;
    int64_t positions[3];
    lk_pool_attr *attr = NULL;
    LK_TRY(lk__build_check(build, in, 2));
    LK_TRY(lk__layer_window(&o->window, in.shape, 0, &w, positions));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    attr->window = w;
    lk_build_window(build, LK_TILE_POOL, &w);
    lk_build_features(build, LK_FEATURES_EACH);
    *out = in;
    for (int i = 0; i < w.ndim; i++)
        out->shape.dim[i] = positions[i];
    return LK_OK;
}
