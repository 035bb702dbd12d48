/* Element-wise computation with broadcasting, for ops.
 *
 * An op is a function on short runs of elements: it gets each input as `n` consecutive elements,
 * whatever the shapes and strides of the tensors are, and writes `n` elements of the output.  Runs
 * are spread over the pool's threads; each output depends on its own inputs alone, so their lengths
 * do not matter.  They are at most LK_EACH_RUN long, so what a function computes on the way fits
 * into an lk__each_room on the stack.
 */
#ifndef LK_OPS_COMMON_EACH_H
#define LK_OPS_COMMON_EACH_H

#include <lockstep/extra/map.h>
#include <lockstep/op.h>

enum { LK_EACH_MAX_IN = 4, LK_EACH_RUN = 512 };

/* Room for a run of either type. */
typedef union lk__each_room {
    _Alignas(64) float f32[LK_EACH_RUN];
    double f64[LK_EACH_RUN];
} lk__each_room;

/* A run of elements. */
typedef struct lk__each {
    lk_dtype dtype; /* of the output */
    double p;       /* the op's parameter */
    const void *attr;
    int64_t first, n;              /* elements of the output, counted in row-major order */
    const void *x[LK_EACH_MAX_IN]; /* x[0] where there are fewer inputs */
    void *y;
} lk__each;

typedef lk_status lk__each_fn(const lk__each *e);

/** y[0] = fn of the inputs, which are broadcast to its shape.  For ops with LK_OP_STRIDED. */
lk_status lk__each_run(lk_call *c, lk__each_fn *fn, double p) LK_NODISCARD;

/**
 * The infer of an element-wise op: all inputs have one real dtype, and the output has it and the
 * shape that all inputs can be broadcast to.  Errors: LK_EDTYPE, LK_ESHAPE naming both.
 */
lk_status lk__each_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** *out = g summed over the axes that input `i` was broadcast along: its gradient from one of the
 * output's shape.  g itself if there are none. */
lk_status lk__each_grad(const lk_call *c, int i, lk_var g, lk_var *out) LK_NODISCARD;

/** y[i] = op(x[i]; p) and z[i] = op(x[i], y[i]) for a run, as lk_map1() and lk_map2() have it. */
lk_status lk__each_map1(const lk__each *e, lk_map1_op op, const void *x, void *y) LK_NODISCARD;
lk_status lk__each_map2(const lk__each *e, lk_map2_op op, const void *x, const void *y,
                        void *z) LK_NODISCARD;

/* Define `name`, an lk__each_fn that writes `expr` of a, b, c and d, elements of the inputs, and p.
 * `real` is the type, float or double; constants that are not integers need a cast to it. */
#define LK_EACH(name, expr)                  \
    static lk_status name(const lk__each *e) \
    {                                        \
        if (e->dtype == LK_F32)              \
            LK_EACH_LOOP(float, expr)        \
        else                                 \
            LK_EACH_LOOP(double, expr)       \
        return LK_OK;                        \
    }

/* The same for an op with attributes: `attr` is a copy of them, of type `attr_type`. */
#define LK_EACH_ATTR(name, attr_type, expr)                 \
    static lk_status name(const lk__each *e)                \
    {                                                       \
        const attr_type attr = *(const attr_type *)e->attr; \
        if (e->dtype == LK_F32)                             \
            LK_EACH_LOOP(float, expr)                       \
        else                                                \
            LK_EACH_LOOP(double, expr)                      \
        return LK_OK;                                       \
    }

/* A map of lk_map1() of the input. */
#define LK_EACH_MAP1(name, code)                                 \
    static lk_status name(const lk__each *e)                     \
    {                                                            \
        LK_TRY(lk__each_map1(e, LK_MAP1_##code, e->x[0], e->y)); \
        return LK_OK;                                            \
    }

#define LK_EACH_LOOP(type, expr)                                               \
    {                                                                          \
        typedef type real;                                                     \
        const real *xa = e->x[0], *xb = e->x[1], *xc = e->x[2], *xd = e->x[3]; \
        real *restrict y = e->y;                                               \
        const real p = (real)e->p;                                             \
        (void)p;                                                               \
        for (int64_t i = 0; i < e->n; i++) {                                   \
            const real a = xa[i], b = xb[i], c = xc[i], d = xd[i];             \
            (void)a;                                                           \
            (void)b;                                                           \
            (void)c;                                                           \
            (void)d;                                                           \
            y[i] = (real)(expr);                                               \
        }                                                                      \
    }

#endif /* LK_OPS_COMMON_EACH_H */
