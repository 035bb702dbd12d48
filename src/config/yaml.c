/* YAML as a tree, from the events of libyaml.
 *
 * Allowed are one document of plain and quoted scalars, lists and maps with texts as keys.  Anchors,
 * aliases, tags, merge keys and second documents are not: none is needed for an experiment, and each
 * is a way to make a small file large.  The stack of open lists and maps is an array, so depth costs
 * no stack of ours.
 */
#include "config/node.h"

#include <lockstep/extra/alloc.h>

#include <errno.h>
#include <string.h>

#ifdef LK_HAVE_YAML
#    include "config/yaml_events.h"

struct reader {
    lk__yaml_events events;
    lk_arena *arena;
    lk__yaml_node *open[LK_YAML_DEPTH]; /* the lists and maps that are not complete */
    int depth;
    lk__yaml_node *key;  /* a key without its value yet */
    lk__yaml_node *root; /* the document's only node */
    int64_t nodes;
};

static lk_status node_new(struct reader *r, lk__yaml_type type, yaml_mark_t mark,
                          lk__yaml_node **out)
{
    lk__yaml_pos at = lk__yaml_events_place(&r->events, mark);
    LK_CHECK_AT(++r->nodes <= LK_YAML_NODES, &at, "more than %d values", LK_YAML_NODES);
    LK_TRY(lk_arena_alloc(r->arena, out, 1, sizeof **out));
    (*out)->type = type;
    (*out)->place = at;
    return LK_OK;
}

static lk_status check_no_extras(const lk__yaml_pos *at, const void *anchor, const void *tag)
{
    LK_CHECK_AT(!anchor, at, "anchors (&) are not allowed");
    LK_CHECK_AT(!tag, at, "tags (!) are not allowed");
    return LK_OK;
}

/* `node` as the next key of the innermost map. */
static lk_status take_key(struct reader *r, lk__yaml_node *node)
{
    const lk__yaml_node *map = r->open[r->depth - 1];
    LK_CHECK_AT(node->type == LK__YAML_SCALAR, &node->place, "a key must be a text");
    LK_CHECK_AT(*node->text, &node->place, "a key is empty");
    LK_CHECK_AT(node->quoted || strcmp(node->text, "<<") != 0, &node->place,
                "merge keys (<<) are not allowed");
    LK_CHECK_AT(strlen(node->text) <= LK_YAML_KEY, &node->place, "a key has more than %d bytes",
                LK_YAML_KEY);
    const lk__yaml_node *first = lk__node_find(map, node->text);
    LK_CHECK_AT(!first, &node->place, "key \"%s\" is given twice, first in line %lld", node->text,
                (long long)(first ? first->key_place.line : 0));
    LK_CHECK_AT(map->n < LK_YAML_KEYS, &node->place, "a map has more than %d keys", LK_YAML_KEYS);
    r->key = node;
    return LK_OK;
}

/* Put a new node where it belongs. */
static lk_status take_node(struct reader *r, lk__yaml_node *node)
{
    lk__yaml_node *parent = r->depth > 0 ? r->open[r->depth - 1] : NULL;
    if (!parent) {
        r->root = node;
        return LK_OK;
    }
    if (parent->type == LK__YAML_MAP && !r->key)
        return take_key(r, node);
    if (parent->type == LK__YAML_MAP) {
        node->key = r->key->text;
        node->key_place = r->key->place;
        r->key = NULL;
    }
    lk__node_append(parent, node);
    return LK_OK;
}

static lk_status take_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *value = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    lk__yaml_node *node;
    LK_TRY(node_new(r, LK__YAML_SCALAR, e->start_mark, &node));
    LK_TRY(check_no_extras(&node->place, e->data.scalar.anchor, e->data.scalar.tag));
    LK_CHECK_AT(!memchr(value, 0, n), &node->place, "a text has a zero byte");
    LK_TRY(lk_arena_text(r->arena, value, n, &node->text));
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return take_node(r, node);
}

static lk_status take_start(struct reader *r, const yaml_event_t *e, lk__yaml_type type)
{
    bool list = type == LK__YAML_LIST;
    lk__yaml_node *node;
    LK_TRY(node_new(r, type, e->start_mark, &node));
    LK_TRY(check_no_extras(&node->place,
                           list ? e->data.sequence_start.anchor : e->data.mapping_start.anchor,
                           list ? e->data.sequence_start.tag : e->data.mapping_start.tag));
    LK_TRY(take_node(r, node));
    LK_CHECK_AT(r->depth < LK_YAML_DEPTH, &node->place,
                "lists and maps lie within each other more than %d deep", LK_YAML_DEPTH);
    r->open[r->depth++] = node;
    return LK_OK;
}

static lk_status take_event(void *arg, const yaml_event_t *e)
{
    struct reader *r = arg;
    lk__yaml_pos at = lk__yaml_events_place(&r->events, e->start_mark);
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        LK_CHECK_AT(!r->root, &at, "a second document begins; one is allowed");
        return LK_OK;
    case YAML_ALIAS_EVENT: return LK_RAISE_AT(&at, "aliases (*) are not allowed");
    case YAML_SCALAR_EVENT: return take_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT: return take_start(r, e, LK__YAML_LIST);
    case YAML_MAPPING_START_EVENT: return take_start(r, e, LK__YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return LK_OK;
    default: return LK_OK;
    }
}

lk_status lk__yaml_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                        lk__yaml_node **out)
{
    *out = NULL;
    struct reader r = {.arena = arena};
    LK_TRY(lk__yaml_events_open(name, bytes, n, &r.events));
    lk_status st = lk__yaml_events_each(&r.events, take_event, &r);
    lk__yaml_events_close(&r.events);
    LK_TRY(st);
    LK_CHECK(r.root, LK_EINVAL, "%s: nothing is in it", name);
    *out = r.root;
    return LK_OK;
}

#else

lk_status lk__yaml_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                        lk__yaml_node **out)
{
    (void)bytes, (void)n, (void)arena;
    *out = NULL;
    return LK_RAISE(LK_ENOTSUP, "%s: this build cannot read YAML: it was made without libyaml",
                    name);
}

#endif

/* The whole file, at most one byte more than is allowed, in `*bytes`, which the caller frees. */
static lk_status read_all(const char *path, FILE *file, char **bytes, size_t *n)
{
    LK_TRY(lk_alloc(bytes, LK_YAML_SIZE + 1, 1));
    *n = fread(*bytes, 1, LK_YAML_SIZE + 1, file);
    LK_CHECK(!ferror(file), LK_EIO, "%s: cannot be read: %s", path, strerror(errno));
    return LK_OK;
}

lk_status lk__yaml_load(const char *path, char **bytes, size_t *n)
{
    *bytes = NULL;
    FILE *file = fopen(path, "rb");
    LK_CHECK(file, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    lk_status st = read_all(path, file, bytes, n);
    fclose(file);
    if (st != LK_OK) {
        lk_free(*bytes);
        *bytes = NULL;
    }
    return st;
}

lk_status lk__yaml_read_file(const char *path, lk_arena *arena, lk__yaml_node **out)
{
    char *bytes;
    const char *name;
    size_t n;
    *out = NULL;
    LK_TRY(lk_arena_text(arena, path, strlen(path), &name));
    LK_TRY(lk__yaml_load(path, &bytes, &n));
    lk_status st = lk__yaml_read(name, bytes, n, arena, out);
    lk_free(bytes);
    return st;
}
