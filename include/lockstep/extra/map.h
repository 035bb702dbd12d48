/* Element-wise maps and row-wise softmax under canonical arithmetic.
 *
 * Each output is one fixed expression of its inputs.  The elementary functions are the library's
 * own, because a libm may give other bits on another machine.  They are within 2 ulp of the true
 * value for every argument, denormals, infinities and huge arguments of sin and cos included, and
 * follow the C standard where a limit or NaN is the answer.  gelu(-inf) is -0, the limit.
 */
#ifndef LK_MAP_H
#define LK_MAP_H

#include <lockstep/act.h>
#include <lockstep/dtype.h>

LK_BEGIN_DECLS

/* Functions of one argument x and a parameter p that most ignore.  Enumerator, name, formula. */
#define LK_MAP1_MAP(X)                                            \
    X(COPY, "copy", "x")                                          \
    X(NEG, "neg", "-x")                                           \
    X(ABS, "abs", "|x|")                                          \
    X(SQUARE, "square", "x * x")                                  \
    X(SQRT, "sqrt", "square root of x, correctly rounded")        \
    X(RECIP, "recip", "1 / x")                                    \
    X(EXP, "exp", "e^x")                                          \
    X(LOG, "log", "natural logarithm of x")                       \
    X(SIN, "sin", "sine of x")                                    \
    X(COS, "cos", "cosine of x")                                  \
    X(TANH, "tanh", "hyperbolic tangent of x")                    \
    X(ERF, "erf", "error function of x")                          \
    X(SIGMOID, "sigmoid", "1 / (1 + e^-x)")                       \
    X(SOFTPLUS, "softplus", "log(1 + e^x), stable for large |x|") \
    X(RELU, "relu", "x < 0 ? 0 : x")                              \
    X(LEAKY_RELU, "leaky_relu", "x < 0 ? p * x : x")              \
    X(ELU, "elu", "x < 0 ? p * (e^x - 1) : x")                    \
    X(GELU, "gelu", "x/2 (1 + erf(x / sqrt 2))")                  \
    X(SCALE, "scale", "p * x")                                    \
    X(SHIFT, "shift", "p + x")

typedef enum lk_map1_op {
#define X(code, name, formula) LK_MAP1_##code,
    LK_MAP1_MAP(X)
#undef X
        LK_N_MAP1
} lk_map1_op;

/* Functions of two arguments. */
#define LK_MAP2_MAP(X)                                                          \
    X(ADD, "add", "x + y")                                                      \
    X(SUB, "sub", "x - y")                                                      \
    X(MUL, "mul", "x * y")                                                      \
    X(DIV, "div", "x / y")                                                      \
    X(POW, "pow", "x^y")                                                        \
    X(MAX, "max", "the larger of x and y, x of equal ones; NaN if one is NaN")  \
    X(MIN, "min", "the smaller of x and y, x of equal ones; NaN if one is NaN") \
    X(AXPY, "axpy", "fma(p, x, y)")

typedef enum lk_map2_op {
#define X(code, name, formula) LK_MAP2_##code,
    LK_MAP2_MAP(X)
#undef X
        LK_N_MAP2
} lk_map2_op;

/** Name and formula of a map, for tables; "?" for a value that is none. */
LK_API const char *lk_map1_name(lk_map1_op op);
LK_API const char *lk_map1_formula(lk_map1_op op);
LK_API const char *lk_map2_name(lk_map2_op op);
LK_API const char *lk_map2_formula(lk_map2_op op);

/**
 * y[i] = op(x[i]; p) for i < n.
 *
 * Not collective.  `dtype` is f32 or f64; `p` is rounded to it.  `y` may be `x` itself but must not
 * overlap it otherwise.  Where n is 0 the operands may be NULL.
 *
 * Errors: LK_EDTYPE, LK_EINVAL (op, n < 0, a NULL operand), LK_EOVERFLOW, LK_EOVERLAP, LK_EFPENV.
 */
LK_API lk_status lk_map1(lk_dtype dtype, lk_map1_op op, double p, int64_t n, const void *x,
                         void *y) LK_NODISCARD;

/** z[i] = op(x[i], y[i]; p) for i < n.  `z` may be `x` or `y`.  Otherwise as lk_map1(). */
LK_API lk_status lk_map2(lk_dtype dtype, lk_map2_op op, double p, int64_t n, const void *x,
                         const void *y, void *z) LK_NODISCARD;

/** A matrix by rows for lk_softmax_rows(): element (r, c) at r * ld + c. */
typedef struct lk_rows {
    int64_t rows, cols;
    int64_t ld_x, ld_y; /* at least cols */
} lk_rows;

/**
 * y[r][c] = exp(x[r][c] - m_r) / sum_c exp(x[r][c] - m_r), m_r the largest of row r.
 *
 * Not collective.  The sum is the lane sum of lk_reduce_axis() over one piece, the whole row.  `y` may
 * be `x` (with the same ld) but must not share elements with it otherwise.
 *
 * An element of -inf gives 0 (log: -inf).  A row that has a NaN or +inf, or nothing but -inf, has
 * no softmax: all of it becomes NaN.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_EOVERFLOW, LK_EOVERLAP, LK_EFPENV.
 */
LK_API lk_status lk_softmax_rows(lk_dtype dtype, const lk_rows *shape, const void *x,
                                 void *y) LK_NODISCARD;

/** y[r][c] = (x[r][c] - m_r) - log sum_c exp(x[r][c] - m_r).  Otherwise as lk_softmax_rows(). */
LK_API lk_status lk_log_softmax_rows(lk_dtype dtype, const lk_rows *shape, const void *x,
                                     void *y) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_MAP_H */
