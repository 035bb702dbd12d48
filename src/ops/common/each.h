/* Element-wise computation with broadcasting, for ops: functions on runs (kernel/each.h) whose
 * operands are the tensors of a call.
 */
#ifndef LK_OPS_COMMON_EACH_H
#define LK_OPS_COMMON_EACH_H

#include "kernel/each.h"

#include <lockstep/op.h>

/* Flags of an op whose forward is lk__each_run(). */
enum { LK_EACH_FLAGS = LK_OP_STRIDED | LK_OP_ACCUMULATES | LK_OP_OVERWRITES };

/** y[0] = fn of the inputs, which are broadcast to its shape; or y[0] + that, or 0 + that, as the call
 * says.  For ops with LK_EACH_FLAGS. */
lk_status lk__each_run(lk_call *c, lk__each_fn *fn, double p) LK_NODISCARD;

/**
 * The infer of an element-wise op: all inputs have one real dtype, and the output has it and the
 * shape that all inputs can be broadcast to.  Errors: LK_EDTYPE, LK_ESHAPE naming both.
 */
lk_status lk__each_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** *out = g summed over the axes that input `i` was broadcast along: its gradient from one of the
 * output's shape.  g itself if there are none. */
lk_status lk__each_grad(const lk_call *c, int i, lk_var g, lk_var *out) LK_NODISCARD;

/** The same of the output of `op`, which has the shape of the call's output: straight into the leaf's
 * gradient where lk_apply_gradient() can. */
lk_status lk__each_grad_apply(const lk_call *c, int i, const lk_op *op, const lk_var *in, int n_in,
                              const void *attr, lk_var *out) LK_NODISCARD;

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
