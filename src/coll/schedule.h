/* A schedule: what one rank does in one collective call, written before it is run.
 *
 *     send, recv     are begun when they are reached
 *     wait           goes on when all sends and receives so far are complete
 *     join, copy     are done when they are reached
 *     finish         what remains of the operator after the last join (avg)
 *
 * Messages of a pair within one call arrive in the order they are written.  Memory of lk__schedule_room() lives until the call is complete.
 */
#ifndef LK_COLL_SCHEDULE_H
#define LK_COLL_SCHEDULE_H

#include "coll/coll.h"

/** Temporary memory, aligned to LK_ALIGN. */
lk_status lk__schedule_room(lk__schedule *s, int64_t bytes, void *out) LK_NODISCARD;

/** Send or receive `bytes` bytes (0: the header alone) to or from a rank of the communicator. */
lk_status lk__schedule_send(lk__schedule *s, int peer, const void *data,
                            int64_t bytes) LK_NODISCARD;
lk_status lk__schedule_recv(lk__schedule *s, int peer, void *data, int64_t bytes) LK_NODISCARD;

lk_status lk__schedule_wait(lk__schedule *s) LK_NODISCARD;

/** first = first op second, `count` elements of the call's dtype and operator. */
lk_status lk__schedule_join(lk__schedule *s, void *first, const void *second,
                            int64_t count) LK_NODISCARD;

lk_status lk__schedule_copy(lk__schedule *s, void *to, const void *from,
                            int64_t bytes) LK_NODISCARD;

lk_status lk__schedule_finish(lk__schedule *s, void *data, int64_t count) LK_NODISCARD;

/** From rank `root` to all, down a binomial tree: `bytes` of `data`. */
lk_status lk__schedule_bcast(lk__schedule *s, const lk__case *k, int root, void *data,
                             int64_t bytes) LK_NODISCARD;

/** A schedule for a case, empty; a request that runs it.  The caller owns it until it is started. */
lk_status lk__schedule_new(const lk__case *k, int algorithm, lk__schedule **out) LK_NODISCARD;

/** Begin; the request is the caller's, and releases the schedule. */
lk_status lk__schedule_start(lk__schedule *s, lk_request **out) LK_NODISCARD;

void lk__schedule_free(lk__schedule *s);

#endif /* LK_COLL_SCHEDULE_H */
