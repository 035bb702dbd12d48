/* A copy of a config that owns all that its table describes: texts, configs and lists of them, all the way
 * down.  Other pointers in the struct of a program's own options are copied as they are. */
#include "base/option/option.h"

#include <string.h>

static lk_status text_copy(const char **text, lk_arena *arena)
{
    if (*text)
        LK_TRY(lk_arena_text(arena, *text, strlen(*text), text));
    return LK_OK;
}

static lk_status configs_copy(lk_configs *list, lk_arena *arena)
{
    lk_config *item;
    LK_TRY(lk_arena_alloc(arena, &item, list->n, sizeof *item));
    for (int64_t i = 0; i < list->n; i++)
        LK_TRY(lk__config_copy(&list->item[i], arena, &item[i]));
    list->item = item;
    return LK_OK;
}

/* What a field points to. */
static lk_status field_copy(const lk_option *o, void *fields, lk_arena *arena)
{
    void *field = (char *)fields + o->offset;
    if (o->type == LK_OPTION_TEXT)
        LK_TRY(text_copy(field, arena));
    else if (o->type == LK_OPTION_CONFIG)
        LK_TRY(lk__config_copy(field, arena, field));
    else if (o->type == LK_OPTION_CONFIGS)
        LK_TRY(configs_copy(field, arena));
    return LK_OK;
}

static lk_status options_copy(const lk_descriptor *descriptor, void **options, lk_arena *arena)
{
    char *copy = NULL;
    LK_TRY(lk_arena_alloc(arena, &copy, 1, descriptor->options_size));
    memcpy(copy, *options, descriptor->options_size);
    for (const lk_option *o = descriptor->options; o && o->name; o++)
        LK_TRY(field_copy(o, copy, arena));
    *options = copy;
    return LK_OK;
}

lk_status lk__config_copy(const lk_config *config, lk_arena *arena, lk_config *out)
{
    lk_config copy = *config;
    LK_TRY(text_copy(&copy.name, arena));
    LK_TRY(text_copy(&copy.tie, arena));
    LK_TRY(text_copy(&copy.tie_place, arena));
    if (copy.descriptor && copy.options)
        LK_TRY(options_copy(copy.descriptor, &copy.options, arena));
    *out = copy;
    return LK_OK;
}
