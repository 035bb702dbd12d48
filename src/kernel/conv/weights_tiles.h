/* The tiles of a weight gradient over one chunk of positions. */
#ifndef LK_KERNEL_CONV_WEIGHTS_TILES_H
#define LK_KERNEL_CONV_WEIGHTS_TILES_H

#include "kernel/conv/weights_plan.h"

/* Where one side's positions are: panels of a chunk, or the caller's tensor.  Element
 * [n][d][h][w] of a slice is at
 *
 *     origin + (start + n * step[0] + d * step[1] + h * step[2] + w * step[3]) * unit
 *
 * where a packed slice has origin `at` and unit `width`, one in place origin `first` and unit 1. */
typedef struct lk__weights_view {
    const void *data;
    int64_t start, step[4];
} lk__weights_view;

/* Memory that the next chunk will read, x and dy, fetched while this one is computed: a little with
 * each pixel of each tile. */
typedef struct lk__weights_ahead {
    const char *from[2];
    int64_t bytes[2];
    int64_t per_task, per_pixel; /* bytes */
} lk__weights_ahead;

/* A stretch, and the chunk of it that is computed. */
typedef struct lk__weights_job {
    lk__weights_plan *p;
    int64_t n_samples, n_pieces; /* of the stretch */
    lk__range box[LK_CUTS];      /* the chunk */
    lk__weights_view x, y;
    lk__weights_ahead ahead;
    void *tree, *dw;
    bool accumulate;
} lk__weights_job;

/**
 * Copy the chunk's part of x and dy as planned, and set the job's views.  `x_room`, `y_room`: as large
 * as the plan says.  Errors: as lk__parallel().
 */
lk_status lk__weights_pack(lk__weights_job *job, const void *x, const void *dy, void *x_room,
                           void *y_room) LK_NODISCARD;

/** Tasks of a chunk: for each pair of slices, the parts of its taps. */
int64_t lk__weights_tasks(const lk__weights_plan *p);

/** Add the chunk to the tiles of tasks [first, last): a lk__task_fn, with a lk__weights_job. */
void lk__weights_tiles(void *job, int64_t first, int64_t last);

#endif /* LK_KERNEL_CONV_WEIGHTS_TILES_H */
