/* The loops of the maps of two arguments. */
#include "kernel/maps.h"
#include "kernel/simd/math_f32.h"
#include "kernel/simd/math_pow.h"

/* One loop z[i] = expr, an expression of x, y and the parameter p. */
#define DEFINE_LOOP(code, T, type, expr)                                                          \
    static void code##_##T(int64_t n, double param, const void *src, const void *src2, void *dst) \
    {                                                                                             \
        const type *from = src, *from2 = src2;                                                    \
        type *to = dst;                                                                           \
        const type p = (type)param;                                                               \
        (void)p;                                                                                  \
        LK_INDEPENDENT                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                         \
            const type x = from[i], y = from2[i];                                                 \
            to[i] = (expr);                                                                       \
        }                                                                                         \
    }

#define DEFINE(code, expr_f32, expr_f64)    \
    DEFINE_LOOP(code, f32, float, expr_f32) \
    DEFINE_LOOP(code, f64, double, expr_f64)

DEFINE(ADD, x + y, x + y)
DEFINE(SUB, x - y, x - y)
DEFINE(MUL, x *y, x *y)
DEFINE(DIV, x / y, x / y)
DEFINE(POW, f32_pow(x, y), f64_pow(x, y))
DEFINE(MAX, y > x || y != y ? y : x, y > x || y != y ? y : x)
DEFINE(MIN, y < x || y != y ? y : x, y < x || y != y ? y : x)
DEFINE(AXPY, fmaf(p, x, y), fma(p, x, y))

const lk__maps2_table LK_ISA(lk__maps2) = {
    .map =
        {
#define X(code, name, formula) [LK_MAP2_##code] = code##_f32,
            [LK_F32] = {LK_MAP2_MAP(X)},
#undef X
#define X(code, name, formula) [LK_MAP2_##code] = code##_f64,
            [LK_F64] = {LK_MAP2_MAP(X)},
#undef X
        },
};
