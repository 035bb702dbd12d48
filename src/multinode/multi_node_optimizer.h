/* lk_multi_node_optimizer from inside: for multi_node_optimizer.c, which makes and updates it,
 * multi_node_options.c and multi_node_state.c, which has its state. */
#ifndef LK_MULTINODE_MULTI_NODE_OPTIMIZER_H
#define LK_MULTINODE_MULTI_NODE_OPTIMIZER_H

#include "multinode/mean.h"

/* What is kept as numbers: counters, and whether something is there. */
enum { LK__MN_STEPS, LK__MN_BROADCAST, LK__MN_ACCUMULATED, LK__MN_PENDING, LK__MN_NUMBERS };

/* What belongs to one actual optimizer. */
typedef struct lk__mn_parts {
    lk_optimizer *actual;
    lk__mean mean;
    /* accumulate > 1: the sum of n g here, of which tensors, and of how many samples. */
    lk_slab *sums;
    uint8_t *has; /* [slices] */
    int64_t samples;
    /* Double buffering: what travels, or the mean, and of which tensors. */
    lk_slab *pending;
    uint8_t *pending_has; /* [slices] */
    bool *flags;          /* [2 * slices] room */
    int64_t number[LK__MN_NUMBERS];
} lk__mn_parts;

struct lk_multi_node_optimizer {
    lk_arena *arena;
    lk_multi_node_options options;
    lk_comm *comm;    /* its own; NULL: alone */
    bool helps;       /* the communicator has its progress thread for this */
    bool joined_once; /* a first mean was joined by a call that blocks */
    bool under_way;
    lk__mn_parts parts;
};

/* Its options as the caller gave them: a struct, or if that is NULL a text. */
typedef struct lk__mn_settings {
    const lk_multi_node_options *options;
    const char *text;
} lk__mn_settings;

/** Take the options, which are to be the same on all ranks.  Collective; errors as
 * lk_multi_node_optimizer_new(). */
lk_status lk__mn_options_take(lk_multi_node_optimizer *o, lk_comm *comm,
                              const lk__mn_settings *settings) LK_NODISCARD;

#endif /* LK_MULTINODE_MULTI_NODE_OPTIMIZER_H */
