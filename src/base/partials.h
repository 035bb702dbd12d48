/* The tree of a sum as a stream: a binary counter of partial sums.
 *
 * What adds pieces one by one has one: a kernel of vectors, an optimizer of slices, a trainer of
 * shards.  It holds where the partial sums lie; the owner has the memory, and adds.  After n pieces,
 * level k holds a sum of 2^k pieces where bit k of n is set.  A new piece is carried upwards through
 * the levels that are full, the older sum always the first operand:
 *
 *     n = 3 (levels 0, 1)      level 0 + piece  ->  level 1 + that  ->  level 2
 *
 * and at the end the levels are joined from the lowest up.  That is the tree of reduce.h.  Where a sum
 * lies moves with it, so n pieces need as many buffers as there are sums at one time, log2(n + 1).
 *
 *     void *chain[LK__CHAIN];
 *     int n = lk__partials_chain(&p, piece, chain);
 *     if (n == 1)
 *         ... let p.level[0] be, or point to, a copy of the piece ...
 *     else
 *         ... chain[i] = chain[i] + chain[i - 1] for i = 1 ... n - 1 ...
 *     lk__partials_carry(&p);
 *
 * One thread at a time.
 */
#ifndef LK_BASE_PARTIALS_H
#define LK_BASE_PARTIALS_H

#include <stdint.h>

enum { LK__LEVELS = 63, LK__CHAIN = LK__LEVELS + 1 };

/** Begins as zeros.  Levels that hold no sum have a spare buffer, or NULL. */
typedef struct lk__partials {
    int64_t n; /* pieces so far */
    void *level[LK__LEVELS + 1];
} lk__partials;

/** The next piece and the sums that it completes, each older than the one before; returns how many. */
static inline int lk__partials_chain(const lk__partials *p, const void *piece,
                                     void *chain[LK__CHAIN])
{
    int full = __builtin_ctzll(~(unsigned long long)p->n);
    chain[0] = (void *)(uintptr_t)piece; /* which is only read */
    for (int k = 0; k < full; k++)
        chain[k + 1] = p->level[k];
    return full + 1;
}

/** The chain has been joined: its last is the sum of the next level. */
static inline void lk__partials_carry(lk__partials *p)
{
    int full = __builtin_ctzll(~(unsigned long long)p->n++);
    if (full > 0) {
        void *spare = p->level[full];
        p->level[full] = p->level[full - 1];
        p->level[full - 1] = spare;
    }
}

/** The sums that are left, each older than the one before; joined as a chain, the last is the sum of
 * all.  Returns how many; none: there was no piece. */
static inline int lk__partials_rest(const lk__partials *p, void *chain[LK__CHAIN])
{
    int n = 0;
    for (int k = 0; k < LK__LEVELS; k++)
        if (p->n >> k & 1)
            chain[n++] = p->level[k];
    return n;
}

#endif /* LK_BASE_PARTIALS_H */
