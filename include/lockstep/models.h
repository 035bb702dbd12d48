/* Named models: well-known lists of layers, made from a few numbers.
 *
 * A named model is one constant descriptor in one file of src/models/named.  It is nothing but a short
 * way to write layers: what it gives is trained, saved and cut among ranks as any other list.
 *
 *     lk_model_new(&model);
 *     lk_model_add_preset(model, "mlp", "units=100,50 classes=10");
 *
 * Not collective.
 */
#ifndef LK_MODELS_H
#define LK_MODELS_H

#include <lockstep/nn.h>

LK_BEGIN_DECLS

typedef struct lk_model_preset {
    lk_descriptor descriptor;

    /** The layers for these options, in the arena.  Errors: LK_EINVAL, LK_ENOMEM. */
    lk_status (*expand)(const void *options, lk_arena *arena, lk_configs *out);
} lk_model_preset;

/** The models that are built in, sorted by name, then NULL. */
LK_API extern const lk_model_preset *const lk_model_presets[];
LK_API extern const lk_registry lk_registry_model;

/**
 * Append the layers of a named model: its name, and its options as lk_config_parse() reads them; NULL:
 * all defaults.  The model owns what was read.
 *
 * Errors: those of lk_config_parse(), of the named model and of lk_model_add_config().  The model is then
 * as it was.
 */
LK_API lk_status lk_model_add_preset(lk_model *model, const char *name,
                                     const char *options) LK_NODISCARD;

/** The layers of a config of lk_registry_model, in the arena.  Errors: those of the model. */
LK_API lk_status lk_model_expand(const lk_config *model, lk_arena *arena,
                                 lk_configs *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_MODELS_H */
