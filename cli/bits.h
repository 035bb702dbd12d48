/* Numbers compared by their bits, as lk_trainer_hash() sees them: -0 is another value than 0. */
#ifndef LK_CLI_BITS_H
#define LK_CLI_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool bits_are_equal(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

#endif /* LK_CLI_BITS_H */
