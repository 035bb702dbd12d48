/* What a loop over operands (kernel/loops.h) does with the value of each element: y is set to it, or to
 * 0 + it where the operands say so.
 *
 * f + -0 is f for every f, so both can be one loop that adds a number.  Not for *moves*, expressions that may
 * hand on an input as it is: a signalling NaN would become a quiet one.  And not for functions, where one
 * more addition shows: these have two loops.
 */
#ifndef LK_SIMD_LOOP_H
#define LK_SIMD_LOOP_H

#include "kernel/loops.h"
#include "kernel/simd/math/bits.h"

/* y[i] = expr, or 0 + expr, for i in [begin, end); `load` declares what it is made of. */
#define LK_LOOP(type, begin, end, load, expr)           \
    {                                                   \
        type *y_ = o->y;                                \
        const type zero_ = (type)(o->first ? 0 : -0.0); \
        LK_INDEPENDENT                                  \
        for (int64_t i = begin; i < (end); i++) {       \
            load y_[i] = (expr) + zero_;                \
        }                                               \
    }

/* The same by two loops. */
#define LK_TWO_LOOPS(type, begin, end, load, expr)    \
    {                                                 \
        type *y_ = o->y;                              \
        if (o->first) {                               \
            LK_INDEPENDENT                            \
            for (int64_t i = begin; i < (end); i++) { \
                load y_[i] = 0 + (expr);              \
            }                                         \
        } else {                                      \
            LK_INDEPENDENT                            \
            for (int64_t i = begin; i < (end); i++) { \
                load y_[i] = (expr);                  \
            }                                         \
        }                                             \
    }

#endif /* LK_SIMD_LOOP_H */
