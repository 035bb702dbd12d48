/* Recipes as trees, from the events of libyaml.  `lockstep convert` reads them, on one thread.
 *
 * As in yaml.c the stack of open lists and maps is an array.  An alias makes an entry that points to the node
 * with that anchor, which must be complete: so there are no loops, and nothing is copied.  What a reader
 * walks over is limited by `size` and `depth`, which count aliases as what they stand for.
 */
#include "config/node.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/recipe.h>

#include <string.h>

const lk_recipe_entry *lk_recipe_find(const lk_recipe_node *map, const char *key)
{
    for (const lk_recipe_entry *e = map->first; e; e = e->next)
        if (e->key && strcmp(e->key, key) == 0)
            return e;
    return NULL;
}

#ifdef LK_HAVE_YAML
#    include "config/yaml_events.h"

enum { ANCHORS = 1000 };

struct anchor {
    const char *name;
    const lk_recipe_node *node;
};

struct reader {
    lk__yaml_events events;
    lk_arena *arena;
    lk_recipe_node *open[LK_YAML_DEPTH]; /* the lists and maps that are not complete */
    int depth;
    const char *key; /* without its value yet */
    lk__yaml_pos key_place;
    lk_recipe_node *root;
    int64_t nodes;
    struct anchor anchor[ANCHORS];
    int anchors;
};

/* What libyaml has of a node besides its content. */
struct marks {
    lk__yaml_pos place;
    const char *anchor, *tag;
};

static const struct anchor *anchor_find(const struct reader *r, const char *name)
{
    for (int i = r->anchors - 1; i >= 0; i--) /* a later one hides an earlier */
        if (strcmp(r->anchor[i].name, name) == 0)
            return &r->anchor[i];
    return NULL;
}

static lk_status anchor_add(struct reader *r, const struct marks *m, const lk_recipe_node *node)
{
    if (!m->anchor)
        return LK_OK;
    LK_CHECK_AT(r->anchors < ANCHORS, &m->place, "more than %d anchors (&)", ANCHORS);
    struct anchor *a = &r->anchor[r->anchors];
    LK_TRY(lk_arena_text(r->arena, m->anchor, strlen(m->anchor), &a->name));
    a->node = node;
    r->anchors++;
    return LK_OK;
}

/* The class of a tag `!obj:MODULE.CLASS`; NULL without a tag. */
static lk_status class_of(struct reader *r, const struct marks *m, lk_recipe_type type,
                          const char *text, const char **out)
{
    static const char obj[] = "!obj:";
    *out = NULL;
    if (!m->tag)
        return LK_OK;
    LK_CHECK_AT(strncmp(m->tag, obj, sizeof obj - 1) == 0, &m->place,
                "tag %.100s: only !obj:MODULE.CLASS is known", m->tag);
    const char *name = m->tag + sizeof obj - 1;
    size_t n = strlen(name);
    LK_CHECK_AT(n > 0 && name[n - 1] != '.', &m->place, "tag %.100s names no class", m->tag);
    LK_CHECK_AT(n <= LK_YAML_KEY, &m->place, "the name of a class has more than %d bytes",
                LK_YAML_KEY);
    LK_CHECK_AT(type == LK_RECIPE_MAP || (type == LK_RECIPE_SCALAR && !*text), &m->place,
                "tag %.100s stands before %s; a map of options belongs there", m->tag,
                type == LK_RECIPE_LIST ? "a list" : "a text");
    return LK_TRACE(lk_arena_text(r->arena, name, n, out));
}

/* `entry` of the innermost list or map; its node is complete, or open. */
static lk_status entry_add(struct reader *r, const lk_recipe_node *value, const lk__yaml_pos *at)
{
    lk_recipe_node *parent = r->open[r->depth - 1];
    lk_recipe_entry *e;
    LK_TRY(lk_arena_alloc(r->arena, &e, 1, sizeof *e));
    const lk__yaml_pos *place = r->key ? &r->key_place : at;
    *e = (lk_recipe_entry){r->key, place->line, place->column, value, NULL};
    r->key = NULL;
    if (parent->last)
        parent->last->next = e;
    else
        parent->first = e;
    parent->last = e;
    parent->n++;
    return LK_OK;
}

/* Count a complete node as part of the innermost list or map. */
static lk_status count(struct reader *r, const lk_recipe_node *node, const lk__yaml_pos *at)
{
    lk_recipe_node *parent = r->depth > 0 ? r->open[r->depth - 1] : NULL;
    if (!parent)
        return LK_OK;
    LK_CHECK_AT(r->depth + node->depth <= LK_YAML_DEPTH, at,
                "with what aliases (*) stand for, lists and maps lie within each other more than "
                "%d deep",
                LK_YAML_DEPTH);
    parent->size += node->size;
    LK_CHECK_AT(parent->size <= LK_YAML_NODES, at,
                "with what aliases (*) stand for, more than %d values", LK_YAML_NODES);
    if (parent->depth <= node->depth)
        parent->depth = node->depth + 1;
    return LK_OK;
}

static bool is_at_key(const struct reader *r)
{
    return r->depth > 0 && r->open[r->depth - 1]->type == LK_RECIPE_MAP && !r->key;
}

static lk_status take_key(struct reader *r, const yaml_event_t *e, const struct marks *m)
{
    const lk_recipe_node *map = r->open[r->depth - 1];
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    LK_CHECK_AT(!m->anchor && !m->tag, &m->place, "a key has an anchor or a tag");
    LK_CHECK_AT(n > 0 && n <= LK_YAML_KEY && !memchr(text, 0, n), &m->place,
                "a key must have 1 to %d bytes, none of them zero", LK_YAML_KEY);
    LK_CHECK_AT(strcmp(text, "<<") != 0, &m->place, "merge keys (<<) are not known");
    const lk_recipe_entry *first = lk_recipe_find(map, text);
    LK_CHECK_AT(!first, &m->place, "key \"%s\" is given twice, first in line %lld", text,
                (long long)(first ? first->line : 0));
    LK_CHECK_AT(map->n < LK_YAML_KEYS, &m->place, "a map has more than %d keys", LK_YAML_KEYS);
    LK_TRY(lk_arena_text(r->arena, text, n, &r->key));
    r->key_place = m->place;
    return LK_OK;
}

/* A new node in its place. */
static lk_status node_new(struct reader *r, lk_recipe_type type, const struct marks *m,
                          const char *text, lk_recipe_node **out)
{
    lk_recipe_node *node;
    const char *class_name;
    LK_CHECK_AT(++r->nodes <= LK_YAML_NODES, &m->place, "more than %d values", LK_YAML_NODES);
    LK_TRY(class_of(r, m, type, text, &class_name));
    LK_TRY(lk_arena_alloc(r->arena, &node, 1, sizeof *node));
    *node = (lk_recipe_node){.type = class_name ? LK_RECIPE_MAP : type,
                             .class_name = class_name,
                             .line = m->place.line,
                             .column = m->place.column,
                             .size = 1,
                             .depth = type != LK_RECIPE_SCALAR || class_name};
    if (r->depth > 0)
        LK_TRY(entry_add(r, node, &m->place));
    else
        r->root = node;
    LK_TRY(anchor_add(r, m, node));
    *out = node;
    return LK_OK;
}

static lk_status take_scalar(struct reader *r, const yaml_event_t *e, const struct marks *m)
{
    const char *value = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    lk_recipe_node *node;
    if (is_at_key(r))
        return take_key(r, e, m);
    LK_CHECK_AT(!memchr(value, 0, n), &m->place, "a text has a zero byte");
    LK_TRY(node_new(r, LK_RECIPE_SCALAR, m, value, &node));
    LK_TRY(lk_arena_text(r->arena, value, n, &node->text));
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return LK_TRACE(count(r, node, &m->place));
}

static lk_status take_start(struct reader *r, lk_recipe_type type, const struct marks *m)
{
    lk_recipe_node *node;
    LK_CHECK_AT(!is_at_key(r), &m->place, "a key must be a text");
    LK_CHECK_AT(r->depth < LK_YAML_DEPTH, &m->place,
                "lists and maps lie within each other more than %d deep", LK_YAML_DEPTH);
    LK_TRY(node_new(r, type, m, "", &node));
    r->open[r->depth++] = node;
    return LK_OK;
}

static lk_status take_end(struct reader *r)
{
    const lk_recipe_node *node = r->open[--r->depth];
    const lk__yaml_pos at = {r->events.name, node->line, node->column};
    return LK_TRACE(count(r, node, &at));
}

static lk_status take_alias(struct reader *r, const char *name, const lk__yaml_pos *at)
{
    const struct anchor *a = anchor_find(r, name);
    LK_CHECK_AT(a, at, "alias *%.100s: there is no anchor &%.100s before it", name, name);
    LK_CHECK_AT(!is_at_key(r), at, "a key must be a text");
    for (int i = 0; i < r->depth; i++)
        LK_CHECK_AT(r->open[i] != a->node, at,
                    "alias *%.100s stands within what &%.100s names: that has no end", name, name);
    LK_TRY(entry_add(r, a->node, at));
    return LK_TRACE(count(r, a->node, at));
}

static lk_status take_event(void *arg, const yaml_event_t *e)
{
    struct reader *r = arg;
    struct marks m = {.place = lk__yaml_events_place(&r->events, e->start_mark)};
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        LK_CHECK_AT(!r->root, &m.place, "a second document begins; one is allowed");
        return LK_OK;
    case YAML_ALIAS_EVENT: return take_alias(r, (const char *)e->data.alias.anchor, &m.place);
    case YAML_SCALAR_EVENT:
        m.anchor = (const char *)e->data.scalar.anchor;
        m.tag = (const char *)e->data.scalar.tag;
        return take_scalar(r, e, &m);
    case YAML_SEQUENCE_START_EVENT:
        m.anchor = (const char *)e->data.sequence_start.anchor;
        m.tag = (const char *)e->data.sequence_start.tag;
        return take_start(r, LK_RECIPE_LIST, &m);
    case YAML_MAPPING_START_EVENT:
        m.anchor = (const char *)e->data.mapping_start.anchor;
        m.tag = (const char *)e->data.mapping_start.tag;
        return take_start(r, LK_RECIPE_MAP, &m);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return take_end(r);
    default: return LK_OK;
    }
}

lk_status lk_recipe_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                         const lk_recipe_node **out)
{
    struct reader *r;
    *out = NULL;
    LK_TRY(lk_arena_alloc(arena, &r, 1, sizeof *r));
    r->arena = arena;
    LK_TRY(lk__yaml_events_open(name, bytes, n, &r->events));
    lk_status st = lk__yaml_events_each(&r->events, take_event, r);
    lk__yaml_events_close(&r->events);
    LK_TRY(st);
    LK_CHECK(r->root, LK_EINVAL, "%s: nothing is in it", name);
    *out = r->root;
    return LK_OK;
}

#else

lk_status lk_recipe_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                         const lk_recipe_node **out)
{
    (void)bytes, (void)n, (void)arena;
    *out = NULL;
    return LK_RAISE(LK_ENOTSUP, "%s: this build cannot read YAML: it was made without libyaml",
                    name);
}

#endif

lk_status lk_recipe_read_file(const char *path, lk_arena *arena, const lk_recipe_node **out)
{
    char *bytes;
    size_t n;
    *out = NULL;
    LK_TRY(lk__yaml_load(path, &bytes, &n));
    lk_status st = lk_recipe_read(path, bytes, n, arena, out);
    lk_free(bytes);
    return st;
}
