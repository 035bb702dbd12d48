/* The generator of rng.h itself, to compare it with another implementation's.
 *
 * A pure function: every thread may call it.
 */
#ifndef LK_PHILOX_H
#define LK_PHILOX_H

#include <lockstep/api.h>

#include <stdint.h>

LK_BEGIN_DECLS

/** `out` = Philox4x32 with 10 rounds of `counter` under `key`. */
LK_API void lk_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

LK_END_DECLS

#endif /* LK_PHILOX_H */
