/* The tree over the blocks of filters that a rank has, block by block: the forward of nodes that give the
 * gradient of x calls it, on the thread of the tape.
 */
#include "dist/common/feature_blocks.h"

#include "base/memory/rehearsal.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

#include <string.h>

enum { DEPTH = 32 };

/* A call under way, and room for the sums of upper halves. */
typedef struct blocks_job {
    lk_call *c;
    lk__feature_block_fn *run;
    int64_t size, held; /* filters of a block, and of this rank */
    int64_t rows;       /* of w */
    void *columns;      /* of w, room for those of a block; NULL: there is one */
    void *room[DEPTH];
} blocks_job;

/* The columns of w of some filters, dense. */
static const void *columns_of(const blocks_job *j, lk_range filters)
{
    const lk_tensor *w = j->c->x[1];
    int64_t elem = (int64_t)lk_dtype_size(w->dtype);
    if (!j->columns)
        return lk__tensor_start(w);
    for (int64_t i = 0; i < j->rows && !lk__rehearses(); i++)
        memcpy((char *)j->columns + i * filters.n * elem,
               lk__tensor_start(w) + (i * j->held + filters.first) * elem,
               (size_t)(filters.n * elem));
    return j->columns;
}

/* The tree over n blocks from `first` on; upper halves come to the room of their depth. */
static lk_status blocks_run(blocks_job *j, int64_t first, int64_t n, int depth, void *dx)
{
    const lk_tensor *y = j->c->y[0];
    if (n == 1) {
        lk_range filters = lk_block_range(j->held, j->size, (lk_range){first, 1});
        return LK_TRACE(j->run(j->c, filters, columns_of(j, filters), dx));
    }
    int64_t half = lk_tree_half(n);
    if (!j->room[depth])
        LK_TRY(lk_call_scratch(j->c, y->count * (int64_t)lk_dtype_size(y->dtype), &j->room[depth]));
    LK_TRY(blocks_run(j, first, half, depth + 1, dx));
    LK_TRY(blocks_run(j, first + half, n - half, depth + 1, j->room[depth]));
    return LK_TRACE(lk_map2(y->dtype, LK_MAP2_ADD, 0, y->count, dx, j->room[depth], dx));
}

lk_status lk__feature_blocks_run(lk_call *c, int64_t size, int64_t rows, lk__feature_block_fn *run)
{
    const lk_tensor *dy = c->x[0];
    blocks_job j = {
        .c = c, .run = run, .size = size, .held = dy->shape.dim[dy->shape.ndim - 1], .rows = rows};
    if (j.held == 0)
        return LK_OK;
    if (j.held > size)
        LK_TRY(lk_call_scratch(c, rows * size * (int64_t)lk_dtype_size(dy->dtype), &j.columns));
    return LK_TRACE(blocks_run(&j, 0, (j.held - 1) / size + 1, 0, lk__tensor_start(c->y[0])));
}
