/* The two implementations of lk_hash_sum(), scalar and with vectors, apart so that a test can
 * compare them. */
#ifndef LK_BASE_PLACES_H
#define LK_BASE_PLACES_H

#include <lockstep/hash.h>

/** As lk_hash_sum(), an element at a time: the definition. */
uint64_t lk__places_sum(lk_dtype dtype, int64_t n, const void *data, int64_t place);

/** Whether this processor has the vectors for lk__places_sum_vectors(). */
bool lk__places_has_vectors(void);

/** As lk_hash_sum(), by vectors; only where lk__places_has_vectors(). */
uint64_t lk__places_sum_vectors(lk_dtype dtype, int64_t n, const void *data, int64_t place);

#endif /* LK_BASE_PLACES_H */
