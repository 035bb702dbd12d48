/* reshape: the elements of a sample in their order under another shape. */
#include "nn/layers.h"

#include <lockstep/op.h>

typedef struct reshape_options {
    lk_option_ints shape;
} reshape_options;

static const lk_option options[] = {
    {"shape", LK_OPTION_INTS, offsetof(reshape_options, shape), .min = -1, .max = 1e15,
     .flags = LK_OPTION_REQUIRED, .help = "of a sample; one -1 stands for what the others leave"},
    {0}};

static lk_status reshape_build(lk_build *build, const void *opt, lk_tensor_type in,
                               lk_tensor_type *out)
{
    const reshape_options *o = opt;
    int64_t count, known = 1;
    int open = -1;
    (void)build;
    LK_CHECK(o->shape.n < LK_MAX_NDIM, LK_ESHAPE, "a shape of %d axes, at most %d", o->shape.n,
             LK_MAX_NDIM - 1);
    LK_TRY(lk_shape_count(in.shape, &count));
    *out = (lk_tensor_type){in.dtype, {.ndim = o->shape.n}};
    for (int i = 0; i < o->shape.n; i++) {
        out->shape.dim[i] = o->shape.item[i];
        LK_CHECK(o->shape.item[i] >= 0 || open < 0, LK_ESHAPE, "two sizes of the shape are -1");
        if (o->shape.item[i] < 0)
            open = i;
    }
    if (open >= 0) {
        out->shape.dim[open] = 1;
        LK_TRY(lk_shape_count(out->shape, &known));
        out->shape.dim[open] = known > 0 ? count / known : 0;
    }
    LK_TRY(lk_shape_count(out->shape, &known));
    LK_CHECK(known == count, LK_ESHAPE, "%s does not have the %lld elements of %s",
             lk_shape_text(out->shape).s, (long long)count, lk_shape_text(in.shape).s);
    return LK_OK;
}

static lk_status reshape_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    lk_shape shape = {.ndim = layer->out.shape.ndim + 1, .dim = {lk_shape_of(x).dim[0]}};
    (void)pass;
    for (int i = 0; i < layer->out.shape.ndim; i++)
        shape.dim[i + 1] = layer->out.shape.dim[i];
    return LK_TRACE(lk_reshape(x, shape, out));
}

static const lk_layer_sample samples[] = {
    {"shape=3,2", LK_DIMS(6), 0}, {"shape=-1,2", LK_DIMS(2, 3), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_reshape = {
    .descriptor = {.name = "reshape",
                   .summary = "the elements of a sample in their order under another shape",
                   .options = options,
                   .options_size = sizeof(reshape_options)},
    .flags = LK_LAYER_RESHAPES,
    .build = reshape_build,
    .forward = reshape_forward,
    .samples = samples};
