/* The loops of element-wise ops, which the compiler turns into vectors. */
#include "kernel/loops.h"

#include "kernel/maps.h"
#include "kernel/simd/loop.h"
#include "kernel/simd/math/f32.h"
#include "kernel/simd/math/f64.h"
#include "kernel/simd/math/pow.h"

enum { SPREAD = 256 };

#define T float
#define REAL double
#define DTYPE LK_F32
#define NAME(name) LK_CAT(name, _f32)
#define MATH(name) f32_##name
#include "kernel/simd/loops_type.h"
#undef MATH
#undef NAME
#undef DTYPE
#undef REAL
#undef T

#define T double
#define REAL float
#define DTYPE LK_F64
#define NAME(name) LK_CAT(name, _f64)
#define MATH(name) f64_##name
#include "kernel/simd/loops_type.h"
#undef MATH
#undef NAME
#undef DTYPE
#undef REAL
#undef T

const lk__loops_table LK_ISA(lk__loops) = {
    .of =
        {
#define X(code, ...) [LK__LOOP_##code] = code##_f32,
            [LK_F32] = {LK_MAP1_MAP(X) LK_MAP2_MAP(X) LK__LOOP_MOVE_MAP(X) LK__LOOP_MAP(X)
                            LK__LOOP_POWER_MAP(X) LK__LOOP_PAIR_MAP(X) LK__LOOP_TYPED_MAP(X)},
#undef X
#define X(code, ...) [LK__LOOP_##code] = code##_f64,
            [LK_F64] = {LK_MAP1_MAP(X) LK_MAP2_MAP(X) LK__LOOP_MOVE_MAP(X) LK__LOOP_MAP(X)
                            LK__LOOP_POWER_MAP(X) LK__LOOP_PAIR_MAP(X) LK__LOOP_TYPED_MAP(X)},
#undef X
        },
};
