/* Binding: each key of a map is looked up in the tables of options, and its value read by the type of
 * the row. experiment.c calls it for each section of a file.
 */
#include "config/bind.h"

#include <lockstep/extra/suggest.h>

#include <string.h>

const char *lk__node_text(const lk__yaml_node *node, char *buf)
{
    if (node->type == LK__YAML_SCALAR)
        snprintf(buf, LK_WHERE, "\"%.200s\"", node->text);
    else
        snprintf(buf, LK_WHERE, "%s", node->type == LK__YAML_LIST ? "a list" : "a map");
    return buf;
}

/* What a value must be. */
static const char *wanted(const lk_option *o)
{
    switch (o->type) {
    case LK_OPTION_FLAG: return "true or false";
    case LK_OPTION_INT: return "a whole number";
    case LK_OPTION_REAL: return "a number";
    case LK_OPTION_TEXT: return "a text";
    case LK_OPTION_INTS: return "a whole number or a list of them";
    case LK_OPTION_REALS: return "a number or a list of them";
    case LK_OPTION_NAMES: return "a name or a list of them";
    case LK_OPTION_CHOICE: return "a name";
    case LK_OPTION_CONFIG:
    case LK_OPTION_CONFIGS: break;
    }
    return "a name or a map with a type";
}

static bool is_number(const lk_option *o)
{
    return o->type == LK_OPTION_FLAG || o->type == LK_OPTION_INT || o->type == LK_OPTION_REAL ||
           o->type == LK_OPTION_INTS || o->type == LK_OPTION_REALS;
}

static bool is_list(const lk_option *o)
{
    return o->type == LK_OPTION_INTS || o->type == LK_OPTION_REALS || o->type == LK_OPTION_NAMES;
}

/* Whether a scalar has nothing in it: `key:` or `key: ~`. */
static bool is_null(const lk__yaml_node *node)
{
    return node->type == LK__YAML_SCALAR && !node->quoted &&
           (!*node->text || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

/* A failure of the library to read a value, reported with its position in the file. */
static lk_status refuse(lk_status st, const lk__yaml_node *node, const lk_option *o,
                        const char *what)
{
    if (st != LK_EINVAL)
        return st;
    return LK_RAISE_AT(&node->place, "%s of %s: %s", o->name, what, lk_error_message());
}

static lk_status check_scalar(const lk__yaml_node *node, const lk_option *o, const char *what)
{
    char text[LK_WHERE];
    LK_CHECK_AT(!is_null(node), &node->place, "%s of %s has no value", o->name, what);
    LK_CHECK_AT(node->type == LK__YAML_SCALAR && !(node->quoted && is_number(o)), &node->place,
                "%s of %s must be %s, not %s%s", o->name, what, wanted(o),
                node->type == LK__YAML_SCALAR ? "the text " : "", lk__node_text(node, text));
    return LK_OK;
}

static lk_status bind_list(const lk__yaml_node *list, const lk_option *o, const char *what,
                           void *fields)
{
    int *n = (int *)(void *)((char *)fields + o->offset); /* all lists begin with their length */
    *n = 0;
    for (const lk__yaml_node *item = list->first; item; item = item->next) {
        LK_TRY(check_scalar(item, o, what));
        LK_TRY(refuse(lk_option_add(o, fields, item->text), item, o, what));
    }
    return LK_OK;
}

static lk_status bind_value(const lk__yaml_node *node, const lk_option *o, const char *what,
                            void *fields, lk_arena *arena)
{
    void *field = (char *)fields + o->offset;
    if (o->type == LK_OPTION_CONFIG)
        return lk__bind_config(node, o->registry, NULL, arena, field);
    if (o->type == LK_OPTION_CONFIGS)
        return lk__bind_configs(node, o->registry, arena, field);
    if (node->type == LK__YAML_LIST && is_list(o))
        return bind_list(node, o, what, fields);
    LK_TRY(check_scalar(node, o, what));
    return refuse(lk_option_set(o, fields, node->text, arena), node, o, what);
}

static lk_status unknown_key(const lk__yaml_node *node, const char *what,
                             const lk__binding *binding, int n)
{
    lk_suggestion s = {.wanted = node->key};
    for (int i = 0; i < n; i++) {
        const lk_option *o = binding[i].key ? NULL : binding[i].descriptor->options;
        for (; o && o->name; o++)
            lk_suggest_consider(&s, o->name);
        if (binding[i].key)
            lk_suggest_consider(&s, binding[i].key);
    }
    bool near = lk_suggest_found(&s);
    return LK_RAISE_AT(&node->key_place, "unknown key \"%s\" of %s%s%s%s", node->key, what,
                       near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
}

/* One key of the map: an option of a struct, or a struct of its own. */
static lk_status bind_key(const lk__yaml_node *node, const char *what, const lk__binding *binding,
                          int n, lk_arena *arena)
{
    for (int i = 0; i < n; i++) {
        const lk__binding *b = &binding[i];
        if (b->key && strcmp(b->key, node->key) == 0) {
            lk__binding inner = {b->descriptor, b->fields, NULL};
            char name[LK_WHERE], text[LK_WHERE];
            snprintf(name, sizeof name, "%s.%s", what, b->key);
            LK_CHECK_AT(node->type == LK__YAML_MAP, &node->place, "%s must be a map, not %s", name,
                        lk__node_text(node, text));
            return lk__bind_map(node, NULL, name, false, &inner, 1, arena);
        }
        const lk_option *o = b->key ? NULL : lk_option_find(b->descriptor->options, node->key);
        if (o && strcmp(o->name, node->key) == 0)
            return bind_value(node, o, what, b->fields, arena);
    }
    return unknown_key(node, what, binding, n);
}

static lk_status check_required(const lk__yaml_node *map, const lk__yaml_pos *at, const char *what,
                                const lk__binding *b)
{
    for (const lk_option *o = b->descriptor->options; o && o->name; o++)
        LK_CHECK_AT(!(o->flags & LK_OPTION_REQUIRED) || (map && lk__node_find(map, o->name)),
                    map ? &map->place : at, "%s needs the key \"%s\"", what, o->name);
    return LK_OK;
}

lk_status lk__bind_map(const lk__yaml_node *map, const lk__yaml_pos *at, const char *what,
                       bool typed, const lk__binding *binding, int n, lk_arena *arena)
{
    for (int i = 0; i < n; i++)
        LK_TRY(lk_options_set_defaults(binding[i].descriptor, binding[i].fields, arena));
    for (const lk__yaml_node *child = map ? map->first : NULL; child; child = child->next)
        if (!typed || strcmp(child->key, "type") != 0)
            LK_TRY(bind_key(child, what, binding, n, arena));
    for (int i = 0; i < n; i++)
        if (!binding[i].key)
            LK_TRY(check_required(map, at, what, &binding[i]));
    return LK_OK;
}

/* What a config of a registry that is `named` has beside its options: bound like these. */
struct given {
    const char *name, *tie;
    bool stage;
};
static const lk_option given_options[] = {
    {.name = "name", .type = LK_OPTION_TEXT, .offset = offsetof(struct given, name)},
    {.name = "tie", .type = LK_OPTION_TEXT, .offset = offsetof(struct given, tie)},
    {.name = "stage", .type = LK_OPTION_FLAG, .offset = offsetof(struct given, stage)},
    {.name = NULL}};
static const lk_descriptor given_entry = {.options = given_options,
                                          .options_size = sizeof(struct given)};

/* Name, tie and stage, and where the tie was written. */
static lk_status given_take(const lk__yaml_node *node, const char *what, const struct given *given,
                            lk_arena *arena, lk_config *config)
{
    char where[LK_WHERE];
    LK_CHECK_AT(!given->name || *given->name, &node->place, "%s has an empty name", what);
    config->name = given->name;
    config->tie = given->tie;
    config->stage = given->stage;
    if (!given->tie)
        return LK_OK;
    const lk__yaml_node *tie = lk__node_find(node, "tie");
    LK_CHECK_AT(*given->tie, &tie->place, "%s has an empty tie", what);
    lk__place_text(&tie->place, where);
    return LK_TRACE(lk_arena_text(arena, where, strlen(where), &config->tie_place));
}

static lk_status find_descriptor(const lk__yaml_node *node, const lk_registry *registry,
                                 const lk_descriptor **out)
{
    char text[LK_WHERE];
    const lk__yaml_node *type = node->type == LK__YAML_MAP ? lk__node_find(node, "type") : node;
    LK_CHECK_AT(node->type != LK__YAML_LIST, &node->place,
                "%s must be a name or a map with a type, not %s", registry->name,
                lk__node_text(node, text));
    LK_CHECK_AT(type, &node->place, "%s needs the key \"type\"", registry->name);
    LK_CHECK_AT(!is_null(type), &type->place, "the type of %s has no value", registry->name);
    LK_CHECK_AT(type->type == LK__YAML_SCALAR, &type->place,
                "the type of %s must be a name, not %s", registry->name, lk__node_text(type, text));
    lk_status st = lk_descriptor_find(registry, type->text, out);
    if (st == LK_EINVAL)
        return LK_RAISE_AT(&type->place, "%s", lk_error_message());
    return st;
}

lk_status lk__bind_config(const lk__yaml_node *node, const lk_registry *registry,
                          const lk__binding *extra, lk_arena *arena, lk_config *out)
{
    lk_config config = {0};
    struct given given = {.name = NULL};
    char what[128];
    *out = config;
    LK_TRY(find_descriptor(node, registry, &config.descriptor));
    snprintf(what, sizeof what, "%s %s", registry->name, config.descriptor->name);
    LK_TRY(lk_arena_alloc(arena, &config.options, 1, config.descriptor->options_size));
    lk__binding binding[3] = {{config.descriptor, config.options, NULL}};
    int n = 1;
    if (registry->named)
        binding[n++] = (lk__binding){&given_entry, &given, NULL};
    if (extra)
        binding[n++] = *extra;
    LK_TRY(lk__bind_map(node->type == LK__YAML_MAP ? node : NULL, &node->place, what, true, binding,
                        n, arena));
    LK_TRY(given_take(node, what, &given, arena, &config));
    *out = config;
    return LK_OK;
}

lk_status lk__bind_configs(const lk__yaml_node *node, const lk_registry *registry, lk_arena *arena,
                           lk_configs *out)
{
    lk_configs list = {.n = node->type == LK__YAML_LIST ? node->n : 1};
    *out = (lk_configs){0};
    LK_TRY(lk_arena_alloc(arena, &list.item, list.n, sizeof *list.item));
    if (node->type != LK__YAML_LIST)
        LK_TRY(lk__bind_config(node, registry, NULL, arena, &list.item[0]));
    int64_t i = 0;
    for (const lk__yaml_node *item = node->type == LK__YAML_LIST ? node->first : NULL; item;
         item = item->next)
        LK_TRY(lk__bind_config(item, registry, NULL, arena, &list.item[i++]));
    *out = list;
    return LK_OK;
}
