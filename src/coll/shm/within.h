/* Within the node: parts of a schedule that its ranks do in shared memory.
 *
 *     reduce   the ranks of each node join their vectors, each its own part of them
 *     gather   they copy what each has of the result
 *
 * So an algorithm for several nodes sends messages between nodes only.  What the ranks of a node have
 * of the fixed tree is joined as far as it goes, wherever they are in it: several vectors remain where
 * the other halves are on other nodes.
 */
#ifndef LK_COLL_WITHIN_H
#define LK_COLL_WITHIN_H

#include "coll/schedule.h"
#include "coll/shm/area.h"

/* The vectors that a rank holds, by subtree; all have the elements [from, from + n). */
typedef struct lk__held {
    int n_vectors;
    lk_range node[LK_MAX_SUBTREES];
    unsigned char *vector[LK_MAX_SUBTREES];
    bool ours[LK_MAX_SUBTREES]; /* may be written */
    int64_t from, n;
} lk__held;

/* Memory for what is held, until the call is complete. */
typedef struct lk__rooms {
    lk_status (*room)(void *context, int64_t bytes, void *out);
    void *context;
} lk__rooms;

/* Which elements of the vector are whose: [from[i], from[i] + n[i]) of the i-th rank of this node. */
typedef struct lk__cuts {
    int64_t from[LK_SHM_AREA_RANKS], n[LK_SHM_AREA_RANKS];
} lk__cuts;

/** Whether the ranks of every node could share memory: some have company, none has too much. */
bool lk__within_fits(const lk_comm *comm);

/** Make the areas if the call is blocking, they are wanted and not there.  Collective, and not counted
 * as a call; where memory cannot be shared nothing happens. */
lk_status lk__within_open(const lk__coll_args *k) LK_NODISCARD;

/** Whether the parts below can be written: the areas are there, and no node has too many subtrees.
 * The same on all ranks. */
bool lk__within_can(const lk__coll_args *k);

/** The subtrees that a node of the communicator (lk__world.node) has when its ranks have
 * joined theirs, at most LK_PROGRAM_DEPTH; returns how many. */
int lk__within_subtrees(const lk__coll_args *k, int node, lk_range *out);

/** Join what the ranks of this node give: `out` is what this rank then holds, its first vector at its
 * place in the result. */
lk_status lk__within_reduce(const lk__coll_args *k, lk__schedule *s, const lk__cuts *cuts,
                            const lk__rooms *rooms, lk__held *out) LK_NODISCARD;

/** Each has its own elements of the result at their place: all get all. */
lk_status lk__within_gather(const lk__coll_args *k, lk__schedule *s,
                            const lk__cuts *cuts) LK_NODISCARD;

/** Predicted seconds there and back, for the ranks of the largest node. */
double lk__within_cost(const lk__coll_args *k);

#endif /* LK_COLL_WITHIN_H */
