/* mlp: flatten, then linear and an activation for each number of units, then linear to the classes. */
#include "models/list.h"

typedef struct mlp_options {
    lk_option_ints units;
    int64_t classes;
    const char *activation;
    double dropout;
} mlp_options;

static const lk_option options[] = {
    {"units", LK_OPTION_INTS, offsetof(mlp_options, units), .def = "100,100", .min = 1, .max = 1e9,
     .help = "of each hidden layer"},
    {"classes", LK_OPTION_INT, offsetof(mlp_options, classes), .value = "N", .def = "10", .min = 1,
     .max = 1e9, .help = "size of the output"},
    {"activation", LK_OPTION_TEXT, offsetof(mlp_options, activation), .def = "relu",
     .help = "layer behind each hidden one"},
    {"dropout", LK_OPTION_REAL, offsetof(mlp_options, dropout), .def = "0", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "behind each hidden layer; 0: none"},
    {0}};

static lk_status mlp_expand(const void *opt, lk_arena *arena, lk_configs *out)
{
    const mlp_options *o = opt;
    lk__layers l = {.arena = arena};
    lk__layers_add(&l, "flatten", NULL);
    for (int i = 0; i < o->units.n; i++) {
        lk__layers_add(&l, "linear", "units=%lld", (long long)o->units.item[i]);
        lk__layers_add(&l, o->activation, NULL);
        if (o->dropout > 0)
            lk__layers_add(&l, "dropout", "rate=%.17g", o->dropout);
    }
    lk__layers_add(&l, "linear", "units=%lld", (long long)o->classes);
    return LK_TRACE(lk__layers_end(&l, out));
}

const lk_model_preset lk__model_preset_mlp = {
    .descriptor = {.name = "mlp",
                   .summary = "linear layers with activations",
                   .options = options,
                   .options_size = sizeof(mlp_options)},
    .expand = mlp_expand};
