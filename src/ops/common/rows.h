/* Computation by rows, for ops: y [rows][n] from inputs of the same shape, or of one row that all
 * share.
 *
 * An op is a function on one row, made of loops (lk__row_loop(), or a map of its own, LK_ROW_MAP) and of
 * the canonical lane sums of lk_reduce_axis().  Rows are spread over the pool's threads; a row is
 * computed by one, in cache.
 */
#ifndef LK_OPS_COMMON_ROWS_H
#define LK_OPS_COMMON_ROWS_H

#include "kernel/loops.h"
#include "kernel/maps.h"
#include "kernel/reduce.h"

#include <lockstep/op.h>

enum { LK_ROW_MAX_IN = 6, LK_ROW_MAX_P = 4 };

/* One row. */
typedef struct lk__row {
    lk_dtype dtype;
    int64_t index, n;
    const void *x[LK_ROW_MAX_IN]; /* n elements each; x[0] where there are fewer inputs */
    void *y, *z;                  /* outputs */
    double p[LK_ROW_MAX_P];       /* numbers of the row, values of its dtype */
    const void *attr;
    const lk__reduce_type *sums;
    lk__loop_fn *const *loops; /* of the dtype */
    const lk__softmax_table *softmax;
} lk__row;

typedef void lk__row_fn(lk__row *r);

/* What lk__rows_run() runs through. */
typedef struct lk__rows {
    lk_dtype dtype;
    int64_t rows, n;
    const void *x[LK_ROW_MAX_IN]; /* NULL ends the list */
    bool shared[LK_ROW_MAX_IN];   /* one row of n elements for all */
    void *y, *z;                  /* the second output may be NULL */
    double p[LK_ROW_MAX_P];       /* the first numbers of every row */
    const void *attr;             /* of the op's own */
    bool overwrite;               /* y = 0 + what the function gives, as in lk_call */
} lk__rows;

/** Run `fn` on every row.  Errors: LK_EFPENV, and those of lk_threads_now() and lk_isa_now(). */
lk_status lk__rows_run(const lk__rows *s, lk__row_fn *fn) LK_NODISCARD;

/** A loop of the row's first inputs to its output, with its first numbers. */
void lk__row_loop(const lk__row *r, lk__loop loop);

/** The lane sum of n elements; a value of the row's dtype. */
double lk__row_sum(const lk__row *r, const void *x);

/** a / n, in the row's dtype. */
double lk__row_over_n(const lk__row *r, double a);

/** 1 / sqrt(a + eps), in the row's dtype. */
double lk__row_rsqrt(const lk__row *r, double a, double eps);

/** Element `i` of x, which has the row's dtype. */
double lk__row_at(const lk__row *r, const void *x, int64_t i);
void lk__row_set(const lk__row *r, void *x, int64_t i, double value);

/* A loop that has no dependence between iterations, even where an input is the output. */
#ifdef __clang__
#    define LK_ROW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define LK_ROW_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Define `name`, a function on a row that writes to r->y the `expr` of a, b, c, d, e and f, elements
 * of the inputs, of o, the element that was there, and of p, q, u and v, the numbers r->p.  `real` is
 * the type, float or double. */
#define LK_ROW_MAP(name, expr)        \
    static void name(lk__row *r)      \
    {                                 \
        if (r->dtype == LK_F32)       \
            LK_ROW_LOOP(float, expr)  \
        else                          \
            LK_ROW_LOOP(double, expr) \
    }

#define LK_ROW_LOOP(type, expr)                                                                \
    {                                                                                          \
        typedef type real;                                                                     \
        const real *xa = r->x[0], *xb = r->x[1], *xc = r->x[2];                                \
        const real *xd = r->x[3], *xe = r->x[4], *xf = r->x[5];                                \
        const real p = (real)r->p[0], q = (real)r->p[1], u = (real)r->p[2], v = (real)r->p[3]; \
        real *y = r->y;                                                                        \
        (void)p, (void)q, (void)u, (void)v;                                                    \
        LK_ROW_INDEPENDENT                                                                     \
        for (int64_t i = 0; i < r->n; i++) {                                                   \
            const real a = xa[i], b = xb[i], c = xc[i], d = xd[i], e = xe[i], f = xf[i];       \
            const real o = y[i];                                                               \
            (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)o;                     \
            y[i] = (real)(expr);                                                               \
        }                                                                                      \
    }

#endif /* LK_OPS_COMMON_ROWS_H */
