/* lk__wakeup: how a rank that has nothing to do sleeps, and is woken: an eventcount over a futex.
 *
 * Each rank owns one, in memory that the ranks of its node share (local/end.h, node.c).  Its owner waits
 * on it, on the thread that is the rank or on its progress thread; any other rank of the node notifies it,
 * from any thread.
 *
 *     owner                            who has something for it
 *     seen = epoch                     make it visible (a packet, a flag)
 *     waiting = 1                      fence
 *     look once more at everything     if waiting: waiting = 0, epoch += 1, wake
 *     sleep while epoch is seen
 *     waiting = 0
 *
 * Either the owner's last look sees what was made visible, or the other one sees it waiting: no wake is
 * lost.  One who has been notified does not count as waiting, although it may still have no core: the
 * next one need not notify it, for it will look at everything.  While the owner is awake, a notification
 * writes nothing: it reads a line that does not change.
 */
#ifndef LK_COMM_WAKEUP_H
#define LK_COMM_WAKEUP_H

#include "base/futex.h"

#include <stdbool.h>

typedef struct lk__wakeup {
    _Alignas(64) _Atomic uint32_t epoch;
    _Atomic uint32_t waiting;
    unsigned char
        alone[120]; /* lines of its own, and the next one, which processors fetch with it */
} lk__wakeup;

/** Say that the owner is about to wait; what `epoch` was, for lk__wakeup_wait().  From now on a
 * notification is a system call. */
static inline uint32_t lk__wakeup_prepare(lk__wakeup *w)
{
    uint32_t seen = atomic_load(&w->epoch);
    atomic_store(&w->waiting, 1);
    lk__fence(memory_order_seq_cst);
    return seen;
}

static inline void lk__wakeup_wait(lk__wakeup *w, uint32_t seen, int64_t ns)
{
    lk__futex_wait(&w->epoch, seen, ns);
}

/** Say that the owner does not wait, or no longer. */
static inline void lk__wakeup_cancel(lk__wakeup *w)
{
    atomic_store_explicit(&w->waiting, 0, memory_order_relaxed);
}

/** Whether its owner waits, or is about to. */
static inline bool lk__wakeup_is_waiting(const lk__wakeup *w)
{
    return atomic_load_explicit(&w->waiting, memory_order_relaxed);
}

/** lk__wakeup_notify() behind a fence that was made for several. */
static inline void lk__wakeup_notify_fenced(lk__wakeup *w)
{
    if (!w || !lk__wakeup_is_waiting(w) || !atomic_exchange(&w->waiting, 0))
        return;
    atomic_fetch_add(&w->epoch, 1);
    lk__futex_wake(&w->epoch);
}

/** After something was made visible to the owner.  NULL: it is on another node. */
static inline void lk__wakeup_notify(lk__wakeup *w)
{
    lk__fence(memory_order_seq_cst);
    lk__wakeup_notify_fenced(w);
}

#endif /* LK_COMM_WAKEUP_H */
