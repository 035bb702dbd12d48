/* Lists of layers for named models, and the models by name. */
#include "models/list.h"

#include "base/fpenv.h"
#include "nn/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The choices of `join` of a residual block. */
enum { JOIN_ADD, JOIN_CONCAT };

/* Room for one more. */
static lk_status item_new(lk__layers *l, lk_config **out)
{
    if (l->list.n == l->room) {
        lk_config *more = NULL;
        int64_t room = l->room ? 2 * l->room : 16;
        LK_TRY(lk_arena_alloc(l->arena, &more, room, sizeof *more));
        if (l->list.n > 0)
            memcpy(more, l->list.item, (size_t)l->list.n * sizeof *more);
        l->list.item = more;
        l->room = room;
    }
    *out = &l->list.item[l->list.n++];
    return LK_OK;
}

static lk_status layer_add(lk__layers *l, const char *type, const char *options)
{
    lk_config *item = NULL;
    LK_TRY(item_new(l, &item));
    return LK_TRACE(lk_config_parse(&lk_registry_layer, type, options, l->arena, item));
}

void lk__layers_add(lk__layers *l, const char *type, const char *options, ...)
{
    char text[256] = "";
    if (l->st != LK_OK)
        return;
    if (options) {
        va_list args;
        va_start(args, options);
        vsnprintf(text, sizeof text, options, args);
        va_end(args);
    }
    l->st = layer_add(l, type, text);
}

/* Options of a residual block by name, since its struct belongs to its file. */
static lk_status residual_add(lk__layers *l, const lk__layers *layers, const lk__layers *shortcut,
                              int join)
{
    const lk_descriptor *entry = NULL;
    lk_config *item = NULL;
    LK_TRY(lk_descriptor_find(&lk_registry_layer, "residual", &entry));
    LK_TRY(item_new(l, &item));
    item->descriptor = entry;
    LK_TRY(lk_arena_alloc(l->arena, &item->options, 1, entry->options_size));
    char *fields = item->options;
    const lk_option *a = lk_option_find(entry->options, "layers"),
                    *b = lk_option_find(entry->options, "shortcut"),
                    *c = lk_option_find(entry->options, "join");
    memcpy(fields + a->offset, &layers->list, sizeof layers->list);
    memcpy(fields + b->offset, &shortcut->list, sizeof shortcut->list);
    memcpy(fields + c->offset, &join, sizeof join);
    return LK_OK;
}

void lk__layers_residual(lk__layers *l, const lk__layers *layers, const lk__layers *shortcut)
{
    if (l->st == LK_OK)
        l->st = layers->st != LK_OK ? layers->st : shortcut->st;
    if (l->st == LK_OK)
        l->st = residual_add(l, layers, shortcut, JOIN_ADD);
}

void lk__layers_concat(lk__layers *l, const lk__layers *layers)
{
    const lk__layers none = {.arena = l->arena};
    if (l->st == LK_OK)
        l->st = layers->st;
    if (l->st == LK_OK)
        l->st = residual_add(l, layers, &none, JOIN_CONCAT);
}

lk_status lk__layers_end(const lk__layers *l, lk_configs *out)
{
    LK_TRY(l->st);
    *out = l->list;
    return LK_OK;
}

lk_status lk_model_expand(const lk_config *model, lk_arena *arena, lk_configs *out)
{
    LK_FP_GUARD();
    lk_config filled;
    LK_CHECK(model && model->descriptor, LK_EINVAL, "model is NULL");
    LK_TRY(lk_config_with_defaults(model, arena, &filled));
    const lk_model_preset *named = (const lk_model_preset *)(const void *)filled.descriptor;
    return LK_TRACE(named->expand(filled.options, arena, out));
}

static lk_status preset_add(lk_model *model, const char *name, const char *options)
{
    lk_config preset;
    lk_configs layers;
    LK_TRY(lk_config_parse(&lk_registry_model, name, options, model->arena, &preset));
    LK_TRY(lk_model_expand(&preset, model->arena, &layers));
    for (int64_t i = 0; i < layers.n; i++)
        LK_TRY(lk_model_add_config(model, &layers.item[i]));
    return LK_OK;
}

lk_status lk_model_add_preset(lk_model *model, const char *name, const char *options)
{
    LK_FP_GUARD();
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    int64_t before = model->n_layers;
    lk_status st = preset_add(model, name, options);
    if (st != LK_OK)
        model->n_layers = before;
    return LK_TRACE(st);
}

static const lk_descriptor *model_at(int i)
{
    return lk_model_presets[i] ? &lk_model_presets[i]->descriptor : NULL;
}

const lk_registry lk_registry_model = {
    .name = "model", .plural = "models", .summary = "well-known lists of layers", .at = model_at};
