/* The loops under the element-wise maps and softmax, one per operation, element type and
 * instruction set. */
#ifndef LK_KERNEL_MAPS_H
#define LK_KERNEL_MAPS_H

#include "kernel/loops.h"

/* z[i] = op(x[i], y[i]; p) for i < n, with the operands as arguments; z may be x or y. */
typedef void lk__map2_fn(int64_t n, double p, const void *x, const void *y, void *z);

/* c[i] = act(c[i]) for i < n. */
typedef void lk__act_fn(void *c, int64_t n);

/* By lk_dtype (f32 and f64) and operation. */
typedef struct lk__maps1_table {
    lk__loop_fn *map[2][LK_N_MAP1];
    lk__act_fn *act[2][LK_N_ACTS];
} lk__maps1_table;

typedef struct lk__maps2_table {
    lk__loop_fn *map[2][LK_N_MAP2];
    lk__map2_fn *add[2];
} lk__maps2_table;

/* One row of n > 0 elements; y may be x. */
typedef void lk__softmax_fn(int64_t n, const void *x, void *y);

/* y = exp(x - max x), *sum = their sum; y may be x. */
typedef void lk__exps_fn(int64_t n, const void *x, void *y, void *sum);

/* *max = max x, *log_sum = log sum exp(x - max x). */
typedef void lk__log_sum_fn(int64_t n, const void *x, void *max, void *log_sum);

typedef struct lk__softmax_table {
    lk__softmax_fn *softmax[2], *log_softmax[2];
    lk__exps_fn *exps[2];
    lk__log_sum_fn *log_sum[2];
} lk__softmax_table;

LK_ISA_TABLE(lk__maps1_table, lk__maps1)
LK_ISA_TABLE(lk__maps2_table, lk__maps2)
LK_ISA_TABLE(lk__softmax_table, lk__softmax)

/**
 * The loop of an activation for the instruction set in use; NULL for LK_ACT_NONE.
 *
 * It computes what lk_map1() computes, on the calling thread, without checks.  Errors: LK_EDTYPE,
 * LK_EINVAL when `act` is none, and those of lk_isa_now().
 */
lk_status lk__act_get(lk_dtype dtype, lk_act act, lk__act_fn **out) LK_NODISCARD;

#endif /* LK_KERNEL_MAPS_H */
