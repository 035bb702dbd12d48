/* allreduce of private buffers through the stages of the shared area (swap.c draws it).
 * allreduce_shared.c runs it for a call, on whichever thread makes progress for the rank.
 */
#ifndef LK_COLL_SWAP_H
#define LK_COLL_SWAP_H

#include "coll/shm/area.h"

/** All ranks have arrived. */
void lk__swap_begin(lk__shm_call *c);

/** As far as it goes; `*end`: it is complete on this rank. */
lk_status lk__swap_advance(lk__shm_call *c, bool *end) LK_NODISCARD;

#endif /* LK_COLL_SWAP_H */
