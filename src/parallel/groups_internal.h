/* lk__groups from inside: for groups.c, buckets.c and join.c, which the trainer calls through groups.h, and
 * for plan.c, which counts buckets and deals shards by the same rules. */
#ifndef LK_PARALLEL_GROUPS_INTERNAL_H
#define LK_PARALLEL_GROUPS_INTERNAL_H

#include "coll/program.h"
#include "parallel/groups.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/plan.h>

enum { LK__GROUP_LEVELS = 4 };

/* One level of a join: the ranks of `comm`, each with its range of `pieces`. */
typedef struct lk__level {
    lk_comm *comm;
    int64_t pieces;       /* 0: each rank is one */
    const int64_t *first; /* [P + 1] where the range of each begins; NULL: lk_range_split() */
} lk__level;

/* A range of the slab of an accumulator, and how it is joined: along data first. */
typedef struct lk__grad_group {
    lk_range elements;
    int n_levels; /* 0: this rank has all of it */
    lk__level level[LK__GROUP_LEVELS];
} lk__grad_group;

enum { LK__GROUPS = 1 };

/* A range of the gradients that travels as one. */
typedef struct lk__bucket {
    const lk__grad_group *group;
    int64_t first, n; /* elements of its range; statistics are with the last parameters */
    int64_t slices;   /* parameters in it */
    int64_t waits;    /* of them whose gradients are not complete yet */
    lk_request *request;
} lk__bucket;

struct lk__groups {
    const lk_plan *plan; /* all three are borrowed */
    const lk_mesh *mesh;
    lk_model *model;
    lk_comm *comm; /* of the replicas, borrowed; NULL: alone */
    int rank, size;
    lk__grad_group group[LK__GROUPS];
    int n_groups;
    lk_dtype dtype;

    /* An accumulator's slab is one array of `dtype`, gaps included: gradients, those of further uses of
     * shared parameters, statistics of the batch, the loss. */
    int64_t elements; /* of all of it */
    int64_t params;   /* of the gradients: they lie as the parameters do in theirs */
    int64_t joined;   /* of all before the loss: what ranks join */

    /* [most_microbatches] slabs, and one more for the total if there are several. */
    lk_shm *shared;
    void *own; /* the same, where nothing is shared */
    lk_accumulator **accumulator;
    lk__program program; /* that joins shares of a batch of program.pieces */
    bool direct;         /* shares are joined where the accumulators lie */
    void *stats;         /* the statistics of a batch, where they are joined so */
    lk_shm **placed;     /* of lk__groups_share_slab() */
    int64_t n_placed, max_placed;

    int64_t shards; /* of the batch */
    lk_range range; /* of them this rank's */
    int64_t *
        first; /* one micro-batch for each rank: where the range of each begins; NULL: lk_range_split() */
    lk_dist_batch batch; /* one micro-batch for each rank: of lk__groups_batch() */
    lk_range microbatch[LK_MAX_SUBTREES];
    int n_microbatches;

    lk__bucket *bucket; /* from the last parameters to the first; NULL: gradients do not travel */
    int n_buckets, n_started;
    lk_tape *watched;
};

/** How the shards of a batch are dealt: the range of rank r begins at first[r], [ranks + 1] of them.
 * Returns whether that is lk_range_split(). */
bool lk__plan_deal(const lk_plan *plan, int64_t shards, int64_t *first);

/** How many buckets of at least `bucket` bytes a model's gradients are, `joined` elements with the
 * statistics. */
int64_t lk__buckets_count(const lk_model *model, int64_t joined, int64_t bucket);

/** Cut the gradients into buckets, if the plan says so. */
lk_status lk__buckets_make(lk__groups *groups) LK_NODISCARD;
void lk__buckets_free(lk__groups *groups);

/** Begin a batch: nothing is complete. */
void lk__buckets_begin(lk__groups *groups);

/** Start what is left and wait for all. */
lk_status lk__buckets_end(lk__groups *groups) LK_NODISCARD;

/** Join elements [first, first + n) of a group's range into the total, along its first level; with
 * `request` begin to. */
lk_status lk__group_join(lk__groups *groups, const lk__grad_group *group, int64_t first, int64_t n,
                         lk_request **request) LK_NODISCARD;

/** The same along the other levels, behind the first. */
lk_status lk__group_join_further(lk__groups *groups, const lk__grad_group *group, int64_t first,
                                 int64_t n) LK_NODISCARD;

#endif /* LK_PARALLEL_GROUPS_INTERNAL_H */
