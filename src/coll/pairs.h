/* The smallest or largest with its index, for calls that ask for the value alone.
 *
 * allreduce_loc.c of dist calls it: the tape must know which rank has it, and reduces pairs where the
 * program said min or max.  Reports show what the program said, and no call of another kind is taken for
 * it.  Collective, on the rank's thread.
 */
#ifndef LK_COLL_PAIRS_H
#define LK_COLL_PAIRS_H

#include <lockstep/coll.h>

/** lk_allreduce() of pairs in place, by minloc or maxloc, shown as `op`: min, max, minloc or maxloc. */
lk_status lk__allreduce_pairs(lk_comm *comm, lk_value_index *pairs, int64_t count, lk_dtype dtype,
                              lk_reduce_op op, const char *name) LK_NODISCARD;

#endif /* LK_COLL_PAIRS_H */
