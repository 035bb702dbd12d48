/* The loops of element-wise ops: one per name, element type and instruction set, from one list of
 * expressions.  Ops, the rows of an op and sums of gradients name an entry and bring the operands.
 *
 * Every operation is rounded on its own (no fma but inside the elementary functions), in the order in
 * which the expression reads, so the bits depend on neither instruction set nor cut.  A choice is
 * written `condition ? x : y` with both sides computed: the compiler makes a blend of it, where a
 * branch would be mispredicted for half of the elements.
 */
#ifndef LK_KERNEL_LOOPS_H
#define LK_KERNEL_LOOPS_H

#include "kernel/runtime/isa.h"

#include <lockstep/extra/map.h>

/* Enumerator, number of inputs, and y as an expression of a, b and c, their elements, and of the
 * numbers p and q.  T is the element type; constants that are not integers need a cast to it.
 * MATH(f) is the elementary function f of the type.  Moves come first: what they hand on may be an
 * input as it is. */
#define LK__LOOP_MOVE_MAP(X)                              \
    X(FILL, 0, p)                                         \
    X(PICK_ABOVE, 3, b > c ? a : 0)                       \
    X(PICK_OTHERS, 3, b > c ? 0 : a)                      \
    X(CLIP, 1, (a < p ? p : a) > q ? q : (a < p ? p : a)) \
    X(CLIP_GRAD, 2, ((b >= p) & (b <= q)) ? a : 0)        \
    X(RELU_GRAD, 2, b > 0 ? a : 0)

#define LK__LOOP_MAP(X)                                                                    \
    X(AFFINE, 1, p *a + q)                                                                 \
    X(OVER, 1, a / p)                                                                      \
    X(RATIO, 2, b == 0 ? 0 : p * a / b)                                                    \
    X(NEG_MUL, 2, -(a * b))                                                                \
    X(ADD_RELU, 2, a + b < 0 ? 0 : a + b)                                                  \
    X(ADD_SIGMOID, 2, MATH(sigmoid)(a + b))                                                \
    X(ADD_TANH, 2, MATH(tanh)(a + b))                                                      \
    X(ABS_GRAD, 2, (b > 0 ? a : 0) - (b < 0 ? a : 0))                                      \
    X(SQUARE_GRAD, 2, 2 * (a * b))                                                         \
    X(SQRT_GRAD, 2, a / (b + b))                                                           \
    X(LEAKY_RELU_GRAD, 2, a *(b > 0 ? 1 : p))                                              \
    X(ELU_GRAD, 2, a *((b > 0 ? 1 : p) * (b > 0 ? 1 : MATH(exp)(b))))                      \
    X(ELU_BEND, 2, a *((b > 0 ? 0 : p) * (b > 0 ? 0 : MATH(exp)(b))))                      \
    X(SIGMOID_GRAD, 2, a *(b * (1 - b)))                                                   \
    X(TANH_GRAD, 2, a *(1 - b * b))                                                        \
    X(SOFTPLUS_GRAD, 2, a *MATH(sigmoid)(b))                                               \
    X(ERF_GRAD, 2, a *((T)1.1283791670955126 * MATH(exp)(-(b * b))))                       \
    X(POW_DX, 3, a *(c * (c == 0 ? 0 : MATH(pow)(b, c - 1))))                              \
    X(POW_DY, 3, a *MATH(pow_log)(b, c))                                                   \
    X(POW_SCALAR_GRAD_OF_2, 2, a *(p * b))                                                 \
    X(POW_SCALAR_GRAD_OF_3, 2, a *(p * (b * b)))                                           \
    X(SQUARED_ERROR, 2, p *((a - b) * (a - b)))                                            \
    X(SQUARED_ERROR_GRAD, 3, p *((a - b) * c))                                             \
    X(LOGISTIC_LOSS, 2, (a > 0 ? (1 - b) * a : -(b * a)) + MATH(softplus)(a > 0 ? -a : a)) \
    X(LOGISTIC_LOSS_GRAD, 3, (MATH(sigmoid)(a) - b) * c)                                   \
    X(EXP_LESS, 1, MATH(exp)(a - p))                                                       \
    X(ENTROPY, 2, b == 0 ? 0 : b * ((a - p) - q))                                          \
    X(LOG_SOFTMAX_GRAD, 2, (b - MATH(exp)(a) * p) + q)

/* Those with a power of an input, the exponent q: enumerator, number of inputs, the base, and y as an
 * expression of `power` too. */
#define LK__LOOP_POWER_MAP(X)  \
    X(POW_SCALAR, 1, a, power) \
    X(POW_SCALAR_GRAD, 2, b, a *(p * power))

/* Those that have a second output, z: the expression writes it to `second`. */
#define LK__LOOP_PAIR_MAP(X) X(GELU_SLOPE, 1, MATH(gelu_slope)(a, &second))

/* Those whose first input has another type: enumerator, that type, and y as an expression of m, its
 * element, and of b and c of type T.  REAL is f64 where T is f32, and the other way round. */
#define LK__LOOP_TYPED_MAP(X)                \
    X(CAST, REAL, 1, (T)m)                   \
    X(WHERE_F32, float, 3, m != 0 ? b : c)   \
    X(WHERE_F64, double, 3, m != 0 ? b : c)  \
    X(WHERE_I32, int32_t, 3, m != 0 ? b : c) \
    X(WHERE_I64, int64_t, 3, m != 0 ? b : c) \
    X(WHERE_U8, uint8_t, 3, m != 0 ? b : c)  \
    X(WHERE_HALF, uint16_t, 3, (m & INT16_MAX) != 0 ? b : c) /* the sign is on top */

/* All of them; those of lk_map1() and lk_map2() come first, and have their parameter as p. */
typedef enum lk__loop {
#define X(code, ...) LK__LOOP_##code,
    LK_MAP1_MAP(X) LK_MAP2_MAP(X) LK__LOOP_MOVE_MAP(X) LK__LOOP_MAP(X) LK__LOOP_POWER_MAP(X)
        LK__LOOP_PAIR_MAP(X) LK__LOOP_TYPED_MAP(X)
#undef X
            LK_N_LOOPS
} lk__loop;

enum { LK_LOOP_MAX_IN = 3, LK_LOOP_MAX_P = 2 };

/* What a loop runs over: y[i] from x[0][i], x[1][i], ... for i < n.  y may be one of the inputs, but
 * must not overlap them otherwise. */
typedef struct lk__operands {
    int64_t n;
    const void *x[LK_LOOP_MAX_IN];
    void *y, *z;             /* z: of those that have a second output; it shares nothing */
    double p[LK_LOOP_MAX_P]; /* p and q, rounded to the type */
    bool first;              /* y = 0 + the expression: the bits of adding to zeros */
} lk__operands;

typedef void lk__loop_fn(const lk__operands *o);

/* By lk_dtype (f32 and f64) of y. */
typedef struct lk__loops_table {
    lk__loop_fn *of[2][LK_N_LOOPS];
} lk__loops_table;

LK_ISA_TABLE(lk__loops_table, lk__loops)

#endif /* LK_KERNEL_LOOPS_H */
