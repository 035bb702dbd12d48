/* The loops of the maps of one argument. */
#include "kernel/maps.h"
#include "kernel/simd/loop.h"
#include "kernel/simd/math/f32.h"
#include "kernel/simd/math/f64.h"
#include "kernel/simd/math/trig.h"

/* One loop y[i] = expr, an expression of x and the parameter p. */
#define DEFINE_LOOP(code, T, type, expr)                        \
    static void code##_##T(const lk__operands *o)               \
    {                                                           \
        const type *from = o->x[0], p = (type)o->p[0];          \
        const int64_t n = o->n;                                 \
        (void)p;                                                \
        LK_TWO_LOOPS(type, 0, n, const type x = from[i];, expr) \
    }

#define DEFINE(code, expr_f32, expr_f64)    \
    DEFINE_LOOP(code, f32, float, expr_f32) \
    DEFINE_LOOP(code, f64, double, expr_f64)

DEFINE(COPY, x, x)
DEFINE(NEG, -x, -x)
DEFINE(ABS, fabsf(x), fabs(x))
DEFINE(SQUARE, x *x, x *x)
DEFINE(SQRT, sqrtf(x), sqrt(x))
DEFINE(RECIP, 1.0F / x, 1.0 / x)
DEFINE(EXP, f32_exp(x), f64_exp(x))
DEFINE(LOG, f32_log(x), f64_log(x))
DEFINE(TANH, f32_tanh(x), f64_tanh(x))
DEFINE(ERF, f32_erf(x), f64_erf(x))
DEFINE(SIGMOID, f32_sigmoid(x), f64_sigmoid(x))
DEFINE(SOFTPLUS, f32_softplus(x), f64_softplus(x))
DEFINE(RELU, x < 0 ? 0 : x, x < 0 ? 0 : x)
DEFINE(LEAKY_RELU, x < 0 ? p * x : x, x < 0 ? p * x : x)
DEFINE(ELU, f32_elu(x, p), f64_elu(x, p))
DEFINE(GELU, f32_gelu(x), f64_gelu(x))
DEFINE(SCALE, p *x, p *x)
DEFINE(SHIFT, p + x, p + x)

/* Sine and cosine: vectors where a block's arguments are all within the limit. */
enum { BLOCK = 256 };

#define DEFINE_TRIG(code, T, type, fn)                                                  \
    static void code##_##T(const lk__operands *o)                                       \
    {                                                                                   \
        const type *from = o->x[0];                                                     \
        for (int64_t first = 0; first < o->n; first += BLOCK) {                         \
            const int64_t last = o->n - first < BLOCK ? o->n : first + BLOCK;           \
            int far = 0;                                                                \
            for (int64_t i = first; i < last; i++)                                      \
                far |= !T##_trig_is_near(from[i]);                                      \
            if (far)                                                                    \
                LK_LOOP(type, first, last, const type x = from[i];, T##_##fn(x))        \
            else                                                                        \
                LK_LOOP(type, first, last, const type x = from[i];, T##_##fn##_near(x)) \
        }                                                                               \
    }

DEFINE_TRIG(SIN, f32, float, sin)
DEFINE_TRIG(SIN, f64, double, sin)
DEFINE_TRIG(COS, f32, float, cos)
DEFINE_TRIG(COS, f64, double, cos)

/* Activations are maps in place. */
#define DEFINE_ACT(code, T)                                    \
    static void act_##code##_##T(void *c, int64_t n)           \
    {                                                          \
        code##_##T(&(lk__operands){.n = n, .x = {c}, .y = c}); \
    }

#define X(code) DEFINE_ACT(code, f32) DEFINE_ACT(code, f64)
LK_ACT_MAP(X)
#undef X

const lk__maps1_table LK_ISA(lk__maps1) = {
    .map =
        {
#define X(code, name, formula) [LK_MAP1_##code] = code##_f32,
            [LK_F32] = {LK_MAP1_MAP(X)},
#undef X
#define X(code, name, formula) [LK_MAP1_##code] = code##_f64,
            [LK_F64] = {LK_MAP1_MAP(X)},
#undef X
        },
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
