/* allreduce where the vectors lie, for allreduce_chain.c, which joins them in another order; see
 * allreduce_shared.c, which has it.
 */
#ifndef LK_COLL_INPLACE_H
#define LK_COLL_INPLACE_H

#include "coll/shm_area.h"

/** What allreduce `shared` can do, and what it costs. */
bool lk__inplace_eligible(const lk__coll_args *k, const char **why);
double lk__inplace_cost(const lk__coll_args *k, const lk__rates *r);

/** Its steps, with the program of the call. */
lk_status lk__inplace_advance(lk_request *r) LK_NODISCARD;

#endif /* LK_COLL_INPLACE_H */
