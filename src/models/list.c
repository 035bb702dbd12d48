/* Lists of layers for named models, and the models by name. */
#include "models/list.h"

#include "base/fpenv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for one more. */
static lk_status item_new(lk__layers *l, lk_choice **out)
{
    if (l->list.n == l->room) {
        lk_choice *more = NULL;
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
    lk_choice *item = NULL;
    LK_TRY(item_new(l, &item));
    LK_TRY(lk_choice_make(&lk_kind_layer, type, options, l->arena, item));
    return LK_OK;
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
static lk_status residual_add(lk__layers *l, const lk__layers *layers, const lk__layers *shortcut)
{
    const lk_entry *entry = NULL;
    lk_choice *item = NULL;
    LK_TRY(lk_entry_find(&lk_kind_layer, "residual", &entry));
    LK_TRY(item_new(l, &item));
    item->entry = entry;
    LK_TRY(lk_arena_alloc(l->arena, &item->options, 1, entry->options_size));
    char *fields = item->options;
    const lk_option *a = lk_option_find(entry->options, "layers"),
                    *b = lk_option_find(entry->options, "shortcut");
    memcpy(fields + a->offset, &layers->list, sizeof layers->list);
    memcpy(fields + b->offset, &shortcut->list, sizeof shortcut->list);
    return LK_OK;
}

void lk__layers_residual(lk__layers *l, const lk__layers *layers, const lk__layers *shortcut)
{
    if (l->st == LK_OK)
        l->st = layers->st != LK_OK ? layers->st : shortcut->st;
    if (l->st == LK_OK)
        l->st = residual_add(l, layers, shortcut);
}

lk_status lk__layers_end(const lk__layers *l, lk_choices *out)
{
    LK_TRY(l->st);
    *out = l->list;
    return LK_OK;
}

lk_status lk_model_expand(const lk_choice *model, lk_arena *arena, lk_choices *out)
{
    LK_FP_GUARD();
    lk_choice filled;
    LK_CHECK(model && model->entry, LK_EINVAL, "model is NULL");
    LK_TRY(lk_choice_fill(model, arena, &filled));
    const lk_named_model *named = (const lk_named_model *)(const void *)filled.entry;
    LK_TRY(named->expand(filled.options, arena, out));
    return LK_OK;
}

static const lk_entry *model_at(int i)
{
    return lk_named_models[i] ? &lk_named_models[i]->entry : NULL;
}

const lk_kind lk_kind_model = {
    .name = "model", .plural = "models", .summary = "well-known lists of layers", .at = model_at};
