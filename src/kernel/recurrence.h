/* A pass over a recurrence: what its tasks, blocks of samples, work on. */
#ifndef LK_KERNEL_RECURRENCE_H
#define LK_KERNEL_RECURRENCE_H

#include "kernel/gates.h"
#include "kernel/micro.h"

typedef struct lk__recurrence_job {
    const lk_recurrence *r;
    const lk_recurrence_values *v;
    const lk_recurrence_grads *g; /* NULL: forward */
    const lk__rows_type *rows;
    lk__gates_fn *gates;
    lk__gates_add_fn *add;
    int64_t elem, wide, kept;    /* bytes of an element; elements of s, and of `kept` at one time */
    int64_t ld_s, ld_kept, ld_h; /* elements of rows in the room */
    int64_t row_bytes;           /* of the room, for each sample */
    int64_t block;               /* samples of a block */
    char *packed, *room;         /* the weights, in panels of the rows micro-kernel; rows */
} lk__recurrence_job;

/** Task of lk__parallel(): blocks [first, last), all times of them. */
void lk__recurrence_blocks(void *job, int64_t first, int64_t last);

#endif /* LK_KERNEL_RECURRENCE_H */
