/* Recipes: YAML files of other systems, with the tags, anchors and aliases that experiments do not have.
 *
 *     !obj:experiments.FitExperiment {
 *       backend: &be !obj:backends.Numpy {rng_seed: 0},
 *       model: !obj:models.MLP {backend: *be, num_epochs: 2},
 *     }
 *
 * A tree of scalars, lists and maps, each with its place.  What an alias stands for is in the tree once, and
 * each use points to it.  Files are not trusted: the limits of experiments hold (docs/reference/experiments.md), and
 * they count what an alias stands for each time it is used.
 */
#ifndef LK_RECIPE_H
#define LK_RECIPE_H

#include <lockstep/option.h>

LK_BEGIN_DECLS

typedef enum lk_recipe_type { LK_RECIPE_SCALAR, LK_RECIPE_LIST, LK_RECIPE_MAP } lk_recipe_type;

typedef struct lk_recipe_node lk_recipe_node;

/** An item of a list, or an entry of a map. */
typedef struct lk_recipe_entry lk_recipe_entry;
struct lk_recipe_entry {
    const char *key;      /* NULL in a list */
    int64_t line, column; /* of the key, of an alias, or of the item; from 1 */
    const lk_recipe_node *value;
    lk_recipe_entry *next;
};

struct lk_recipe_node {
    lk_recipe_type type;
    const char *class_name; /* of a map: what `!obj:` names, with its module; else NULL */
    const char *text;       /* of a scalar */
    bool quoted;            /* a scalar in quotes: never a number */
    int64_t line, column;   /* from 1 */
    int64_t n;              /* entries */
    lk_recipe_entry *first, *last;
    int64_t size;  /* values in it, itself included, and those of aliases each time */
    int64_t depth; /* lists and maps within each other, itself included */
};

/**
 * Read `n` bytes; `name` is for messages.  `*out` and all in it belong to the arena.
 *
 * Of tags only `!obj:MODULE.CLASS` before a map, or before nothing, which is then an empty map.
 *
 * Errors: LK_EINVAL with NAME:LINE:COLUMN; LK_ENOTSUP in a build without libyaml; LK_ENOMEM.
 */
LK_API lk_status lk_recipe_read(const char *name, const void *bytes, size_t n, lk_arena *arena,
                                const lk_recipe_node **out) LK_NODISCARD;

/** Read a file.  Errors: LK_EIO naming it; as lk_recipe_read(). */
LK_API lk_status lk_recipe_read_file(const char *path, lk_arena *arena,
                                     const lk_recipe_node **out) LK_NODISCARD;

/** The entry of this key of a map; NULL if there is none. */
LK_API const lk_recipe_entry *lk_recipe_find(const lk_recipe_node *map, const char *key);

LK_END_DECLS

#endif /* LK_RECIPE_H */
