/* What tensors hold, in a few numbers. */
#ifndef LK_CLI_NUMBERS_H
#define LK_CLI_NUMBERS_H

#include <lockstep/tensor.h>

/** Of the finite elements; NaN if there are none. */
typedef struct numbers {
    double min, max, mean;
    int64_t not_finite; /* elements that are infinite or no number */
} numbers;

lk_status numbers_of(const lk_tensor *t, numbers *out) LK_NODISCARD;

/** How two contiguous tensors of one shape differ. */
typedef struct difference {
    int64_t elements;          /* that differ */
    double absolute, relative; /* the largest; relative to the larger of two magnitudes */
} difference;

lk_status numbers_compare(const lk_tensor *a, const lk_tensor *b, difference *out) LK_NODISCARD;

#endif /* LK_CLI_NUMBERS_H */
