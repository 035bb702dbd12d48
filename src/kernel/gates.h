/* The gates of recurrent cells: one time of one sample, forward and backward.
 *
 * include/lockstep/extra/recurrence.h has the formulas; the products with the recurrent weights are made
 * by kernel/recurrence.c.
 */
#ifndef LK_KERNEL_GATES_H
#define LK_KERNEL_GATES_H

#include "kernel/runtime/isa.h"

#include <lockstep/extra/recurrence.h>

/* Elements of one sample at one time.  `s` [gates * units] is h' u; backward writes ds there. */
typedef struct lk__gates_row {
    int64_t units;
    const void *x, *bias;
    void *s;
    void *before; /* h' [units]; forward replaces it by h */
    void *c;      /* c' [units]; forward replaces it by c, backward dc by dc' */
    void *y;      /* h once more */
    void *kept;
    void *d; /* gradient of h [units]; gru: replaced by what h' gets of it, but for that by s */
    void *dx;
    double forget;
    bool first; /* backward: c does not yet hold a gradient */
} lk__gates_row;

typedef void lk__gates_fn(const lk__gates_row *r);

/* to[i] = to[i] + from[i] for i < n. */
typedef void lk__gates_add_fn(void *to, const void *from, int64_t n);

/* By lk_dtype (f32 and f64) and cell. */
typedef struct lk__gates_table {
    lk__gates_fn *forward[2][LK_N_CELLS], *backward[2][LK_N_CELLS];
    lk__gates_add_fn *add[2];
} lk__gates_table;

LK_ISA_TABLE(lk__gates_table, lk__gates)

#endif /* LK_KERNEL_GATES_H */
