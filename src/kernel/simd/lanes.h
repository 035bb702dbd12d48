/* One piece of contiguous elements: 16 lanes, joined by the fixed tree.
 *
 *     T lane_OP_TYPE(const T *x, int64_t n)      OP: sum prod max min sumsq; TYPE: f32 f64
 *
 * Element i belongs to lane i mod 16; each lane is one chain from the neutral element.  The lanes
 * are independent of each other, so they fill vectors of any width up to 16 without changing a bit.
 * Also here: step_OP_TYPE(acc, x), a chain's next step on vectors, and join_OP_TYPE(a, b).
 */
#ifndef LK_SIMD_LANES_H
#define LK_SIMD_LANES_H

#include "kernel/simd/vec.h"

#include <lockstep/extra/reduce.h>

#include <math.h>

/* For each operator F(enumerator, name, neutral element, next step, operator that joins chains). */
#define LANE_OPS(F)                                      \
    F(SUM, sum, 0, V(add)(acc, x), sum)                  \
    F(PROD, prod, 1, V(mul)(acc, x), prod)               \
    F(MAX, max, -(V(elem))INFINITY, V(max)(acc, x), max) \
    F(MIN, min, (V(elem))INFINITY, V(min)(acc, x), min)  \
    F(SUMSQ, sumsq, 0, V(fma)(x, x, acc), sum)

#define LANE_JOINS(F)               \
    F(sum, a + b)                   \
    F(prod, a *b)                   \
    F(max, b > a || b != b ? b : a) \
    F(min, b < a || b != b ? b : a)

#define VEC LK_VEC_F32
#define LANE(name) LK_CAT(name, _f32)
#include "kernel/simd/lanes_type.h"
#undef LANE
#undef VEC

#define VEC LK_VEC_F64
#define LANE(name) LK_CAT(name, _f64)
#include "kernel/simd/lanes_type.h"
#undef LANE
#undef VEC

#endif /* LK_SIMD_LANES_H */
