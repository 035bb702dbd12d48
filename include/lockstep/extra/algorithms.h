/* The algorithms behind the collective calls of coll.h, to list, to name and to measure.
 *
 * `lockstep list`, `verify` and `bench allreduce` call these.
 */
#ifndef LK_ALGORITHMS_H
#define LK_ALGORITHMS_H

#include <lockstep/coll.h>

LK_BEGIN_DECLS

/** One algorithm of one call, for lists: "allreduce", "tree", "up a binomial tree ...". */
typedef struct lk_coll_info {
    const char *call, *name, *summary;
    const char *needs;   /* which calls it can do, "" if all */
    const char *alias;   /* the algorithm that this is another name of; NULL: none */
    bool benchmark_only; /* is there to measure against: never chosen, may give other bits */
} lk_coll_info;

/** Algorithm number `i` from 0 on, by call and name, other names behind; false behind the last.  Not
 * collective. */
LK_API bool lk_coll_list(int i, lk_coll_info *out);

/** The algorithm that lk_coll_run() would use for this call: its name.  Not collective. */
LK_API lk_status lk_coll_selected(lk_comm *comm, const lk_collective *c,
                                  const char **out) LK_NODISCARD;

/**
 * Compare the calls of the ranks, or do not: for measuring what that costs.  On by default.
 *
 * Not collective, but all ranks must do the same.  Off, calls in shared memory have no name and no
 * digest and are not shown on the board, so ranks that make different ones are not noticed; a rank
 * that compares notices one that does not.  Errors: LK_ENOMEM.
 */
LK_API lk_status lk_coll_set_checks(lk_comm *comm, bool on) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_ALGORITHMS_H */
