/* allreduce where the vectors lie, for those who do it in another order; see allreduce_shared.c. */
#ifndef LK_COLL_INPLACE_H
#define LK_COLL_INPLACE_H

#include "coll/arena.h"

/** What allreduce `shared` can do, and what it costs. */
bool lk__inplace_eligible(const lk__case *k, const char **why);
double lk__inplace_cost(const lk__case *k, const lk__rates *r);

/** Its steps, with the program of the call. */
lk_status lk__inplace_advance(lk_request *r) LK_NODISCARD;

#endif /* LK_COLL_INPLACE_H */
