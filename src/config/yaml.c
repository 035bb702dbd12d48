/* YAML as a tree, from the events of libyaml.
 *
 * Allowed are one document of plain and quoted scalars, lists and maps with texts as keys.  Anchors,
 * aliases, tags, merge keys and second documents are not: none is needed for an experiment, and each
 * is a way to make a small file large.  The stack of open lists and maps is an array, so depth costs
 * no stack of ours.
 */
#include "base/mark.h"
#include "config/node.h"

#include <lockstep/extra/alloc.h>

#include <errno.h>
#include <string.h>

#ifdef LK_HAVE_YAML
#    include <yaml.h>

struct reader {
    yaml_parser_t parser;
    const char *name;
    const unsigned char *bytes;
    lk_arena *arena;
    lk__yaml_node *open[LK_YAML_DEPTH]; /* the lists and maps that are not complete */
    int depth;
    lk__yaml_node *key;  /* a key without its value yet */
    lk__yaml_node *root; /* the document's only node */
    int64_t nodes;
};

static lk__yaml_pos place_of(const struct reader *r, yaml_mark_t mark)
{
    return (lk__yaml_pos){r->name, (int64_t)mark.line + 1, (int64_t)mark.column + 1};
}

/* Where byte number `offset` stands; columns count characters. */
static lk__yaml_pos place_of_byte(const struct reader *r, size_t offset)
{
    lk__yaml_pos at = {r->name, 1, 1};
    for (size_t i = 0; i < offset; i++) {
        if (r->bytes[i] == '\n') {
            at.line++;
            at.column = 1;
        } else if ((r->bytes[i] & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static lk_status parser_failed(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "unknown problem";
    LK_CHECK(p->error != YAML_MEMORY_ERROR, LK_ENOMEM, "no memory to read %s", r->name);
    if (p->error == YAML_READER_ERROR) {
        lk__yaml_pos at = place_of_byte(r, p->problem_offset);
        return LK_RAISE_AT(&at, "not valid UTF-8 text: %s", problem);
    }
    lk__yaml_pos at = place_of(r, p->problem_mark);
    return LK_RAISE_AT(&at, "not valid YAML: %s%s%s", problem, p->context ? " " : "",
                       p->context ? p->context : "");
}

static lk_status node_new(struct reader *r, lk__yaml_type type, yaml_mark_t mark,
                          lk__yaml_node **out)
{
    lk__yaml_pos at = place_of(r, mark);
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

static lk_status take_event(struct reader *r, const yaml_event_t *e)
{
    lk__yaml_pos at = place_of(r, e->start_mark);
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

static lk_status read_events(struct reader *r)
{
    for (bool more = true; more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e))
            return parser_failed(r);
        more = e.type != YAML_STREAM_END_EVENT;
        lk_status st = take_event(r, &e);
        yaml_event_delete(&e);
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__yaml_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                        lk__yaml_node **out)
{
    *out = NULL;
    LK_CHECK(n <= LK_YAML_SIZE, LK_EINVAL, "%s: more than %d bytes", name, LK_YAML_SIZE);
    int mark = lk__mark_bytes(bytes, n);
    LK_CHECK(mark >= 0, LK_EINVAL, "%s:1:1: the text is UTF-16 or UTF-32: save it as UTF-8", name);
    bytes = (const char *)bytes + mark;
    n -= (size_t)mark;
    struct reader r = {.name = name, .bytes = bytes, .arena = arena};
    LK_CHECK(yaml_parser_initialize(&r.parser), LK_ENOMEM, "no memory to read %s", name);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, bytes, n);
    lk_status st = read_events(&r);
    yaml_parser_delete(&r.parser);
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

lk_status lk__yaml_read_file(const char *path, lk_arena *arena, lk__yaml_node **out)
{
    lk_status st = LK_OK;
    char *bytes = NULL;
    const char *name;
    size_t n;
    *out = NULL;
    LK_TRY(lk_arena_text(arena, path, strlen(path), &name));
    FILE *file = fopen(path, "rb");
    LK_CHECK(file, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    LK_TRY_TO(done, read_all(path, file, &bytes, &n));
    LK_TRY_TO(done, lk__yaml_read(name, bytes, n, arena, out));
done:
    lk_free(bytes);
    fclose(file);
    return st;
}
