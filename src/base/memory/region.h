/* lk__region: memory that grows in place: a range of addresses, of which the first bytes are
 * memory.
 *
 * A tape has its blocks in regions, so that what was free at the end of one becomes one with what is added.
 * Addresses cost nothing; only what has been asked for counts, as with lk_alloc(), and against the limits of
 * the process.  A region has no lock: one thread at a time.
 */
#ifndef LK_BASE_REGION_H
#define LK_BASE_REGION_H

#include <lockstep/status.h>

#include <stdint.h>

typedef struct lk__region {
    char *base;     /* aligned to a page */
    int64_t room;   /* bytes that it can grow to */
    int64_t bytes;  /* that are memory */
    void *mapped;   /* what the system gave */
    int64_t length; /* of that */
} lk__region;

/** A region without memory and with addresses for `room` bytes, or at least for `least` where the process may
 * not have so many.  Errors: LK_ENOMEM. */
lk_status lk__region_new(int64_t room, int64_t least, lk__region **out) LK_NODISCARD;

/** Make at least the first `bytes` bytes memory; those that are it already keep what is in them.  Errors:
 * LK_ENOMEM, and it is as it was. */
lk_status lk__region_grow(lk__region *region, int64_t bytes) LK_NODISCARD;

/** `region` is a lk__region; NULL is allowed. */
void lk__region_free(void *region);

#endif /* LK_BASE_REGION_H */
