/* Memory that the ranks of a node share: parts, flags, and what algorithms in it need.
 *
 *     page   0              1 ...                      +5 pages
 *          │ header │ part of intra rank 0 │ stagger │ part of intra rank 1 │ stagger │ ...
 *
 * A lk_shm is made by all ranks of a communicator; those on one node share one block, in which
 * each has a part of its own, zeroed, on pages that its owner touched first.  Parts begin at a page,
 * and no two begin a multiple of a large power of two apart (the stagger): equal offsets of several
 * parts would otherwise compete for the same ways of the caches.
 *
 * Rules that decide the speed of algorithms in here:
 *   - flags and data that different ranks write never share 128 bytes;
 *   - a line that was read by another rank is expensive to store to.  Either the reader stores to it
 *     as well (load and store in one pass), or the writer uses non-temporal stores;
 *   - a flag only grows.  Who posts it has written the data before, who sees it reads them after.
 *
 * An algorithm never blocks: when a flag has not been reached it sets request.peer to the world rank
 * it waits for and returns from advance().  lk__wait_any() then polls, waits on the rank's wakeup
 * (lk__flag_post() rings it), keeps the deadline and reports.
 *
 * On `local` the block is plain memory.  Between processes it is a memfd, which has no name in any
 * file system, mode 0600, and is gone with the last process that has it: nothing is left behind after
 * a kill at any moment.  The others open it through /proc, and know it by a random number.
 */
#ifndef LK_COMM_SEGMENT_H
#define LK_COMM_SEGMENT_H

#include "comm/comm.h"

enum { LK_PAGE = 4096, LK_STAGGER = 5 * LK_PAGE, LK_LINES = 128 };

/* A counter with lines of its own. */
typedef struct lk__flag {
    _Alignas(LK_LINES) _Atomic uint64_t value;
} lk__flag;

/* One rank's part. */
typedef struct lk__part {
    unsigned char *data; /* as seen from here */
    int64_t bytes;
    int world_rank;
} lk__part;

struct lk_shm {
    lk_shm *next; /* of the world's list */
    lk__world *w;
    uint32_t context; /* with `number` the same for all ranks, and never used again */
    int64_t number;
    int n, me; /* ranks of the communicator on this node; this one among them */
    lk__shm_block block;
    lk__part part[]; /* [n] by intra rank */
};

/** The shared memory whose part of this rank holds [data, data + bytes); NULL if none does. */
lk_shm *lk__shared_find(lk__world *w, const void *data, int64_t bytes);

/** The one that another rank means by context and number; NULL if it is not (or no longer) there. */
lk_shm *lk__shared_get(lk__world *w, uint32_t context, int64_t number);

/** Whether `flag` is at least `value`; then what was written before it was posted can be read. */
static inline bool lk__flag_reached(lk__flag *flag, uint64_t value)
{
    return atomic_load_explicit(&flag->value, memory_order_acquire) >= value;
}

/** Post a flag, and wake the ranks of `s` that sleep. */
static inline void lk__flag_post(lk_shm *s, lk__flag *flag, uint64_t value)
{
    s->w->n_posts++;
    atomic_store_explicit(&flag->value, value, memory_order_release);
    for (int i = 0; i < s->n; i++)
        if (i != s->me)
            lk__wakeup_notify(s->w->wakeup[s->part[i].world_rank]);
}

/** The same when only intra rank `to` can be waiting for it. */
static inline void lk__flag_post_to(lk_shm *s, int to, lk__flag *flag, uint64_t value)
{
    s->w->n_posts++;
    atomic_store_explicit(&flag->value, value, memory_order_release);
    lk__wakeup_notify(s->w->wakeup[s->part[to].world_rank]);
}

/**
 * After the digest of a peer's call (lk__label_roll() of its label) came out different from ours:
 * LK_EMISMATCH, which names both calls.  `label` is this rank's; the peer is on this node.
 */
lk_status lk__shared_disagree(lk_comm *comm, const lk__label *label, int world_rank) LK_NODISCARD;

#endif /* LK_COMM_SEGMENT_H */
