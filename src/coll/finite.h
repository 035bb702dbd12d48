/* lk__finite: the search for NaN and infinities in what ranks give to a sum, where the communicator
 * asks for it (lk_comm_set_finite_check()). run.c and DDL make one around a call, on the rank's
 * thread; finite.c draws it. */
#ifndef LK_COLL_FINITE_H
#define LK_COLL_FINITE_H

#include "coll/coll.h"

/** Whether the numbers of this call are to be looked at. */
static inline bool lk__finite_asked(const lk__coll_args *k)
{
    return k->comm->finite && lk__call_reduces(k->c.call) &&
           (k->c.op == LK_REDUCE_SUM || k->c.op == LK_REDUCE_AVG);
}

/** Look at what this rank gives, and hear of the others.  Collective; waits for them. */
lk_status lk__finite_check(const lk__coll_args *k) LK_NODISCARD;

typedef struct lk__finite lk__finite;

/** Look at what this rank gives, and begin to hear of the others. */
lk_status lk__finite_start(const lk__coll_args *k, lk__finite **out) LK_NODISCARD;

/** The call's request ends only when all ranks have reported, and fails if a number was not finite.  Takes
 * over `f`; `r` NULL: the call could not be begun. */
void lk__finite_follow(lk__finite *f, lk_request *r);

#endif /* LK_COLL_FINITE_H */
