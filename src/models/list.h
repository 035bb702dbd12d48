/* Writing lists of layers. */
#ifndef LK_MODELS_LIST_H
#define LK_MODELS_LIST_H

#include <lockstep/models.h>

/* A list that grows in an arena. */
typedef struct lk__layers {
    lk_arena *arena;
    lk_configs list;
    int64_t room;
    lk_status st; /* the first failure: what follows does nothing */
} lk__layers;

/** Append a layer; `options` is a format for lk_config_parse()'s text, or NULL. */
void lk__layers_add(lk__layers *l, const char *type, const char *options, ...) LK_PRINTF(3, 4);

/** Append a residual block of two lists; `shortcut` may be empty. */
void lk__layers_residual(lk__layers *l, const lk__layers *layers, const lk__layers *shortcut);

/** Append a residual block whose layers' channels come behind those of its input. */
void lk__layers_concat(lk__layers *l, const lk__layers *layers);

/** The list, or the first failure. */
lk_status lk__layers_end(const lk__layers *l, lk_configs *out) LK_NODISCARD;

#endif /* LK_MODELS_LIST_H */
