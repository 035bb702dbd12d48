/* A pass over a recurrence: what its tasks, blocks of samples, work on.
 *
 * A pass runs all times at once, by lk_recurrence_forward() and _backward(), or, where others have parts of
 * the state, time by time: the caller goes through these functions, on one thread, and between two times lets
 * the others have what this part gives.
 */
#ifndef LK_KERNEL_RECURRENCE_H
#define LK_KERNEL_RECURRENCE_H

#include "kernel/gates.h"
#include "kernel/micro.h"
#include "kernel/runtime/parallel.h"

/* A state of which r->units units are here: `x`, `y`, `kept` and all states have these alone, and u is
 * [all][gates * units]. */
typedef struct lk__recurrence_parts {
    int64_t all;          /* units of the state as a whole */
    int n, own;           /* parts, and which is here */
    const int64_t *first; /* [n + 1]: part p has the units from first[p] to first[p + 1] */
    /* [part][sample][its units].  Forward reads h' there, which is v->h of all parts; backward writes ds u' of
     * the units that are here. */
    void *by_part;
    const void *joined; /* backward: [samples][units], ds u' of all parts, of the units here */
    void *
        before; /* [samples][times][all], h' of each time: forward writes, backward reads it; forward: NULL */
} lk__recurrence_parts;

typedef struct lk__recurrence_job {
    const lk_recurrence *r;
    const lk_recurrence_values *v;
    const lk_recurrence_grads *g;      /* NULL: forward */
    const lk__recurrence_parts *parts; /* NULL: all units are here */
    const lk__rows_type *rows;
    lk__gates_fn *gates;
    lk__gates_add_fn *add;
    int64_t elem, wide, kept; /* bytes of an element; elements of s, and of `kept` at one time */
    int64_t all;              /* units of the state as a whole */
    int64_t ld_s, ld_kept, ld_h, ld_all; /* elements of rows in the room */
    int64_t ld_sums;                     /* the same for sums of pieces, of each sample */
    int64_t row_bytes;                   /* of the room, for each sample */
    int64_t block;                       /* samples of a task */
    lk__tasks tasks;
    int64_t now;         /* the time of a step */
    char *packed, *room; /* the weights, in panels of the rows micro-kernel; rows */
} lk__recurrence_job;

/** Sizes of the job, whose r, v, g and parts are set, and bytes that it needs as room. */
lk_status lk__recurrence_size(lk__recurrence_job *j, int64_t *bytes) LK_NODISCARD;

/** Begin with this room: the weights are packed.  Behind lk__recurrence_size(). */
lk_status lk__recurrence_open(lk__recurrence_job *j, void *room) LK_NODISCARD;

/**
 * With parts: one time, number n in the order in which the cell goes; -1 is before the first.
 *
 * Forward goes from -1 on, and v->h is then the state behind it; backward goes from the last time to -1, where
 * it gives dh0.  Not collective: the caller lets parts have each other's before it goes on.
 */
lk_status lk__recurrence_step(lk__recurrence_job *j, int64_t n) LK_NODISCARD;

/* ---- tasks ---- */

/* The rows of a block in the room: s; h, or d; the whole state, or ds u'; one for what is not kept; and sums
 * of pieces. */
typedef struct lk__recurrence_rows {
    int64_t first, n; /* samples */
    char *s, *h, *other, *spare, *sums;
} lk__recurrence_rows;

/** c [rows][n] = a [rows][k] w of the weights as they are packed: forward k is `all` and n `wide`, backward the
 * other way round, and by pieces. */
void lk__recurrence_multiply(const lk__recurrence_job *j, const lk__recurrence_rows *b,
                             const char *a, int64_t lda, char *c, int64_t ldc);

/** Task of lk__parallel(): blocks [first, last), all times of them. */
void lk__recurrence_blocks(void *job, int64_t first, int64_t last);

/** The same, time j->now alone: see lk__recurrence_step(). */
void lk__recurrence_blocks_now(void *job, int64_t first, int64_t last);

#endif /* LK_KERNEL_RECURRENCE_H */
