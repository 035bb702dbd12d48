/* The micro-kernels of cross.h: one text over vectors, which is plain C for vectors of one. */
#include "kernel/cross.h"

#include "kernel/simd/vec.h"

#include <string.h>

/* The rows of a full tile. */
#if defined LK_SIMD_avx512
#    define CROSS_MR 12
#elif defined LK_SIMD_avx2
#    define CROSS_MR 6
#else
#    define CROSS_MR 3
#endif

/* The pieces of a linear layer's weight gradient, for which the tree has code of its own; steps of k
 * that a strip takes at once. */
enum { USUAL_PIECE = 16, STRIP_STEPS = 4 };

#define VEC LK_VEC_F32
#include "kernel/simd/cross_tile.h"
#include "kernel/simd/strip_tile.h"
#undef VEC
#define VEC LK_VEC_F64
#include "kernel/simd/cross_tile.h"
#include "kernel/simd/strip_tile.h"
#undef VEC

#define STRIP(VEC, NV, MR)                                  \
    static void strip_##VEC##_##MR(const lk__strip_args *t) \
    {                                                       \
        VEC##_strip(t, MR, NV);                             \
    }
#define TILE(VEC, NV, MR)                                               \
    static void cross_##VEC##_##NV##_##MR(const lk__cross_args *t)      \
    {                                                                   \
        VEC##_cross(t, MR, NV, false, false);                           \
    }                                                                   \
    static void cross_part_##VEC##_##NV##_##MR(const lk__cross_args *t) \
    {                                                                   \
        VEC##_cross(t, MR, NV, false, true);                            \
    }
#define TREE(VEC, NV, MR)                                              \
    static void tree_##VEC##_##NV##_##MR(const lk__cross_args *t)      \
    {                                                                  \
        VEC##_cross(t, MR, NV, true, false);                           \
    }                                                                  \
    static void tree_part_##VEC##_##NV##_##MR(const lk__cross_args *t) \
    {                                                                  \
        VEC##_cross(t, MR, NV, true, true);                            \
    }
#define UP_TO_1(X, VEC, NV) X(VEC, NV, 1)
#define UP_TO_3(X, VEC, NV) \
    X(VEC, NV, 1)           \
    X(VEC, NV, 2)           \
    X(VEC, NV, 3)
#define UP_TO_6(X, VEC, NV) \
    UP_TO_3(X, VEC, NV)     \
    X(VEC, NV, 4)           \
    X(VEC, NV, 5)           \
    X(VEC, NV, 6)
#define UP_TO_12(X, VEC, NV) \
    UP_TO_6(X, VEC, NV)      \
    X(VEC, NV, 7)            \
    X(VEC, NV, 8)            \
    X(VEC, NV, 9)            \
    X(VEC, NV, 10)           \
    X(VEC, NV, 11)           \
    X(VEC, NV, 12)

#define LIST_1(P) NULL, P##_1
#define LIST_3(P) NULL, P##_1, P##_2, P##_3
#define LIST_6(P) LIST_3(P), P##_4, P##_5, P##_6
#define LIST_12(P) LIST_6(P), P##_7, P##_8, P##_9, P##_10, P##_11, P##_12

#define WIDTHS(LIST, P) \
    {                   \
        {LIST(P##_2)},  \
        {               \
            LIST(P##_1) \
        }               \
    }

#define TABLE(VEC)                                                                        \
    {                                                                                     \
        .width = {2 * VEC##_lanes, VEC##_lanes}, .mr = CROSS_MR, .tree_mr = CROSS_MR / 2, \
        .strip = {LIST(strip_##VEC)}, .pack = VEC##_cross_pack,                           \
        .tile = {[LK_CROSS_WHOLE] = WIDTHS(LIST, cross_##VEC),                            \
                 [LK_CROSS_PART] = WIDTHS(LIST, cross_part_##VEC)},                       \
        .tree = {                                                                         \
            [LK_CROSS_WHOLE] = WIDTHS(LIST_HALF, tree_##VEC),                             \
            [LK_CROSS_PART] = WIDTHS(LIST_HALF, tree_part_##VEC)                          \
        }                                                                                 \
    }

#if CROSS_MR == 12
#    define UP_TO_MR UP_TO_12
#    define LIST LIST_12
#    define UP_TO_HALF UP_TO_6
#    define LIST_HALF LIST_6
#elif CROSS_MR == 6
#    define UP_TO_MR UP_TO_6
#    define LIST LIST_6
#    define UP_TO_HALF UP_TO_3
#    define LIST_HALF LIST_3
#else
#    define UP_TO_MR UP_TO_3
#    define LIST LIST_3
#    define UP_TO_HALF UP_TO_1
#    define LIST_HALF LIST_1
#endif

#define DEFINE(F32, F64)                                      \
    UP_TO_MR(STRIP, F32, 2)                                   \
    UP_TO_MR(STRIP, F64, 2)                                   \
    UP_TO_MR(TILE, F32, 2)                                    \
    UP_TO_MR(TILE, F32, 1)                                    \
    UP_TO_MR(TILE, F64, 2)                                    \
    UP_TO_MR(TILE, F64, 1)                                    \
    UP_TO_HALF(TREE, F32, 2)                                  \
    UP_TO_HALF(TREE, F32, 1)                                  \
    UP_TO_HALF(TREE, F64, 2)                                  \
    UP_TO_HALF(TREE, F64, 1)                                  \
    const lk__cross_table LK_ISA(lk__cross) = {               \
        .of = {[LK_F32] = TABLE(F32), [LK_F64] = TABLE(F64)}, \
        .gemv = {[LK_F32] = F32##_gemv, [LK_F64] = F64##_gemv}};

#if defined LK_SIMD_avx512
DEFINE(f32x16, f64x8)
#elif defined LK_SIMD_avx2
DEFINE(f32x8, f64x4)
#else
DEFINE(f32x1, f64x1)
#endif
