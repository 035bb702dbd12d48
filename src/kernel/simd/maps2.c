/* The loops of the maps of two arguments. */
#include "kernel/maps.h"
#include "kernel/simd/loop.h"
#include "kernel/simd/math/f32.h"
#include "kernel/simd/math/pow.h"

/* One loop z[i] = expr, an expression of x, y and the parameter p. */
#define DEFINE_LOOP(code, T, type, expr)                                                 \
    static void code##_##T(const lk__operands *o)                                        \
    {                                                                                    \
        const type *from = o->x[0], *from2 = o->x[1], p = (type)o->p[0];                 \
        const int64_t n = o->n;                                                          \
        (void)p;                                                                         \
        LK_TWO_LOOPS(type, 0, n, const type x = from[i]; const type y = from2[i];, expr) \
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

#define DEFINE_ADD(T)                                                               \
    static void add_##T(int64_t n, double p, const void *x, const void *y, void *z) \
    {                                                                               \
        ADD_##T(&(lk__operands){.n = n, .x = {x, y}, .y = z, .p = {p}});            \
    }

DEFINE_ADD(f32)
DEFINE_ADD(f64)

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
    .add = {[LK_F32] = add_f32, [LK_F64] = add_f64},
};
