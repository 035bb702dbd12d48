/* Vectors of f32 and f64, the little that the micro-kernels need.
 *
 * The one header with intrinsics that files of this folder include.  It defines, as far as the
 * instruction set goes, the vector types f32x8 and f64x4 (AVX2), f32x16 and f64x8 (AVX-512 has all
 * four), and f32x1 and f64x1, plain numbers, for the scalar build.  For each type V:
 *
 *     V_elem, V_lanes, V_mask       its element, their number, a set of lanes
 *     V_zero()                      all lanes +0
 *     V_splat(p)                    all lanes *p
 *     V_load(p), V_store(p, v)      V_lanes elements at p, any alignment
 *     V_fma(a, b, c)                fma(a, b, c) in each lane
 *     V_fma_to(&c, a, b)            c = fma(a, b, c), where c stays in its register
 *     V_fresh()                     all lanes +0, in a register of their own
 *     V_add(a, b), V_mul(a, b)      a + b, a * b
 *     V_div(a, b), V_sqrt(a)        a / b, the square root of a, correctly rounded
 *     V_max(a, b), V_min(a, b)      b if it is larger (smaller) than a or NaN, else a
 *     V_mask_first(n)               the first n lanes: none for n <= 0, all for n >= V_lanes
 *     V_mask_above(a, b)            where b is larger than a, or NaN and a is not
 *     V_mask_equal(p, k)            where p[lane], of 64-bit integers, is k
 *     V_load_mask(p, m)             lanes of m; the others are +0 and their memory is not touched
 *     V_blend(m, a, b)              a in the lanes of m, b in the others
 *     V_store_first(p, v, n)        the first n lanes; the other memory is not touched
 *
 * Code that is the same for several types goes into a header that is included once per type, with
 * VEC defined as the type: V(load)(p) is then f32x8_load(p).
 */
#ifndef LK_SIMD_VEC_H
#define LK_SIMD_VEC_H

#include "kernel/runtime/isa.h"

/* A function whose integer arguments are constants that shape its code. */
#define LK_INLINE static inline __attribute__((always_inline))

/* Before a loop with a constant count: unroll it fully, so that arrays of vectors are registers. */
#ifdef __clang__
#    define LK_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define LK_UNROLL _Pragma("GCC unroll 32")
#endif

/* Hides where the value of a variable comes from.  In a loop it keeps the compiler from replacing
 * one index by a pointer for every address that it is part of. */
#define LK_OPAQUE(x) __asm__("" : "+r"(x))

/* The same for an invariant, in front of the loop that needs it in a register: what is computed there
 * is no value of the loops around it, for which it would be kept in memory. */
#define LK_RENEW(x) __asm__ volatile("" : "+r"(x))

/* What is before it in the text reads and writes memory before what is behind it. */
#define LK_IN_ORDER() __asm__ volatile("" ::: "memory")

#define V(op) LK_CAT(VEC, _##op)

/* The widest vectors of this instruction set. */
#if defined LK_SIMD_avx512
#    include "kernel/simd/vec/avx512.h"
#    define LK_VEC_F32 f32x16
#    define LK_VEC_F64 f64x8
#elif defined LK_SIMD_avx2
#    include "kernel/simd/vec/avx2.h"
#    define LK_VEC_F32 f32x8
#    define LK_VEC_F64 f64x4
#else
#    include "kernel/simd/vec/scalar.h"
#    define LK_VEC_F32 f32x1
#    define LK_VEC_F64 f64x1
#endif

#endif /* LK_SIMD_VEC_H */
