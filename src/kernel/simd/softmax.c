/* Softmax and log-softmax of one row.
 *
 * The sum of the exponentials is the lane sum of lanes.h: blocks of 16 elements are 16 lanes.  The
 * last block is filled up with -inf, whose exponential adds nothing to its lane. */
#include "kernel/maps.h"
#include "kernel/simd/lanes.h"
#include "kernel/simd/math_f32.h"
#include "kernel/simd/math_f64.h"

#define DEFINE(T, type)                                                                \
    LK_INLINE void exp_block_##T(const type *x, type max, type *e, type *lane)         \
    {                                                                                  \
        LK_INDEPENDENT                                                                 \
        for (int l = 0; l < LK_LANES; l++) {                                           \
            e[l] = T##_exp(x[l] - max);                                                \
            lane[l] += e[l];                                                           \
        }                                                                              \
    }                                                                                  \
                                                                                       \
    /* The sum of exp(x[i] - max), each of which goes to e[i] if `keep`. */            \
    LK_INLINE type exp_sum_##T(int64_t n, const type *x, type max, type *e, bool keep) \
    {                                                                                  \
        type lane[LK_LANES] = {0}, block[LK_LANES], tail[LK_LANES];                    \
        int64_t i = 0;                                                                 \
        for (; i + LK_LANES <= n; i += LK_LANES)                                       \
            exp_block_##T(x + i, max, keep ? e + i : block, lane);                     \
        if (i < n) {                                                                   \
            for (int l = 0; l < LK_LANES; l++)                                         \
                tail[l] = l < n - i ? x[i + l] : -(type)INFINITY;                      \
            exp_block_##T(tail, max, block, lane);                                     \
            for (int64_t l = 0; keep && l < n - i; l++)                                \
                e[i + l] = block[l];                                                   \
        }                                                                              \
        for (int half = LK_LANES / 2; half > 0; half /= 2)                             \
            for (int l = 0; l < half; l++)                                             \
                lane[l] = join_sum_##T(lane[2 * l], lane[2 * l + 1]);                  \
        return lane[0];                                                                \
    }                                                                                  \
                                                                                       \
    static void softmax_##T(int64_t n, const void *src, void *dst)                     \
    {                                                                                  \
        const type *x = src;                                                           \
        type *y = dst;                                                                 \
        const type sum = exp_sum_##T(n, x, lane_max_##T(x, n), y, true);               \
        for (int64_t i = 0; i < n; i++)                                                \
            y[i] = y[i] / sum;                                                         \
    }                                                                                  \
                                                                                       \
    static void log_softmax_##T(int64_t n, const void *src, void *dst)                 \
    {                                                                                  \
        const type *x = src;                                                           \
        type *y = dst;                                                                 \
        const type max = lane_max_##T(x, n);                                           \
        const type log_sum = T##_log(exp_sum_##T(n, x, max, NULL, false));             \
        LK_INDEPENDENT                                                                 \
        for (int64_t i = 0; i < n; i++)                                                \
            y[i] = (x[i] - max) - log_sum;                                             \
    }

DEFINE(f32, float)
DEFINE(f64, double)

const lk__softmax_table LK_ISA(lk__softmax) = {
    .softmax = {[LK_F32] = softmax_f32, [LK_F64] = softmax_f64},
    .log_softmax = {[LK_F32] = log_softmax_f32, [LK_F64] = log_softmax_f64},
};
