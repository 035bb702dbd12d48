/* The smaller and the larger of two sizes, and a / b rounded up, b > 0.  For any room. */
#ifndef LK_BASE_INTEGER_H
#define LK_BASE_INTEGER_H

#include <stdint.h>

static inline int64_t lk__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lk__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t lk__div_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

#endif /* LK_BASE_INTEGER_H */
