/* Parts of a vector in the shared area: each rank joins its own of all vectors, or copies those of all
 * others, on whichever thread makes progress.  For reduce_scatter_shared.c, allgather_shared.c and within.c;
 * c->counts and c->offsets say which are whose.
 */
#ifndef LK_COLL_PARTS_H
#define LK_COLL_PARTS_H

#include "coll/shm/area.h"

/** The sums of the own part come to c->sum[]; the caller sets c->program and ends the call. */
lk_status lk__parts_advance(lk__shm_call *c, bool *end) LK_NODISCARD;

/** The own part is c->in; those of the others come to c->out.  The caller ends the call. */
lk_status lk__gather_advance(lk__shm_call *c, bool *end) LK_NODISCARD;

#endif /* LK_COLL_PARTS_H */
