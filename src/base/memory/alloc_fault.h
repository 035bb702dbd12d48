/* Fault injection for tests whose ranks are threads: only the calling thread, one rank, runs out of
 * memory. */
#ifndef LK_BASE_ALLOC_FAULT_H
#define LK_BASE_ALLOC_FAULT_H

#include <stdint.h>

/** Make the n-th allocation of this thread from now fail with LK_ENOMEM (1 is the next one), once; 0
 * switches it off.  Returns how many were left until the one that was to fail; 0: it has failed. */
int64_t lk__alloc_fail_here(int64_t n);

#endif /* LK_BASE_ALLOC_FAULT_H */
