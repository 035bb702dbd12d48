/* Exact sums: of any doubles, in any order, on any number of ranks the same bits.
 *
 * A sum is one whole number of 2176 bits in units of 2^-1074, the smallest double, as digits of 32 bits;
 * all are below 2^32 and not negative but the highest, which has the sign.  Nothing is rounded until
 * lk__exact_value().  Sums of ranks are added digit by digit: lk_allreduce() of the LK_EXACT_NUMBERS,
 * then lk__exact_carry().
 *
 * For summaries and aggregators.  Whole-number arithmetic: no rounding mode matters.
 */
#ifndef LK_MULTINODE_EXACT_H
#define LK_MULTINODE_EXACT_H

#include <stdint.h>

enum { LK_EXACT_DIGITS = 68 };

/** Begins as zeros: the sum of nothing. */
typedef struct lk__exact {
    int64_t digit[LK_EXACT_DIGITS];
    int64_t nan, plus, minus; /* how many NaNs and infinities were added */
} lk__exact;

enum { LK_EXACT_NUMBERS = LK_EXACT_DIGITS + 3 };

_Static_assert(sizeof(lk__exact) == LK_EXACT_NUMBERS * sizeof(int64_t),
               "it is an array of numbers");

void lk__exact_add(lk__exact *sum, double x);

/** Bring the digits into their ranges: behind a sum of up to 2^30 exact sums, number by number. */
void lk__exact_carry(lk__exact *sum);

/** The double next to the sum, the even one of two; infinite beyond their range. */
double lk__exact_value(const lk__exact *sum);

#endif /* LK_MULTINODE_EXACT_H */
