/* resnet: residual blocks of two 3x3 convolutions with batch norm, in groups; each group but the first
 * halves the image and doubles the channels.  The CIFAR form: 6 blocks + 2 layers deep. */
#include "models/list.h"

typedef struct resnet_options {
    int64_t blocks, groups, width, classes;
} resnet_options;

static const lk_option options[] = {
    {"blocks", LK_OPTION_INT, offsetof(resnet_options, blocks), .value = "N", .def = "3", .min = 1,
     .max = 1000, .help = "residual blocks of each group"},
    {"groups", LK_OPTION_INT, offsetof(resnet_options, groups), .value = "N", .def = "3", .min = 1,
     .max = 10, .help = "groups, each half as large and twice as wide as the one before"},
    {"width", LK_OPTION_INT, offsetof(resnet_options, width), .value = "N", .def = "16", .min = 1,
     .max = 1e6, .help = "channels of the first group"},
    {"classes", LK_OPTION_INT, offsetof(resnet_options, classes), .value = "N", .def = "10",
     .min = 1, .max = 1e9, .help = "size of the output"},
    {0}};

static void conv_norm(lk__layers *l, int64_t width, int kernel, int stride)
{
    lk__layers_add(l, "conv", "filters=%lld kernel=%d stride=%d padding=%d bias=false init=he",
                   (long long)width, kernel, stride, kernel / 2);
    lk__layers_add(l, "batch_norm", NULL);
}

static void block(lk__layers *l, int64_t width, bool narrower)
{
    lk__layers inner = {.arena = l->arena}, shortcut = {.arena = l->arena};
    conv_norm(&inner, width, 3, narrower ? 2 : 1);
    lk__layers_add(&inner, "relu", NULL);
    conv_norm(&inner, width, 3, 1);
    if (narrower)
        conv_norm(&shortcut, width, 1, 2);
    lk__layers_residual(l, &inner, &shortcut);
    lk__layers_add(l, "relu", NULL);
}

static lk_status resnet_expand(const void *opt, lk_arena *arena, lk_configs *out)
{
    const resnet_options *o = opt;
    lk__layers l = {.arena = arena};
    conv_norm(&l, o->width, 3, 1);
    lk__layers_add(&l, "relu", NULL);
    for (int64_t g = 0; g < o->groups; g++)
        for (int64_t i = 0; i < o->blocks; i++)
            block(&l, o->width << g, g > 0 && i == 0);
    lk__layers_add(&l, "global_avgpool", NULL);
    lk__layers_add(&l, "linear", "units=%lld", (long long)o->classes);
    return LK_TRACE(lk__layers_end(&l, out));
}

const lk_model_preset lk__model_preset_resnet = {
    .descriptor = {.name = "resnet",
                   .summary = "residual blocks of 3x3 convolutions with batch norm",
                   .options = options,
                   .options_size = sizeof(resnet_options)},
    .expand = resnet_expand};
