/* How much memory the machine has left, for code that uses more only if there is some: loaders that
 * keep a set in memory (data/keep.c), and shared memory of ranks (comm/shm.c). */
#ifndef LK_BASE_MEMORY_H
#define LK_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/** Bytes that the system says are available; INT64_MAX: it does not say. */
int64_t lk__memory_available(void);

/** Whether a limit is set on the memory of this process (ulimit -d, -v). */
bool lk__memory_is_limited(void);

#endif /* LK_BASE_MEMORY_H */
