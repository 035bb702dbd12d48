/* lk__groups from inside: for groups.c, buckets.c and join.c, which the trainer calls through groups.h, and
 * for plan.c, which counts buckets and deals shards by the same rules. */
#ifndef LK_PARALLEL_GROUPS_INTERNAL_H
#define LK_PARALLEL_GROUPS_INTERNAL_H

#include "coll/program.h"
#include "dist/common/tiles.h"
#include "nn/model.h"
#include "parallel/groups.h"
#include "parallel/wire.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/plan.h>

/* A join: the ranks of `comm`, each with its range of `pieces`. */
typedef struct lk__level {
    lk_comm *comm;
    int64_t pieces;       /* 0: each rank is one */
    const int64_t *first; /* [P + 1] where the range of each begins; NULL: lk_range_split() */
    bool in_place;        /* this rank gives one vector, where the result comes */
} lk__level;

/* Who has added up what of a range. */
typedef enum lk__share {
    LK__BY_SAMPLES, /* each rank the samples it has where layers run by samples */
    LK__BY_REPLICA, /* each replica its samples, the same on all its ranks */
    LK__BY_LEAF,    /* each rank its tiles of its replica's samples */
    LK__SUMMED      /* no rank: the sum of leaves goes there */
} lk__share;

/* A range of the slab of an accumulator, and how it is joined: along one level, and leaves then over
 * tiles. */
typedef struct lk__grad_group {
    lk_range elements;
    int64_t here; /* of them those that the plan's rank has */
    lk__share share;
    bool joins; /* there are ranks to join it with */
    lk__level level;
} lk__grad_group;

/* A range of an accumulator's slab that is on its way to all ranks.  Where gradients travel as 16 bits, it is
 * two calls: theirs, and one of the statistics behind them. */
typedef struct lk__joining {
    lk_accumulator *result;
    lk_range elements;
    lk_request *request[2];
} lk__joining;

/* Double buffering: what the batch before has added up, on its way to all ranks or joined. */
typedef struct lk__pending_sums {
    lk_accumulator *result; /* NULL: there is none */
    int64_t shards;         /* of its batch */
    int set;                /* of accumulators, that it is of */
    bool under_way;
    bool joined_once;     /* a first one was joined by a call that blocks */
    bool helps;           /* the communicator has its progress thread for this */
    lk__joining *joining; /* [n_groups] */
} lk__pending_sums;

/* A range of the gradients that travels as one. */
typedef struct lk__bucket {
    const lk__grad_group *group;
    int64_t first, n; /* elements of its range; statistics are with the last parameters */
    int64_t slices;   /* parameters in it */
    int64_t waits;    /* of them whose gradients are not complete yet */
    lk__joining joining;
} lk__bucket;

struct lk__groups {
    const lk_plan *plan; /* all three are borrowed */
    const lk_mesh *mesh;
    lk_model *model;
    lk_comm *comm; /* of the ranks along data and space, borrowed; NULL: alone */
    int rank, size;
    int replica, replicas; /* this rank's along data, and how many there are */
    lk__grad_group *group; /* in the order of the slab */
    int n_groups;
    lk__leaf_part *leaf;      /* of the parameters that have leaves */
    int64_t n_leaf, leaf_sum; /* how many, and elements of all their sums */
    void *leaf_room;          /* of lk__tiles_join(), then the sums */
    lk_dtype dtype;
    lk__wire *wire; /* NULL: gradients travel as they are */

    /* An accumulator's slab is one array of `dtype`, gaps included: gradients, those of further uses of
     * shared parameters, statistics of the batch, the loss. */
    int64_t elements; /* of all of it */
    int64_t params;   /* of the gradients: they lie as the parameters do in theirs */
    int64_t joined;   /* of all before the loss: what ranks join */

    /* [most_microbatches] slabs, and one more for the total if there are several.  With double buffering
     * there are two sets of them, of which this batch has the one that is not pending. */
    lk_shm *shared;
    void *own; /* the same, where nothing is shared */
    lk_accumulator **accumulator, **all;
    lk__pending_sums pending;
    lk__program program; /* that joins shares of a batch of program.pieces */
    bool direct;         /* shares are joined where the accumulators lie */
    void *stats;         /* the statistics of a batch, where they are joined so */
    lk_shm **placed;     /* of lk__groups_share_slab() */
    int64_t n_placed, max_placed;

    int64_t shards; /* of the batch */
    lk_range range; /* of them this rank's */
    /* One micro-batch for each replica: where its range begins, and where that of each rank does where
     * layers run by samples; NULL: lk_range_split(). */
    int64_t *replica_first, *first;
    lk_dist_batch batch, tile_batch; /* of lk__groups_batch() and lk__groups_tile_batch() */
    lk_range microbatch[LK_MAX_SUBTREES];
    int n_microbatches;

    lk__bucket *bucket; /* from the last parameters to the first; NULL: gradients do not travel */
    int n_buckets, n_started;
    lk_tape *watched;
};

/** How the shards of a batch are dealt: the range of rank r begins at first[r], [ranks + 1] of them.
 * Returns whether that is lk_range_split(). */
bool lk__plan_deal(const lk_plan *plan, int64_t shards, int64_t *first);

/** How they are dealt where layers run by samples, to the ranks along data and space, [ranks + 1]: each
 * replica's range, which begins at replica[d], among its ranks. */
void lk__plan_deal_samples(const lk_plan *plan, int64_t shards, const int64_t *replica,
                           int64_t *first);

/** Cut the slab of an accumulator into ranges that are joined alike, in its order; all but the loss.  Levels
 * are left to those who join.  The caller owns `*out`. */
lk_status lk__ranges_make(const lk_plan *plan, const lk_model *model, lk__grad_group **out,
                          int *n) LK_NODISCARD;

/** Elements of the sums of all parameters whose gradients passes keep by tile. */
int64_t lk__leaf_sums_elements(const lk_plan *plan, const lk_model *model);

/** Whether the loss of term number `term` is one of tiles. */
static inline bool lk__plan_term_tiled(const lk_plan *plan, const lk_model *model, int64_t term)
{
    return plan->part && plan->part[model->net->term[term].instance].term;
}

/** Elements that the plan's rank has of state number `i`. */
int64_t lk__plan_state_elements(const lk_plan *plan, const lk_model *model, int64_t i);

/** Whose gradients passes keep by tile. */
lk__leaves lk__plan_leaves(const lk_plan *plan);

/** Cut the slices of a model, `joined` elements with the statistics, from the last to the first, into
 * buckets of at least `bytes`, and at the borders of groups; returns how many.  `out` may be NULL, and
 * then `g`: one group. */
int64_t lk__buckets_cut(const lk_model *model, int64_t joined, int64_t bytes, const lk__groups *g,
                        lk__bucket *out);

/** Cut the gradients into buckets, if the plan says so. */
lk_status lk__buckets_make(lk__groups *groups) LK_NODISCARD;

/** Backward has ended. */
void lk__backward_unwatch(lk__groups *groups);

/** Start what is left and wait for all. */
lk_status lk__buckets_end(lk__groups *groups) LK_NODISCARD;

/** Elements of an accumulator's slab that travel as the plan's wire says: all gradients. */
lk_status lk__wire_elements_plan(const lk_plan *plan, const lk_model *model,
                                 int64_t *out) LK_NODISCARD;

/** Change what gradients are planned to send to what they do on the wire: half the bytes, and statistics, if
 * there are some, in a call of their own.  `scales`: what ranks agree on before; no call, but of f16. */
lk_status lk__wire_transfers(const lk_plan *plan, const lk_model *model, lk_transfer *gradients,
                             lk_transfer *scales) LK_NODISCARD;

/** The sums over tiles of all parameters that have leaves, to where their gradients lie in `total`. */
lk_status lk__leaves_join(lk__groups *groups, lk_accumulator *total) LK_NODISCARD;

/** What double buffering needs; the communicator's progress thread is part of it, where it may be had. */
lk_status lk__pending_sums_make(lk__groups *groups) LK_NODISCARD;
void lk__pending_sums_free(lk__groups *groups);

/** Let what is pending come further, and wait for it. */
lk_status lk__pending_sums_advance(lk__groups *groups) LK_NODISCARD;
lk_status lk__pending_sums_finish(lk__groups *groups) LK_NODISCARD;

/** Join elements [first, first + n) of a group's range into the total; with `joining` begin to. */
lk_status lk__group_join(lk__groups *groups, const lk__grad_group *group, int64_t first, int64_t n,
                         lk__joining *joining) LK_NODISCARD;

/** Let it come further. */
lk_status lk__joining_advance(lk__joining *joining) LK_NODISCARD;

/** Wait until it is done; nothing if it has not begun. */
lk_status lk__joining_end(lk__groups *groups, lk__joining *joining) LK_NODISCARD;

#endif /* LK_PARALLEL_GROUPS_INTERNAL_H */
