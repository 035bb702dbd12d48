/* Comparing two configurations of `lockstep verify`: the first step in which they differ. */
#ifndef LK_CLI_VERIFY_COMPARE_H
#define LK_CLI_VERIFY_COMPARE_H

#include "verify/train.h"

#include <string.h>

/** Numbers compared by their bits, as lk_trainer_hash() sees them: -0 is another value than 0. */
static inline bool bits_are_equal(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

enum { VERIFY_TEXT = 768 };

/** The first difference between two traces. */
typedef struct verify_difference {
    bool found;
    int64_t step;       /* after how many steps, from 1 on */
    int64_t state_step; /* after how many the states do; 0: they never do */
    char text
        [VERIFY_TEXT]; /* "the loss is 1.25 and 1.5"; "": the states differ, and nothing before */
} verify_difference;

verify_difference verify_compare(const verify_trace *a, const verify_trace *b);

#endif /* LK_CLI_VERIFY_COMPARE_H */
