/* The helper: a thread that makes progress for a rank while the rank computes.  Off unless asked for.
 *
 *     rank                                     helper
 *     enter: lock                              waits for the lock
 *     any call: posts, polls, waits, naps
 *     leave: unlock; wake it if there is work  lock; poll and advance; unlock; sleep on the bell
 *     computes                                 ... until no request is left, then sleep for good
 *
 * Everything that belongs to the one thread that is the rank (world.h) belongs to whoever holds the
 * lock.  A rank holds it from the beginning of a public call to its end, naps included: inside a call
 * it makes progress itself.  The helper naps without it, on the same bell.
 */
#ifndef LK_COMM_HELPER_H
#define LK_COMM_HELPER_H

#include "comm/world.h"

#include <pthread.h>

struct lk__helper {
    lk__world *w;
    pthread_t thread;
    pthread_mutex_t lock; /* recursive: public calls use others */
    pthread_cond_t work;
    int depth;    /* of calls that the rank is in */
    bool idle;    /* waits for `work` */
    bool napping; /* sleeps on the bell, or is about to: the rank leaves `asleep` as it is */
    bool stop;
};

/** Start the helper of a world; nothing if it has one.  Errors: LK_ENOTSUP where the transport
 * cannot be used by two threads, with the reason; LK_ENOMEM. */
lk_status lk__helper_start(lk__world *w) LK_NODISCARD;

/** End it and wait for its end; nothing if there is none.  The rank is in no call. */
void lk__helper_stop(lk__world *w);

/** Start it if LK_PROGRESS says so. */
lk_status lk__helper_default(lk__world *w) LK_NODISCARD;

/** What LK_PROGRESS says.  Errors: LK_EINVAL unless it is 0, 1 or not there. */
lk_status lk__helper_wanted(bool *out) LK_NODISCARD;

/** Have a helper for `what` ("double_buffering"), unless there is one: whether it was started, and whoever asked
 * ends it by lk_comm_set_progress().  Where it cannot be had, rank 0 logs why, and calls alone progress. */
bool lk__helper_for(lk_comm *comm, const char *what);

void lk__helper_enter(lk__helper *h);
void lk__helper_leave(lk__helper *h);

static inline lk__helper *lk__enter(lk__world *w)
{
    if (w->helper)
        lk__helper_enter(w->helper);
    return w->helper;
}

static inline void lk__leave(lk__helper **h)
{
    if (*h)
        lk__helper_leave(*h);
}

/** Be inside the world from here to the end of the block; every public call is. */
#define LK_INSIDE(world) \
    __attribute__((cleanup(lk__leave), unused)) lk__helper *inside_ = lk__enter(world)

#endif /* LK_COMM_HELPER_H */
