/* lk__yaml_events: the events of libyaml for a text that is checked first, with errors that say where.
 * The readers of experiments (yaml.c) and of recipes (recipe.c) make one, on any thread, and are done
 * with it when they return.  Only in a build with libyaml.
 */
#ifndef LK_CONFIG_YAML_EVENTS_H
#define LK_CONFIG_YAML_EVENTS_H

#include "config/node.h"

#include <yaml.h>

typedef struct lk__yaml_events {
    yaml_parser_t parser;
    const char *name; /* for messages */
    const unsigned char *bytes;
} lk__yaml_events;

/**
 * Begin to read `n` bytes, which stay the caller's, as `name` and `bytes` do.  After success
 * lk__yaml_events_close() is due.
 *
 * Errors: LK_EINVAL for more than LK_YAML_SIZE bytes and for UTF-16 or UTF-32; LK_ENOMEM.
 */
lk_status lk__yaml_events_open(const char *name, const void *bytes, size_t n,
                               lk__yaml_events *out) LK_NODISCARD;

/** What a reader does with an event. */
typedef lk_status lk__yaml_event_fn(void *arg, const yaml_event_t *event);

/** Give each event to `take`, until one fails.  Errors: LK_EINVAL with NAME:LINE:COLUMN; LK_ENOMEM; those
 * of `take`. */
lk_status lk__yaml_events_each(lk__yaml_events *e, lk__yaml_event_fn *take, void *arg) LK_NODISCARD;

/** Where a mark stands. */
lk__yaml_pos lk__yaml_events_place(const lk__yaml_events *e, yaml_mark_t mark);

void lk__yaml_events_close(lk__yaml_events *e);

#endif /* LK_CONFIG_YAML_EVENTS_H */
