/* Recurrent layers: a cell that is applied from one time to the next.  For
 * src/nn/layers/{rnn,gru,lstm}.c.
 *
 * x [time, features] of a sample gives [units], the last state, or [time, units], all of them.  What
 * all times take from x is one product; the rest is one op over all times.  The state is the layer's
 * carry: a pass begins with what it is given, or zeros, and says what it ends with.
 */
#ifndef LK_NN_RECURRENT_H
#define LK_NN_RECURRENT_H

#include "nn/layers.h"

typedef struct lk__recurrent_options {
    int64_t units;
    int output; /* 0 last, 1 all */
    bool reverse;
    lk_config init, recurrent_init;
    double forget; /* lstm */
} lk__recurrent_options;

#define LK__RECURRENT_OPTIONS                                                                 \
    {"units",                                                                                 \
     LK_OPTION_INT,                                                                           \
     offsetof(lk__recurrent_options, units),                                                  \
     .value = "N",                                                                            \
     .min = 1,                                                                                \
     .max = 1e9,                                                                              \
     .flags = LK_OPTION_REQUIRED,                                                             \
     .help = "numbers in the state"},                                                         \
        {"output",                                                                            \
         LK_OPTION_CHOICE,                                                                    \
         offsetof(lk__recurrent_options, output),                                             \
         .def = "last",                                                                       \
         .choices = "last all",                                                               \
         .help = "the state after the last time, or of all times"},                           \
        {"reverse", LK_OPTION_FLAG, offsetof(lk__recurrent_options, reverse), .def = "false", \
         .help = "begin with the last time"},                                                 \
        {"init",                                                                              \
         LK_OPTION_CONFIG,                                                                    \
         offsetof(lk__recurrent_options, init),                                               \
         .def = "glorot",                                                                     \
         .registry = &lk_registry_init,                                                       \
         .help = "what the weight of the input begins with"},                                 \
    {                                                                                         \
        "recurrent_init", LK_OPTION_CONFIG, offsetof(lk__recurrent_options, recurrent_init),  \
            .def = "glorot", .registry = &lk_registry_init,                                   \
            .help = "what the weight of the state begins with"                                \
    }

/* Parameters of all recurrent layers; further ones follow. */
enum { LK__WEIGHT, LK__RECURRENT, LK__BIAS, LK__MORE };

/** Declare weight [features, gates units], recurrent [units, gates units], bias and the carry h. */
lk_status lk__recurrent_build(lk_build *build, const lk__recurrent_options *o, lk_tensor_type in,
                              int gates, lk_tensor_type *out) LK_NODISCARD;

/** What an op over all times takes: x w + b as `x`, the recurrent weights, and the state it begins with, as many
 * as the layer has carries; and its attributes. */
typedef struct lk__recurrent_in {
    lk_var x, u, state[2];
    lk_recurrent_attr attr;
} lk__recurrent_in;

lk_status lk__recurrent_begin(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk__recurrent_in *in) LK_NODISCARD;

/** All of a layer's forward where its units are cut into blocks; `*done`: they are. */
lk_status lk__recurrent_split(const lk_pass *pass, const lk_layer_instance *layer,
                              lk_feature_cell cell, lk_var x, bool *done, lk_var *out) LK_NODISCARD;

/** The layer gives y, all times, or the last state; its carries are `last`. */
void lk__recurrent_end(const lk_pass *pass, const lk_layer_instance *layer, lk_var y,
                       const lk_var *last, lk_var *out);

#endif /* LK_NN_RECURRENT_H */
