/* The loops of the maps of one argument. */
#include "kernel/maps.h"
#include "kernel/simd/math_f32.h"
#include "kernel/simd/math_f64.h"

#define DEFINE_LOOP(code, T, type, expr)             \
    static void act_##code##_##T(void *c, int64_t n) \
    {                                                \
        type *y = c;                                 \
        LK_INDEPENDENT                               \
        for (int64_t i = 0; i < n; i++) {            \
            type x = y[i];                           \
            y[i] = (expr);                           \
        }                                            \
    }

#define DEFINE(code, expr_f32, expr_f64)    \
    DEFINE_LOOP(code, f32, float, expr_f32) \
    DEFINE_LOOP(code, f64, double, expr_f64)

DEFINE(SIGMOID, f32_sigmoid(x), f64_sigmoid(x))
DEFINE(TANH, f32_tanh(x), f64_tanh(x))
DEFINE(RELU, x < 0 ? 0 : x, x < 0 ? 0 : x)
DEFINE(GELU, f32_gelu(x), f64_gelu(x))

const lk__maps1_table LK_ISA(lk__maps1) = {
    .act =
        {
#define X(code) [LK_ACT_##code] = act_##code##_f32,
            [LK_F32] = {LK_ACT_MAP(X)},
#undef X
#define X(code) [LK_ACT_##code] = act_##code##_f64,
            [LK_F64] = {LK_ACT_MAP(X)},
#undef X
        },
};
