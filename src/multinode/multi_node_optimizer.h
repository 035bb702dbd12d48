/* lk_multi_node_optimizer from inside: for multi_node_optimizer.c, which makes and updates it, and
 * multi_node_state.c, which has its state. */
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
    lk_comm *comm; /* its own; NULL: alone */
    bool helps;    /* the communicator has its helper for this */
    bool met;      /* a first mean was joined by a call that blocks */
    bool under_way;
    lk__mn_parts parts;
};

#endif /* LK_MULTINODE_MULTI_NODE_OPTIMIZER_H */
