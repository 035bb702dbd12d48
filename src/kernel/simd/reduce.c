/* Inner loops of reductions: contiguous rows, blocks of columns, and joins. */
#include "kernel/reduce.h"

#include "base/integer.h"
#include "kernel/ahead.h"
#include "kernel/simd/lanes.h"

#include <string.h>

/* Rows ahead that are asked for where a block has a part of each, and they are more than a page apart: the
 * processor sees no pattern in that. */
enum { AHEAD = 16, PAGE = 4096 };

#define VEC LK_VEC_F32
#define LANE(name) LK_CAT(name, _f32)
#include "kernel/simd/reduce_type.h"
#undef LANE
#undef VEC

#define VEC LK_VEC_F64
#define LANE(name) LK_CAT(name, _f64)
#include "kernel/simd/reduce_type.h"
#undef LANE
#undef VEC

#define ROWS(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(rows_##op),
#define COLUMNS(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(columns_##op),
#define BEGINS(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(begin_##op),
#define ADDS(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(add_##op),
#define ENDS(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(end_##op),
#define NODES(code, op, neutral, step, join) [LK_REDUCE_AXIS_##code] = LANE(nodes_##op),
#define TYPE                                                                                   \
    {                                                                                          \
        .rows = {LANE_OPS(ROWS)}, .columns = {LANE_OPS(COLUMNS)}, .begin = {LANE_OPS(BEGINS)}, \
        .add = {LANE_OPS(ADDS)}, .end = {LANE_OPS(ENDS)}, .join = {LANE_OPS(NODES)},           \
    }

const lk__reduce_table LK_ISA(lk__reduce) = {
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
