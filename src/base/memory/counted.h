/* How memory that does not come from lk_alloc(), such as the regions of a tape (region.c), enters
 * its counts and limits. */
#ifndef LK_BASE_COUNTED_H
#define LK_BASE_COUNTED_H

#include <lockstep/status.h>

#include <stdint.h>

/** `bytes` bytes are about to be taken from the system: an allocation like others, counted and made to fail
 * with them.  Errors: LK_ENOMEM, and nothing is counted. */
lk_status lk__counted_take(int64_t bytes) LK_NODISCARD;

/** They have been given back. */
void lk__counted_give(int64_t bytes);

#endif /* LK_BASE_COUNTED_H */
