/* An algorithm of a collective call: one file, one descriptor.
 *
 * `src/coll/<call>_<name>.c` ends with `const lk_coll lk_coll_<call>_<name>`; the build collects them
 * into lk_colls[].  Its opening comment draws the schedule and gives the cost.  It sees bytes, counts
 * and ranks; never a tensor, never a gradient.
 *
 * An algorithm is either a *schedule*, a short program of sends, receives, joins and copies that
 * schedule.c runs (see schedule.h), or brings its own `advance` (in shared memory).  Both never
 * block, so every algorithm is blocking and nonblocking at once.
 */
#ifndef LK_COLL_COLL_H
#define LK_COLL_COLL_H

#include "comm/comm.h"

#include <lockstep/coll.h>

/* A call with all that follows from its arguments. */
typedef struct lk__case {
    lk_comm *comm;
    lk_collective c; /* as given; pointers are valid during start() only */
    int rank, size;
    int64_t elem;         /* bytes of an element (of a pair for minloc, maxloc) */
    int64_t bytes;        /* count * elem */
    int64_t pieces;       /* at least 1 */
    const int64_t *first; /* [size + 1] where the runs begin */
    int n_nodes;          /* of this rank */
} lk__case;

/* The machine, as far as costs go: seconds for a message, for a byte of it, and for joining a byte.
 * Fixed numbers for each transport until a bench has measured better ones. */
typedef struct lk__rates {
    double alpha, beta, gamma;
} lk__rates;

typedef struct lk__schedule lk__schedule;

typedef struct lk_coll {
    lk_comm_call call;
    const char *name;    /* as the user says it: "tree" */
    const char *summary; /* one line */

    /* Whether it can do this call; if not, `*why` says what it needs. */
    bool (*eligible)(const lk__case *k, const char **why);

    /* Predicted seconds from start to end on the slowest rank. */
    double (*cost)(const lk__case *k, const lk__rates *r);

    /* Write this rank's part of the schedule.  Must use the same algorithmic choices on all ranks:
     * whatever they depend on is in the label, or follows from the communicator. */
    lk_status (*schedule)(const lk__case *k, lk__schedule *s);
} lk_coll;

extern const lk_coll *const lk_colls[];

/** Check the arguments of a call and fill in its case; `first` is room for size + 1 numbers. */
lk_status lk__case_make(lk_comm *comm, const lk_collective *c, int64_t *first,
                        lk__case *out) LK_NODISCARD;

/** The algorithm for a case: the named one, or the cheapest.  Returns its number from 1. */
lk_status lk__coll_select(const lk__case *k, int *number) LK_NODISCARD;

/** dst[i] = dst[i] op src[i] (`second` is later in the tree), i < count; canonical arithmetic. */
lk_status lk__fold_join(lk_fold fold, lk_dtype dtype, int64_t count, void *first,
                        const void *second) LK_NODISCARD;

/** After the last join: what avg still has to do with the sum over `pieces`. */
lk_status lk__fold_finish(lk_fold fold, lk_dtype dtype, int64_t count, int64_t pieces,
                          void *data) LK_NODISCARD;

/** Whether the operator is defined on the dtype. */
bool lk__fold_takes(lk_fold fold, lk_dtype dtype);

#endif /* LK_COLL_COLL_H */
