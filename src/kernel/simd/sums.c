/* Sums along the rows of a sheet and down its columns, and maps of it.
 *
 * Along rows, several go together: their chains hide the latency of addition, and their lanes are joined
 * by one tree.  Down columns, rows go four at a time, so that a lane is read and written once for four
 * of them. */
#include "kernel/sums.h"

#include "kernel/simd/vec.h"
#include "kernel/simd/vec/bytes.h"

#include <lockstep/extra/reduce.h>

#include <math.h>

/* Inputs that often have rows of their own; further ones are shared, but for layer norm's gradient. */
enum { ROWS_IN = 2 };

#define VEC LK_VEC_F32
#define LANE(name) LK_CAT(name, _f32)
#define SQRT sqrtf
#include "kernel/simd/sums_type.h"
#undef SQRT
#undef LANE
#undef VEC

#define VEC LK_VEC_F64
#define LANE(name) LK_CAT(name, _f64)
#define SQRT sqrt
#include "kernel/simd/sums_type.h"
#undef SQRT
#undef LANE
#undef VEC

#define ALONG(code, first, second) [LK__ALONG_##code] = LANE(along_##code),
#define DOWN(code, first, second) [LK__DOWN_##code] = LANE(down_##code),
#define MAP(code, term) [LK__TERM_##code] = LANE(map_##code),
#define TYPE                                                                                      \
    {                                                                                             \
        .along = {LK__SUMS_ALONG(ALONG)}, .down = {LK__SUMS_DOWN(DOWN)}, .map = {LK__TERMS(MAP)}, \
        .mean = LANE(mean), .inverse = LANE(inverse), .join = LANE(join),                         \
    }

const lk__map_sums_table LK_ISA(lk__map_sums) = {
    .of =
        {
#define LANE(name) name##_f32
            [LK_F32] = TYPE,
#undef LANE
#define LANE(name) name##_f64
            [LK_F64] = TYPE,
#undef LANE
        },
};
