/* vgg: blocks of 3x3 convolutions with batch norm, each block ended by pooling and twice as wide as
 * the one before, then linear layers. */
#include "models/list.h"

typedef struct vgg_options {
    lk_option_ints blocks;
    int64_t width, most, groups, units, classes;
    double dropout;
} vgg_options;

static const lk_option options[] = {
    {"blocks", LK_OPTION_INTS, offsetof(vgg_options, blocks), .def = "2,2,3,3,3", .min = 1,
     .max = 1000, .help = "convolutions of each block; VGG-16 by default"},
    {"width", LK_OPTION_INT, offsetof(vgg_options, width), .value = "N", .def = "64", .min = 1,
     .max = 1e6, .help = "channels of the first block"},
    {"most", LK_OPTION_INT, offsetof(vgg_options, most), .value = "N", .def = "512", .min = 1,
     .max = 1e6, .help = "channels are not doubled beyond this"},
    {"groups", LK_OPTION_INT, offsetof(vgg_options, groups), .value = "N", .def = "1", .min = 1,
     .max = 1e6,
     .help = "of all convolutions but the first: channels are cut into so many groups that do not "
             "mix"},
    {"units", LK_OPTION_INT, offsetof(vgg_options, units), .value = "N", .def = "512", .min = 1,
     .max = 1e9, .help = "of the hidden linear layer"},
    {"dropout", LK_OPTION_REAL, offsetof(vgg_options, dropout), .def = "0.5", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "behind the hidden linear layer; 0: none"},
    {"classes", LK_OPTION_INT, offsetof(vgg_options, classes), .value = "N", .def = "10", .min = 1,
     .max = 1e9, .help = "size of the output"},
    {0}};

static lk_status vgg_expand(const void *opt, lk_arena *arena, lk_configs *out)
{
    const vgg_options *o = opt;
    lk__layers l = {.arena = arena};
    int64_t width = o->width;
    for (int b = 0; b < o->blocks.n; b++) {
        for (int64_t i = 0; i < o->blocks.item[b]; i++) {
            bool first = b == 0 && i == 0; /* which has the image's channels */
            lk__layers_add(&l, "conv",
                           "filters=%lld kernel=3 padding=1 groups=%lld bias=false init=he",
                           (long long)width, first ? 1LL : (long long)o->groups);
            lk__layers_add(&l, "batch_norm", NULL);
            lk__layers_add(&l, "relu", NULL);
        }
        lk__layers_add(&l, "maxpool", "size=2");
        width = 2 * width < o->most ? 2 * width : o->most;
    }
    lk__layers_add(&l, "flatten", NULL);
    lk__layers_add(&l, "linear", "units=%lld init=he", (long long)o->units);
    lk__layers_add(&l, "relu", NULL);
    if (o->dropout > 0)
        lk__layers_add(&l, "dropout", "rate=%.17g", o->dropout);
    lk__layers_add(&l, "linear", "units=%lld", (long long)o->classes);
    return LK_TRACE(lk__layers_end(&l, out));
}

const lk_model_preset lk__model_preset_vgg = {
    .descriptor = {.name = "vgg",
                   .summary = "blocks of 3x3 convolutions, each twice as wide as the one before",
                   .options = options,
                   .options_size = sizeof(vgg_options)},
    .expand = vgg_expand};
