/* Softmax and log-softmax of one row.
 *
 * The sum of the exponentials is the lane sum of lanes.h: blocks of 16 elements are 16 lanes.  The
 * last block is filled up with -inf, whose exponential adds nothing to its lane. */
#include "kernel/maps.h"
#include "kernel/simd/lanes.h"
#include "kernel/simd/math/f32.h"
#include "kernel/simd/math/f64.h"

#define VEC LK_VEC_F32
#define LANE(name) LK_CAT(name, _f32)
#define MATH(name) LK_CAT(f32_, name)
#include "kernel/simd/softmax_type.h"
#undef MATH
#undef LANE
#undef VEC

#define VEC LK_VEC_F64
#define LANE(name) LK_CAT(name, _f64)
#define MATH(name) LK_CAT(f64_, name)
#include "kernel/simd/softmax_type.h"
#undef MATH
#undef LANE
#undef VEC

const lk__softmax_table LK_ISA(lk__softmax) = {
    .softmax = {[LK_F32] = f32_softmax, [LK_F64] = f64_softmax},
    .log_softmax = {[LK_F32] = f32_log_softmax, [LK_F64] = f64_log_softmax},
    .exps = {[LK_F32] = f32_exps, [LK_F64] = f64_exps},
    .log_sum = {[LK_F32] = f32_log_sum, [LK_F64] = f64_log_sum},
};
