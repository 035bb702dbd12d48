/* lk_summary from inside: entries by name, sorted.  A program or its evaluator has one on each rank, adds to
 * it (summary.c) and joins it over ranks (summary_join.c, collective), on one thread.
 */
#ifndef LK_MULTINODE_SUMMARY_H
#define LK_MULTINODE_SUMMARY_H

#include "multinode/exact.h"

#include <lockstep/observe.h>

/* What was added under one name: a mean, or a metric, which has numbers. */
typedef struct lk__summary_entry {
    char name[LK_SUMMARY_NAME];
    lk__exact sum;
    int64_t count;
    const lk_metric *metric; /* NULL: a mean, or one that only other ranks have */
    lk_config config;
    const char *options; /* as they were given; NULL: none, or a config */
    lk_arena *arena;
    lk_tensor_type out, target;
    double *number;
    int64_t n_numbers; /* 0: a mean */
    double value;      /* once it is joined */
} lk__summary_entry;

struct lk_summary {
    lk__summary_entry *entry; /* in the order of names */
    int64_t n, room;
    bool joined;
};

/** The entry of this name; NULL if there is none. */
lk__summary_entry *lk__summary_find(const lk_summary *s, const char *name);

/** A new entry of a name that there is not, otherwise all zeros, at its place. */
lk_status lk__summary_insert(lk_summary *s, const char *name, lk__summary_entry **out) LK_NODISCARD;

/** Take the last steps back: the entry is there no more. */
void lk__summary_remove(lk_summary *s, lk__summary_entry *e);

#endif /* LK_MULTINODE_SUMMARY_H */
