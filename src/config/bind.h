/* lk__binding: a struct of options and its table, to be filled from the nodes of an experiment file.
 * experiment.c and phases.c have them on the stack, while lk_experiment_read() runs, on its thread; what is
 * filled in lives in the experiment's arena.
 */
#ifndef LK_CONFIG_BIND_H
#define LK_CONFIG_BIND_H

#include "config/node.h"

/** A struct to fill. */
typedef struct lk__binding {
    const lk_descriptor *descriptor; /* its table */
    void *fields;
    const char *key; /* its options are in the map of this key; NULL: in the map itself */
} lk__binding;

/**
 * Fill `n` structs from one map: defaults first, then what the map says.  `what` names the thing in
 * messages, such as "layer conv"; a key "type" is passed over if `typed`.  `map` NULL: defaults alone.
 *
 * Errors: LK_EINVAL at the place of an unknown key, a wrong value, or the map that lacks a required
 * option (`at`, if there is no map); LK_ENOMEM.
 */
lk_status lk__bind_map(const lk__yaml_node *map, const lk__yaml_pos *at, const char *what,
                       bool typed, const lk__binding *binding, int n, lk_arena *arena) LK_NODISCARD;

/** Read a config of a registry: `NAME`, or `{type: NAME, option: value, ...}`.  `extra`, unless NULL, is
 * a struct that takes options from the same map. */
lk_status lk__bind_config(const lk__yaml_node *node, const lk_registry *registry,
                          const lk__binding *extra, lk_arena *arena, lk_config *out) LK_NODISCARD;

/** Read a list of entries; one entry alone is a list of one. */
lk_status lk__bind_configs(const lk__yaml_node *node, const lk_registry *registry, lk_arena *arena,
                           lk_configs *out) LK_NODISCARD;

/** "a list", "a map", or the text of a scalar in quotes, in `buf` of LK_WHERE bytes. */
const char *lk__node_text(const lk__yaml_node *node, char *buf);

#endif /* LK_CONFIG_BIND_H */
