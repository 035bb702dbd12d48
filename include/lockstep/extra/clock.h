/* Clocks, in nanoseconds.  Nothing that is computed may depend on them. */
#ifndef LK_CLOCK_H
#define LK_CLOCK_H

#include <lockstep/api.h>

#include <stdint.h>

LK_BEGIN_DECLS

/** Time since some fixed moment; never goes back.  Not collective; thread safe. */
LK_API int64_t lk_clock_ns(void);

/** Processor time that the calling thread has used so far. */
LK_API int64_t lk_clock_thread_ns(void);

LK_END_DECLS

#endif /* LK_CLOCK_H */
