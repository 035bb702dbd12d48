/* Tiers: an allreduce as reduce-scatters along X, then Y, then Z, and allgathers back.
 *
 *     4 ranks, tiers 2x2            part of the vector that a rank holds, summed over whom
 *
 *     start      0: [0123] of 0     1: [0123] of 1     2: [0123] of 2     3: [0123] of 3
 *     X          0: [01]   of 0-1   1: [  23] of 0-1   2: [01]   of 2-3   3: [  23] of 2-3
 *     Y          0: [0]    of 0-3   1: [  2 ] of 0-3   2: [ 1]   of 0-3   3: [   3] of 0-3
 *     Y back     0: [01]            1: [  23]          2: [01]            3: [  23]
 *     X back     0: [0123] ...
 *
 * So a byte of the vector crosses the slow links of tier Y as seldom as possible, and every rank
 * carries its own slice across.  A tier is one or several *stages*: groups of ranks `stride` apart
 * that exchange parts.  `direct`: every member sends every other its part at once.  `halves`: log2
 * stages of pairs, distance 1, 2, 4.  `ring`: parts go round.  When the last stage is of pairs, they
 * exchange all that they hold and both join it: as many bytes, in one message less each.
 *
 * `shared`: the first tiers, if together they are the ranks of a node, are one stage in shared memory
 * (within.h): no messages, nothing copied on the way there if the vectors lie in a lk_shm.  Then nodes
 * need not be alike, nor their ranks follow each other (`any`): as many ranks of each node carry a part
 * across as the smallest has, and the others help to copy.
 *
 *     5 ranks, nodes [0 1 2] [3 4], tiers 2x2     X: 0, 1, 2 join for 0 and 1; 3, 4 for 3 and 4
 *                                                 Y: 0 with 3, 1 with 4       X back: 2 copies, too
 *
 * **The same bits.**  The ranks below a stage are neighbours, so what a member holds is a range of
 * pieces: the subtrees that lie in it, one vector each.  Vectors that are the two
 * halves of a subtree are joined, others stay apart until their other half comes.  With powers of two
 * this is one vector throughout.  `ring` adds in its own order and is not canonical.
 *
 * **f16 and bf16** (`half`).  Sums are f32, so what has been joined travels as f32, and the rest as it is:
 * the input up to the first stage, and the result back, rounded once.  Where ranks of a node join first,
 * 6 bytes an element cross between nodes in place of the 8 of f32; with one rank on each node 4.
 */
#ifndef LK_COLL_TIERS_H
#define LK_COLL_TIERS_H

#include "coll/shm/within.h"

#include <lockstep/topology.h>

typedef enum lk__way {
    LK_WAY_DIRECT,
    LK_WAY_HALVES,
    LK_WAY_RING,
    LK_WAY_MPI,
    LK_WAY_SHARED,
} lk__way;

/** "direct", "halves", "ring", "mpi", "shared". */
const char *lk__way_name(lk__way way);

struct lk__tiers {
    int n;
    bool any;  /* of any nodes: two tiers, those who carry and the nodes; X is shared */
    bool half; /* the call is of f16 or bf16, one piece for each rank */
    int size[LK_MAX_TIERS]; /* they multiply to the number of ranks, unless `any` */
    lk__way way[LK_MAX_TIERS];
    lk__rates rates[LK_MAX_TIERS]; /* of a message along the tier while all lines of it are busy */
    lk__rates uncut[LK_MAX_TIERS]; /* the same for algorithms that cut none */
    int64_t piece[LK_MAX_TIERS];   /* messages of more bytes are cut into such; 0: they are not */
};

enum { LK_MAX_STAGES = 20 * LK_MAX_TIERS };

/* A group of ranks that exchange parts: place + (i - me) * stride for i < size.  The place of a rank is
 * its number; of `any` nodes those who carry are numbered node by node, and the others have none. */
typedef struct lk__stage {
    int tier, size, stride, me; /* me is `size` of a rank that only helps */
    bool whole;                 /* the last one, of a pair: all of it on both */
    int64_t from, n;            /* the elements they share; each comes to hold a part of these */
} lk__stage;

/* An allreduce under way, from schedule to schedule; memory is from `room`. */
typedef struct lk__tiers_run {
    const lk__coll_args *k, *given; /* the call as it is joined, and as it was given */
    lk__coll_args wide;             /* of f16 and bf16 the former: in f32 */
    bool narrow;                    /* what is held are still f16 or bf16 */
    lk__tiers tiers;
    int n_stages;
    lk__stage stage[LK_MAX_STAGES];
    lk__held held;
    int place;
    int *rank_at; /* [places] of `any` nodes */
    lk__rooms rooms;
} lk__tiers_run;

/** The stages of a place (-1: none) for vectors of `count` elements, at most LK_MAX_STAGES; returns how
 * many. */
int lk__tiers_stages(const lk__tiers *tiers, int place, int64_t count, lk__stage *out);

/** Tiers whose first is shared: as many of them as are one node, 0 if none. */
int lk__tiers_shared(const lk__tiers *tiers);

/** The place of this rank; -1: none. */
int lk__tiers_place(const lk_comm *comm, const lk__tiers *tiers);

/** Who is where on `any` nodes: `rank_at` [places], with the help of `room` [2 x ranks of the world]. */
void lk__tiers_places(const lk_comm *comm, const lk__tiers *tiers, int *room, int *rank_at);

/** Part `i` of the elements of a stage: where it begins, and how many. */
void lk__stage_part(const lk__stage *g, int i, int64_t *from, int64_t *n);

/** The rank that is member `i` of a stage. */
int lk__stage_peer(const lk__tiers_run *run, const lk__stage *g, int i);

/** Who of the node has which elements of a shared stage. */
lk__cuts lk__stage_cuts(const lk__stage *g);

/** Of f16 and bf16: let elements [from, from + n) be what is held, in f32. */
lk_status lk__held_widen(lk__tiers_run *run, int64_t from, int64_t n, lk__schedule *s) LK_NODISCARD;

/** What comes from the other members of a stage, their vectors behind each other at `got`, and goes to them;
 * returns how many, one for each vector each way. */
int64_t lk__direct_parcels(const lk__tiers_run *run, const lk__stage *g, unsigned char *got,
                           lk__parcel *parcel);

/** Whether the call is of f16 or bf16 and this stage is all of it; write it, up to the result in `out`. */
bool lk__half_can(const lk__tiers_run *run, const lk__stage *g);
lk_status lk__half_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s) LK_NODISCARD;

/** Pass parcels between members, in messages that are not too large for the tier. */
lk_status lk__stage_pass(const lk__tiers_run *run, const lk__stage *g, const lk__parcel *parcel,
                         int64_t n, lk__schedule *s) LK_NODISCARD;

/** Begin, with run->rooms set: `k` and what these give must last until the last schedule is done. */
lk_status lk__tiers_begin(const lk__coll_args *k, const lk__tiers *tiers,
                          lk__tiers_run *run) LK_NODISCARD;

/** Write the reduce-scatter along a tier; call them from 0 up. */
lk_status lk__tiers_reduce(lk__tiers_run *run, int tier, lk__schedule *s) LK_NODISCARD;

/** After the last of them: this rank's part, as it will be in `out`. */
lk_status lk__tiers_finish(lk__tiers_run *run, lk__schedule *s) LK_NODISCARD;

/** Write the allgather along a tier; call them from the last down. */
lk_status lk__tiers_gather(lk__tiers_run *run, int tier, lk__schedule *s) LK_NODISCARD;

/** The rates of messages that may go along any tier, and are not cut. */
lk__rates lk__tiers_slowest(const lk__tiers *tiers);

/** Let the first tiers be `shared` where they are nodes and the areas are there (lk__within_can());
 * whether they are. */
bool lk__tiers_share(const lk__coll_args *k, lk__tiers *tiers);

/** Predicted seconds along one tier, there and back. */
double lk__tiers_cost(const lk__coll_args *k, const lk__tiers *tiers, int tier);

/** `halves` where that is possible and predicted to be faster than `direct`, for each tier that is not
 * shared. */
void lk__tiers_choose(const lk__coll_args *k, lk__tiers *tiers);

/** Measure the rates of tiers on `comm`, and whether messages are better cut.  Collective; all ranks get
 * the same. */
lk_status lk__tiers_measure(lk_comm *comm, lk__tiers *tiers) LK_NODISCARD;

/** The same for the case's communicator, kept with it.  Collective, and not counted as calls. */
lk_status lk__tiers_learn(const lk__coll_args *k) LK_NODISCARD;

/** The tiers of LK_TIERS, or those of the nodes; for a communicator, without talking.  `any`: nodes that
 * are not alike may be tiers, too. */
lk_status lk__tiers_of(const lk_comm *comm, bool any, lk__tiers *out) LK_NODISCARD;

#endif /* LK_COLL_TIERS_H */
