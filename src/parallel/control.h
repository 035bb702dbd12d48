/* The control vector: the few numbers that all ranks exchange once in a step, and for each batch of an
 * evaluation.
 *
 * Each rank gives its votes (it cannot do the step, it wants the run to end, ...) and the losses of its
 * subtrees of the batch; each gets how many ranks voted for what, and the loss of the whole batch.  Where
 * several losses count (that of the experiment, terms of layers), each is added up for itself.  The
 * trainer makes one control and exchanges it for each batch, whatever became of the rank's own part.  All
 * calls are made on the thread of the rank: those of the step exchange, those of the run (src/train/run)
 * vote between steps.
 */
#ifndef LK_PARALLEL_CONTROL_H
#define LK_PARALLEL_CONTROL_H

#include <lockstep/coll.h>
#include <lockstep/tiles.h>

#include <stdbool.h>

typedef enum lk__vote {
    LK__VOTE_FAILED, /* this rank cannot do the batch */
    LK__VOTE_STOP,   /* it wants the run to end after the step */
    LK__VOTE_SAVED,  /* it has written its part of the checkpoint */
    LK__N_VOTES
} lk__vote;

/** How the shards of a batch are dealt to ranks: the range of rank r begins at first[r]; `first` NULL:
 * lk_range_split().  Where a loss is that of tiles, they are dealt to replicas, whose ranks have
 * the tiles of a tiling. */
typedef struct lk__deal {
    int64_t shards;
    const int64_t *first;    /* [parts + 1] */
    int parts, part;         /* ranks or replicas, and which this one is; parts 0: the ranks */
    const lk_tiling *tiling; /* NULL: a loss is that of whole samples */
    bool silent;             /* this rank adds zeros: a peer along features has the same loss */
} lk__deal;

/** A loss that is added up: what this rank has of it, and the sum. */
typedef struct lk__loss_sum {
    lk__deal deal;
    /* One for each subtree of this rank's range of shards, in order, and in each for every tile that it
     * has. */
    const double *own;
    double total; /* by the tree over the shards of the batch, then by that over tiles */
} lk__loss_sum;

typedef struct lk__control lk__control;

/**
 * Make a control of all ranks of `comm`, which is borrowed; NULL: of this rank alone.  `dtype`, f32 or
 * f64, is what losses are added up in; `n` losses at most are exchanged at once, of which a batch has up
 * to `max_slots` numbers: one for each shard, of each tile.
 *
 * Not collective.  Errors: LK_ENOMEM.
 */
lk_status lk__control_new(lk_comm *comm, lk_dtype dtype, int64_t n, int64_t max_slots,
                          lk__control **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__control_free(lk__control *c);

/** What this rank says in the next exchange; all votes are false again after it. */
void lk__control_vote(lk__control *c, lk__vote vote, bool yes);

/** How many ranks have voted so in the exchanges since this was last asked. */
int64_t lk__control_votes(lk__control *c, lk__vote vote);

/**
 * Exchange votes and `n` losses, whose totals all ranks then have.  The deal of a loss differs from one
 * exchange to the next only with the number of shards: as long as that is the same, `first`, `parts`, `part`
 * and the tiling are those of the exchange before.
 *
 * Collective, one allreduce; after it all ranks have come.  Errors: LK_EINVAL for more losses, or more
 * numbers of one, than the control was made for; those of communication.
 */
lk_status lk__control_exchange(lk__control *c, lk__loss_sum *loss, int64_t n) LK_NODISCARD;

#endif /* LK_PARALLEL_CONTROL_H */
