/* Where a number comes among those of its row, the largest first: what counts as a hit. */
#ifndef LK_OPS_COMMON_PLACES_H
#define LK_OPS_COMMON_PLACES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/** Whether x, of class k, comes before `of`, of class `label`: it is larger, or equal and of a lower class.
 * NaN is larger than all numbers, and equal to NaN. */
static inline bool lk__comes_before(double x, int64_t k, double of, int64_t label)
{
    bool larger = isnan(x) ? !isnan(of) : x > of, equal = isnan(x) ? isnan(of) : x == of;
    return larger || (equal && k < label);
}

#endif /* LK_OPS_COMMON_PLACES_H */
