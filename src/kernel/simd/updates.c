/* The loops of optimizers, which the compiler turns into vectors: every operation is written and
 * rounded on its own, so the bits do not depend on how. */
#include "kernel/updates.h"

#include "kernel/simd/vec.h"

#include <math.h>

#define T float
#define SQRT sqrtf
#define NAME(name) LK_CAT(name, _f32)
#include "kernel/simd/updates_type.h"
#undef NAME
#undef SQRT
#undef T

#define T double
#define SQRT sqrt
#define NAME(name) LK_CAT(name, _f64)
#include "kernel/simd/updates_type.h"
#undef NAME
#undef SQRT
#undef T

const lk__updates_table LK_ISA(lk__updates) = {
    .of =
        {
#define X(code, name, formula) [LK__UPDATE_##code] = name##_f32,
            [LK_F32] = {LK__UPDATE_MAP(X)},
#undef X
#define X(code, name, formula) [LK__UPDATE_##code] = name##_f64,
            [LK_F64] = {LK__UPDATE_MAP(X)},
#undef X
        },
};
