/* lenet: two convolutions with pooling and two linear layers, 20-50-500-10 by default. */
#include "models/list.h"

typedef struct lenet_options {
    lk_option_ints filters;
    int64_t kernel, units, classes;
} lenet_options;

static const lk_option options[] = {
    {"filters", LK_OPTION_INTS, offsetof(lenet_options, filters), .def = "20,50", .min = 1,
     .max = 1e9, .help = "of each convolution"},
    {"kernel", LK_OPTION_INT, offsetof(lenet_options, kernel), .value = "N", .def = "5", .min = 1,
     .max = 1e6, .help = "size of the convolutions"},
    {"units", LK_OPTION_INT, offsetof(lenet_options, units), .value = "N", .def = "500", .min = 1,
     .max = 1e9, .help = "of the hidden linear layer"},
    {"classes", LK_OPTION_INT, offsetof(lenet_options, classes), .value = "N", .def = "10",
     .min = 1, .max = 1e9, .help = "size of the output"},
    {0}};

static lk_status lenet_expand(const void *opt, lk_arena *arena, lk_configs *out)
{
    const lenet_options *o = opt;
    lk__layers l = {.arena = arena};
    for (int i = 0; i < o->filters.n; i++) {
        lk__layers_add(&l, "conv", "filters=%lld kernel=%lld", (long long)o->filters.item[i],
                       (long long)o->kernel);
        lk__layers_add(&l, "relu", NULL);
        lk__layers_add(&l, "maxpool", "size=2");
    }
    lk__layers_add(&l, "flatten", NULL);
    lk__layers_add(&l, "linear", "units=%lld", (long long)o->units);
    lk__layers_add(&l, "relu", NULL);
    lk__layers_add(&l, "linear", "units=%lld", (long long)o->classes);
    return LK_TRACE(lk__layers_end(&l, out));
}

const lk_model_preset lk__model_preset_lenet = {
    .descriptor = {.name = "lenet",
                   .summary = "convolutions with pooling, then two linear layers",
                   .options = options,
                   .options_size = sizeof(lenet_options)},
    .expand = lenet_expand};
