/* lk__progress_thread: a thread that makes progress for a rank while the rank computes.  Off unless asked
 * for: lk_comm_set_progress(), LK_PROGRESS, or a part of the library that needs it (lk__progress_thread_for()).
 *
 *     rank                                     progress thread
 *     enter: lock                              waits for the lock
 *     any call: posts, polls, waits, naps
 *     leave: unlock; wake it if there is work  lock; poll and advance; unlock; wait on the wakeup
 *     computes                                 ... until no request is left, then sleep for good
 *
 * Everything that belongs to the one thread that is the rank (world.h) belongs to the thread that
 * holds the lock.  A rank holds it from the beginning of a public call to its end, naps included:
 * inside a call it makes progress itself.  The progress thread naps without it, on the same wakeup.
 */
#ifndef LK_COMM_PROGRESS_THREAD_H
#define LK_COMM_PROGRESS_THREAD_H

#include "comm/world.h"

#include <pthread.h>

struct lk__progress_thread {
    lk__world *w;
    pthread_t thread;
    pthread_mutex_t lock; /* recursive: public calls use others */
    pthread_cond_t work;
    int depth;    /* of calls that the rank is in */
    bool idle;    /* waits for `work` */
    bool napping; /* waits on the wakeup, or is about to: the rank leaves `waiting` as it is */
    bool stop;
};

/** Start the progress thread of a world; nothing if it has one.  Errors: LK_ENOTSUP where the transport
 * cannot be used by two threads, with the reason; LK_ENOMEM. */
lk_status lk__progress_thread_start(lk__world *w) LK_NODISCARD;

/** End it and wait for its end; nothing if there is none.  The rank is in no call. */
void lk__progress_thread_stop(lk__world *w);

/** Start it if LK_PROGRESS says so. */
lk_status lk__progress_thread_default(lk__world *w) LK_NODISCARD;

/** What LK_PROGRESS says.  Errors: LK_EINVAL unless it is 0, 1 or not there. */
lk_status lk__progress_thread_wanted(bool *out) LK_NODISCARD;

/** Have a progress thread for `what` ("double_buffering"), unless there is one: whether it was started, which
 * the caller then ends by lk_comm_set_progress().  Where it cannot be had, rank 0 logs why, and calls alone
 * progress. */
bool lk__progress_thread_for(lk_comm *comm, const char *what);

void lk__progress_thread_enter(lk__progress_thread *h);
void lk__progress_thread_leave(lk__progress_thread *h);

static inline lk__progress_thread *lk__enter(lk__world *w)
{
    if (w->progress_thread)
        lk__progress_thread_enter(w->progress_thread);
    return w->progress_thread;
}

static inline void lk__leave(lk__progress_thread **h)
{
    if (*h)
        lk__progress_thread_leave(*h);
}

/** Be inside the world from here to the end of the block; every public call is. */
#define LK_INSIDE(world) \
    __attribute__((cleanup(lk__leave), unused)) lk__progress_thread *inside_ = lk__enter(world)

#endif /* LK_COMM_PROGRESS_THREAD_H */
