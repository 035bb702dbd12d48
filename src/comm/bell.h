/* Bells: how a rank is woken.
 *
 *     sleeper                          who has something for it
 *     heard = rung                     make it visible (a packet, a flag)
 *     asleep = 1                       fence
 *     look once more at everything     if asleep: asleep = 0, rung += 1, wake
 *     sleep while rung is heard
 *     asleep = 0
 *
 * Either the sleeper's last look sees what was made visible, or the other one sees it asleep: no wake
 * is lost.  One who has been rung counts as awake, although it may still wait for a core: the next
 * one need not ring, for it will look at everything.  While nobody sleeps, ringing writes nothing: it
 * reads a line that does not change.
 */
#ifndef LK_COMM_BELL_H
#define LK_COMM_BELL_H

#include "base/futex.h"

#include <stdbool.h>

typedef struct lk__bell {
    _Alignas(64) _Atomic uint32_t rung;
    _Atomic uint32_t asleep;
    unsigned char
        alone[120]; /* lines of its own, and the next one, which processors fetch with it */
} lk__bell;

/** What `rung` was, for lk__bell_sleep(); from now on a ring is a system call. */
static inline uint32_t lk__bell_drowse(lk__bell *b)
{
    uint32_t heard = atomic_load(&b->rung);
    atomic_store(&b->asleep, 1);
    lk__fence(memory_order_seq_cst);
    return heard;
}

static inline void lk__bell_sleep(lk__bell *b, uint32_t heard, int64_t ns)
{
    lk__futex_wait(&b->rung, heard, ns);
}

static inline void lk__bell_awake(lk__bell *b)
{
    atomic_store_explicit(&b->asleep, 0, memory_order_relaxed);
}

/** Whether its owner sleeps, or is about to. */
static inline bool lk__bell_asleep(const lk__bell *b)
{
    return atomic_load_explicit(&b->asleep, memory_order_relaxed);
}

/** lk__bell_ring() behind a fence that was made for several. */
static inline void lk__bell_ring_fenced(lk__bell *b)
{
    if (!b || !lk__bell_asleep(b) || !atomic_exchange(&b->asleep, 0))
        return;
    atomic_fetch_add(&b->rung, 1);
    lk__futex_wake(&b->rung);
}

/** After something was made visible to the owner of the bell.  NULL: it is on another node. */
static inline void lk__bell_ring(lk__bell *b)
{
    lk__fence(memory_order_seq_cst);
    lk__bell_ring_fenced(b);
}

#endif /* LK_COMM_BELL_H */
