/* Ask for memory that will be needed later.
 *
 * Where a kernel goes through memory in tiles, the processor does not see by itself what comes next.
 */
#ifndef LK_KERNEL_AHEAD_H
#define LK_KERNEL_AHEAD_H

#include <stdint.h>

/** Ask for `bytes` bytes from `from` on to be in the second-level cache; in the first there is room for few
 * lines on their way. */
static inline void lk__ask(const void *from, int64_t bytes)
{
    enum { LINE = 64 };
    for (int64_t b = 0; b < bytes; b += LINE)
        __builtin_prefetch((const char *)from + b, 0, 2);
    /* Otherwise gcc sees no effect in a function that only asks, and drops its calls. */
    __asm__ volatile("");
}

#endif /* LK_KERNEL_AHEAD_H */
