/* lk__yaml_node: an experiment file as a tree of scalars, lists and maps, each with its position.
 * yaml.c makes it, override.c changes it, bind.c and experiment.c read it; once the
 * experiment is bound it is not read any more, and its arena, the experiment's, is freed with that.
 *
 * Nodes, and all texts in them, live in an arena.  Files are not trusted: what is allowed is a small
 * part of YAML under the limits below (yaml.c).
 */
#ifndef LK_CONFIG_NODE_H
#define LK_CONFIG_NODE_H

#include <lockstep/option.h>

enum {
    LK_YAML_SIZE = 1 << 20, /* bytes of a file */
    LK_YAML_NODES = 100000,
    LK_YAML_DEPTH = 32, /* lists and maps within each other */
    LK_YAML_KEY = 256,  /* bytes of a key */
    LK_YAML_KEYS = 1000 /* of a map */
};

typedef enum lk__yaml_type { LK__YAML_SCALAR, LK__YAML_LIST, LK__YAML_MAP } lk__yaml_type;

/** Where something stands: line and column count from 1; line 0: `name` says it all. */
typedef struct lk__yaml_pos {
    const char *name;
    int64_t line, column;
} lk__yaml_pos;

typedef struct lk__yaml_node lk__yaml_node;
struct lk__yaml_node {
    lk__yaml_type type;
    const char *text; /* of a scalar */
    bool quoted;      /* a scalar in quotes: never a number */
    const char *key;  /* of an entry of a map; else NULL */
    lk__yaml_pos place, key_place;
    int64_t n; /* entries of a list or map */
    lk__yaml_node *first, *last, *next;
};

/**
 * Read `n` bytes of YAML; `name` is for messages and lives as long as the nodes.
 *
 * Errors: LK_EINVAL with NAME:LINE:COLUMN; LK_ENOTSUP in a build without libyaml; LK_ENOMEM.
 */
lk_status lk__yaml_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                        lk__yaml_node **out) LK_NODISCARD;

/** The bytes of a file, at most one more than LK_YAML_SIZE, which the caller frees with lk_free().  Errors:
 * LK_EIO naming it; LK_ENOMEM. */
lk_status lk__yaml_load(const char *path, char **bytes, size_t *n) LK_NODISCARD;

/** Read a file.  Errors: LK_EIO naming it; as lk__yaml_read(). */
lk_status lk__yaml_read_file(const char *path, lk_arena *arena, lk__yaml_node **out) LK_NODISCARD;

/**
 * Set what KEY=VALUE says: KEY is a path of names and of numbers of list items, "model.0.filters",
 * VALUE a value in YAML.  Maps on the way are made; a scalar on the way, NAME, becomes {type: NAME}.
 *
 * Errors: LK_EINVAL naming the assignment; LK_ENOMEM.
 */
lk_status lk__node_override(lk__yaml_node *root, const char *assignment,
                            lk_arena *arena) LK_NODISCARD;

/** The entry of this name of a map; NULL if there is none. */
lk__yaml_node *lk__node_find(const lk__yaml_node *map, const char *key);

/** Make `child` the last entry of `parent`, a list or a map. */
void lk__node_append(lk__yaml_node *parent, lk__yaml_node *child);

enum { LK_WHERE = 256 };

/** "FILE:LINE:COLUMN" in `buf` of LK_WHERE bytes, a long name without its beginning; returns
 * `buf`. */
const char *lk__place_text(const lk__yaml_pos *place, char *buf);

/** Fail with LK_EINVAL at a place. */
#define LK_RAISE_AT(at, ...) \
    (lk__raise_at((at), __FILE__, __LINE__, __func__, __VA_ARGS__), (lk_status)LK_EINVAL)

void lk__raise_at(const lk__yaml_pos *at, const char *file, int line, const char *func,
                  const char *fmt, ...) LK_PRINTF(5, 6);

#define LK_CHECK_AT(cond, at, ...)               \
    do {                                         \
        if (!(cond))                             \
            return LK_RAISE_AT(at, __VA_ARGS__); \
    } while (0)

#endif /* LK_CONFIG_NODE_H */
