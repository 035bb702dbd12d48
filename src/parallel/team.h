/* A team from inside. */
#ifndef LK_PARALLEL_TEAM_H
#define LK_PARALLEL_TEAM_H

#include "coll/program.h"
#include "parallel/control.h"

#include <lockstep/alloc.h>
#include <lockstep/dist.h>
#include <lockstep/parallel.h>

/* A range of the gradients that travels as one. */
typedef struct lk__bucket {
    int64_t first, n; /* elements of the slab; statistics are in that of the last parameters */
    int64_t slices;   /* parameters in it */
    int64_t waits;    /* of them whose gradients are not complete yet */
    lk_request *request;
} lk__bucket;

struct lk_team {
    lk_team_spec spec;
    lk_comm *comm; /* NULL: alone */
    int rank, size;
    int max_nodes; /* of this rank, in any batch */
    lk_dtype dtype;
    int64_t elements; /* of a slab of sums */
    int64_t params;   /* of them gradients, the first */
    int64_t joined;   /* gradients and, behind them, observed statistics: all but the loss */

    /* [max_nodes] slabs, and one more for the total if there are several. */
    lk_shared *shared;
    void *own; /* the same, where nothing is shared */
    lk_sums **sums;
    lk__program program; /* that joins shares of a batch of program.pieces */
    bool direct;         /* shares are joined where the sums lie */
    void *seen;          /* the statistics of a batch, where they are joined so */
    lk_shared **placed;
    int64_t n_placed, max_placed;

    int64_t pieces; /* of the batch */
    lk_range range; /* of them this rank's */
    int64_t *
        first; /* one block for each rank: where the range of each begins; NULL: lk_range_split() */
    lk_dist_batch batch; /* one block for each rank: of lk_team_batch() */
    lk_range node[LK_MAX_SUBTREES];
    int n_nodes;

    lk__bucket *bucket; /* from the last parameters to the first; NULL: gradients do not travel */
    int n_buckets, n_started;
    lk_tape *watched;
};

/** Cut the gradients into buckets, if the spec asks for it. */
lk_status lk__buckets_make(lk_team *team) LK_NODISCARD;
void lk__buckets_free(lk_team *team);

/** Begin a batch: nothing is complete. */
void lk__buckets_begin(lk_team *team);

/** Start what is left and wait for all. */
lk_status lk__buckets_end(lk_team *team) LK_NODISCARD;

/** Join elements [first, first + n) of all blocks into the total; with `request` begin to. */
lk_status lk__team_join(lk_team *team, int64_t first, int64_t n, const char *name,
                        lk_request **request) LK_NODISCARD;

/** How the pieces of the batch are dealt to ranks; in fast mode each rank is a piece. */
lk__deal lk__team_deal(const lk_team *team);

#endif /* LK_PARALLEL_TEAM_H */
