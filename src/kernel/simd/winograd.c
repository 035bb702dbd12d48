/* The transforms of winograd.h: one text over vectors, which is plain C for vectors of one. */
#include "kernel/winograd.h"

#include "kernel/simd/vec.h"

enum wino_factor {
    WINO_2,
    WINO_MINUS_2,
    WINO_4,
    WINO_MINUS_4,
    WINO_MINUS_5,
    WINO_8,
    WINO_QUARTER,
    WINO_MINUS_6TH,
    WINO_24TH
};

#define VEC LK_VEC_F32
#include "kernel/simd/winograd_tile.h"
#undef VEC
#define VEC LK_VEC_F64
#include "kernel/simd/winograd_tile.h"
#undef VEC

#define TABLE(VEC)                                                                \
    {                                                                             \
        .input = LK_CAT(VEC, _wino_input), .weights = LK_CAT(VEC, _wino_weights), \
        .output = LK_CAT(VEC, _wino_output)                                       \
    }

const lk__wino_table LK_ISA(lk__wino) = {
    .of = {[LK_F32] = TABLE(LK_VEC_F32), [LK_F64] = TABLE(LK_VEC_F64)}};
