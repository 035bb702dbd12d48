/* Copies into the panels of panels.h. */
#include "kernel/panels.h"

#include "kernel/simd/vec.h"

/* Not the widest vectors there are: a panel's width is a multiple of them. */
#ifdef LK_SIMD_scalar
#    define VEC_F32 f32x1
#    define VEC_F64 f64x1
#else
#    define VEC_F32 f32x8
#    define VEC_F64 f64x4
#endif

#define VEC VEC_F32
#include "kernel/simd/panels_copy.h"
#undef VEC
#define VEC VEC_F64
#include "kernel/simd/panels_copy.h"
#undef VEC

const lk__panels_table LK_ISA(lk__panels) = {
    .lanes = {[LK_F32] = LK_CAT(VEC_F32, _lanes), [LK_F64] = LK_CAT(VEC_F64, _lanes)},
    .copy = {[LK_F32] = LK_CAT(VEC_F32, _panels_copy), [LK_F64] = LK_CAT(VEC_F64, _panels_copy)}};
