/* The cross and gemv micro-kernels: one text over vectors, which is plain C for vectors of one. */
#include "kernel/cross.h"

#include "kernel/simd/vec.h"

#define VEC LK_VEC_F32
#include "kernel/simd/cross_tile.h"
#undef VEC
#define VEC LK_VEC_F64
#include "kernel/simd/cross_tile.h"
#undef VEC

#define TILE(VEC, NV, MR)                                          \
    static void cross_##VEC##_##NV##_##MR(const lk__cross_args *t) \
    {                                                              \
        VEC##_cross(t, MR, NV);                                    \
    }
#define TILES_3(VEC, NV) \
    TILE(VEC, NV, 1)     \
    TILE(VEC, NV, 2)     \
    TILE(VEC, NV, 3)
#define TILES_6(VEC, NV) \
    TILES_3(VEC, NV)     \
    TILE(VEC, NV, 4)     \
    TILE(VEC, NV, 5)     \
    TILE(VEC, NV, 6)
#define TILES_12(VEC, NV) \
    TILES_6(VEC, NV)      \
    TILE(VEC, NV, 7)      \
    TILE(VEC, NV, 8)      \
    TILE(VEC, NV, 9)      \
    TILE(VEC, NV, 10)     \
    TILE(VEC, NV, 11)     \
    TILE(VEC, NV, 12)

#define LIST_3(P) NULL, P##_1, P##_2, P##_3
#define LIST_6(P) LIST_3(P), P##_4, P##_5, P##_6
#define LIST_12(P) LIST_6(P), P##_7, P##_8, P##_9, P##_10, P##_11, P##_12

#define TABLE(VEC, MR)                                                                           \
    {                                                                                            \
        .width = {2 * VEC##_lanes, VEC##_lanes}, .mr = (MR), .pack = VEC##_cross_pack, .tile = { \
            {LIST_##MR(cross_##VEC##_2)},                                                        \
            {LIST_##MR(cross_##VEC##_1)}                                                         \
        }                                                                                        \
    }

#ifdef LK_SIMD_avx512
TILES_12(f32x16, 2)
TILES_12(f32x16, 1)
TILES_12(f64x8, 2)
TILES_12(f64x8, 1)
const lk__cross_table LK_ISA(lk__cross) = {
    .of = {[LK_F32] = TABLE(f32x16, 12), [LK_F64] = TABLE(f64x8, 12)},
    .gemv = {[LK_F32] = f32x16_gemv, [LK_F64] = f64x8_gemv}};
#elif defined LK_SIMD_avx2
TILES_6(f32x8, 2)
TILES_6(f32x8, 1)
TILES_6(f64x4, 2)
TILES_6(f64x4, 1)
const lk__cross_table LK_ISA(lk__cross) = {
    .of = {[LK_F32] = TABLE(f32x8, 6), [LK_F64] = TABLE(f64x4, 6)},
    .gemv = {[LK_F32] = f32x8_gemv, [LK_F64] = f64x4_gemv}};
#else
TILES_3(f32x1, 2)
TILES_3(f32x1, 1)
TILES_3(f64x1, 2)
TILES_3(f64x1, 1)
const lk__cross_table LK_ISA(lk__cross) = {
    .of = {[LK_F32] = TABLE(f32x1, 3), [LK_F64] = TABLE(f64x1, 3)},
    .gemv = {[LK_F32] = f32x1_gemv, [LK_F64] = f64x1_gemv}};
#endif
