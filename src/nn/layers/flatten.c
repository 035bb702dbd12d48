/* flatten: all axes of a sample become one. */
#include "nn/layers.h"

#include <lockstep/op.h>

static lk_status flatten_build(lk_build *build, const void *options, lk_tensor_type in,
                               lk_tensor_type *out)
{
    int64_t count;
    (void)build;
    (void)options;
    LK_TRY(lk_shape_count(in.shape, &count));
    *out = (lk_tensor_type){in.dtype, LK_SHAPE(count)};
    return LK_OK;
}

static lk_status flatten_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    (void)pass;
    return LK_TRACE(lk_reshape(x, LK_SHAPE(lk_shape_of(x).dim[0], layer->out.shape.dim[0]), out));
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(2, 3, 2), 0}, {NULL, LK_DIMS(4), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_flatten = {
    .descriptor = {.name = "flatten", .summary = "all axes of a sample become one"},
    .flags = LK_LAYER_RESHAPES,
    .build = flatten_build,
    .forward = flatten_forward,
    .samples = samples};
