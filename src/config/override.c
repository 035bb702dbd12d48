/* KEY=VALUE: sets one value of an experiment from outside, in the tree of the file before it is bound. */
#include "base/failure.h"
#include "config/node.h"

#include <string.h>

/* The place of everything that an assignment makes. */
static void set_place(lk__yaml_node *node, const lk__yaml_pos *at)
{
    node->place = *at;
    node->key_place = *at;
    for (lk__yaml_node *child = node->first; child; child = child->next)
        set_place(child, at); /* no deeper than LK_YAML_DEPTH */
}

static lk_status read_value(const char *assignment, const char *value, const lk__yaml_pos *at,
                            lk_arena *arena, lk__yaml_node **out)
{
    lk_status st = lk__yaml_read("VALUE", value, strlen(value), arena, out);
    if (st == LK_EINVAL) /* its place within the value says little */
        lk__error_prefix("%s: ", assignment);
    LK_TRY(st);
    set_place(*out, at);
    return LK_OK;
}

/* The scalar NAME becomes {type: NAME}. */
static lk_status scalar_to_map(lk__yaml_node *node, lk_arena *arena)
{
    lk__yaml_node *type;
    LK_TRY(lk_arena_alloc(arena, &type, 1, sizeof *type));
    *type = *node;
    type->key = "type";
    type->key_place = node->place;
    node->type = LK__YAML_MAP;
    node->text = NULL;
    lk__node_append(node, type);
    return LK_OK;
}

/* The item of a list that `step` numbers. */
static lk_status find_item(const lk__yaml_node *list, const char *step, const lk__yaml_pos *at,
                           lk__yaml_node **out)
{
    size_t digits = strspn(step, "0123456789");
    int64_t i = 0;
    LK_CHECK_AT(digits > 0 && digits < 10 && !step[digits], at,
                "\"%s\" must be the number of an item, from 0", step);
    for (const char *c = step; *c; c++)
        i = 10 * i + (*c - '0');
    LK_CHECK_AT(i < list->n, at, "there is no item %lld, the list has %lld", (long long)i,
                (long long)list->n);
    for (*out = list->first; i > 0; i--)
        *out = (*out)->next;
    return LK_OK;
}

/* One step of the path from `node`: an entry of a map, made if it is missing, or an item. */
static lk_status take_step(lk__yaml_node *node, const char *step, const lk__yaml_pos *at,
                           lk_arena *arena, lk__yaml_node **out)
{
    LK_CHECK_AT(*step && strlen(step) <= LK_YAML_KEY, at,
                "KEY must be names with points between them");
    if (node->type == LK__YAML_LIST)
        return find_item(node, step, at, out);
    if (node->type == LK__YAML_SCALAR)
        LK_TRY(scalar_to_map(node, arena));
    *out = lk__node_find(node, step);
    if (*out)
        return LK_OK;
    LK_CHECK_AT(node->n < LK_YAML_KEYS, at, "a map has more than %d keys", LK_YAML_KEYS);
    LK_TRY(lk_arena_alloc(arena, out, 1, sizeof **out));
    **out = (lk__yaml_node){.type = LK__YAML_MAP, .key = step, .place = *at, .key_place = *at};
    lk__node_append(node, *out);
    return LK_OK;
}

/* `node` takes the content of `value`, and keeps its place among its siblings. */
static void replace(lk__yaml_node *node, const lk__yaml_node *value)
{
    lk__yaml_node *next = node->next;
    const char *key = node->key;
    *node = *value;
    node->next = next;
    node->key = key;
}

lk_status lk__node_override(lk__yaml_node *root, const char *assignment, lk_arena *arena)
{
    const char *equals = strchr(assignment, '='), *step;
    lk__yaml_pos at = {.name = NULL};
    lk__yaml_node *value, *node = root;
    LK_CHECK(equals, LK_EINVAL, "\"%s\" is no KEY=VALUE", assignment);
    LK_TRY(lk_arena_text(arena, assignment, strlen(assignment), &at.name));
    LK_CHECK_AT(equals[1], &at, "VALUE is missing; a text without letters is '\"\"'");
    LK_TRY(read_value(assignment, equals + 1, &at, arena, &value));
    int depth = 0;
    for (const char *from = assignment; from <= equals;) {
        size_t n = strcspn(from, ".=");
        LK_CHECK_AT(++depth < LK_YAML_DEPTH, &at, "KEY has %d names or more", LK_YAML_DEPTH);
        LK_TRY(lk_arena_text(arena, from, n, &step));
        LK_TRY(take_step(node, step, &at, arena, &node));
        from += n + 1;
    }
    replace(node, value);
    return LK_OK;
}
