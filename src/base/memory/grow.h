/* lk__grow(): make room for n elements in an array that grows by doubling, as vectors do elsewhere.
 * The caller owns the array. */
#ifndef LK_BASE_GROW_H
#define LK_BASE_GROW_H

#include <lockstep/status.h>

#include <stddef.h>
#include <stdint.h>

/**
 * Make an array of `*capacity` elements of `size` bytes have room for `n`; the elements stay, and
 * new ones are uninitialised.  `array` is the address of a pointer of any object type, NULL at first.
 *
 * Errors: as lk_alloc(); nothing has changed then.
 */
lk_status lk__grow(void *array, int64_t *capacity, int64_t n, size_t size) LK_NODISCARD;

#endif /* LK_BASE_GROW_H */
