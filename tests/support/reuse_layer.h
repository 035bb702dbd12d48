/* A layer as a program writes it that uses its parameter more than once in a pass: y = tanh(x w) w for
 * x [..., n] and w [n, n].  Models with it go shard by shard. */
#ifndef LK_TESTS_REUSE_LAYER_H
#define LK_TESTS_REUSE_LAYER_H

#include "harness.h"

#include <lockstep/lockstep.h>

static inline lk_status twice_build(lk_build *build, const void *options, lk_tensor_type in,
                                    lk_tensor_type *out)
{
    int64_t n = in.shape.dim[in.shape.ndim - 1];
    lk_config init = {0};
    (void)options;
    LK_TRY(lk_descriptor_find(&lk_registry_init, "glorot", &init.descriptor));
    LK_TRY(lk_build_param(
        build,
        &(lk_param){
            .name = "weight", .shape = LK_SHAPE(n, n), .init = &init, .fan_in = n, .fan_out = n}));
    *out = in;
    return LK_OK;
}

static inline lk_status twice_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                      lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0), y;
    LK_TRY(lk_linear(x, w, LK_NO_VAR, &y));
    LK_TRY(lk_tanh(y, &y));
    return LK_TRACE(lk_linear(y, w, LK_NO_VAR, out));
}

static const lk_layer twice = {.descriptor = {.name = "twice", .summary = "tanh(x w) w"},
                               .flags = LK_LAYER_WEIGHT_REUSE,
                               .build = twice_build,
                               .forward = twice_forward};

static inline void twice_add(lk_model *model)
{
    ASSERT_OK(lk_model_add_config(model, &(lk_config){.descriptor = &twice.descriptor}));
}

#endif /* LK_TESTS_REUSE_LAYER_H */
