/* Sums over tensors that are cut into blocks: one for each block, of which ranks may hold some each.
 *
 * A block is its elements in row-major order, as if it were an array of its own, added up by pieces of 4096;
 * its rows lie apart in the tensor, so they are brought together, some pieces at a time.  Ranks then give
 * each other the sums of their blocks, all tensors at once, and a tensor is the tree over its blocks in
 * double.  norm.c calls this, on the thread of the step; ranks that hold blocks do so together.
 */
#include "optim/optimizer.h"

#include <string.h>

enum { PIECE = 4096, AT_ONCE = 64 };

int64_t lk__cut_blocks(const lk_optimizer_cut *cut)
{
    return cut->n > 0 ? (cut->n - 1) / cut->block + 1 : 0;
}

int64_t lk__blocks_room(const lk_optimizer_cut *cut, int64_t outer)
{
    int64_t most = outer * cut->block * cut->inner;
    return (int64_t)PIECE * AT_ONCE + most / PIECE + AT_ONCE;
}

/* A block in the array of what is held: `rows` runs of `run` elements, `step` apart. */
typedef struct block_rows {
    const char *data;
    int64_t rows, run, step, elem;
    int64_t row, at; /* where reading is */
} block_rows;

/* The next n elements of a block, side by side. */
static void rows_read(block_rows *b, int64_t n, char *out)
{
    while (n > 0) {
        int64_t here = b->run - b->at < n ? b->run - b->at : n;
        memcpy(out, b->data + (b->row * b->step + b->at) * b->elem, (size_t)(here * b->elem));
        out += here * b->elem;
        n -= here;
        b->at += here;
        if (b->at == b->run) {
            b->at = 0;
            b->row++;
        }
    }
}

/* The sum of a block: each piece in the tensor's dtype, then these by the tree. */
static lk_status block_reduce(lk_dtype dtype, lk_reduce_axis_op op, block_rows *b, void *room,
                              double *out)
{
    int64_t elements = b->rows * b->run, done = 0, pieces = 0;
    char *piece = (char *)room + (int64_t)PIECE * AT_ONCE * b->elem;
    union {
        float f32;
        double f64;
    } sum = {.f64 = 0};
    while (done < elements) {
        int64_t n = elements - done < PIECE ? elements - done : PIECE;
        int64_t whole = (elements - done) / PIECE;
        int64_t rows = whole > AT_ONCE ? AT_ONCE : whole > 0 ? whole : 1;
        rows_read(b, rows * n, room);
        LK_TRY(lk_reduce_axis(
            dtype, op, &(lk_reduce_axis_shape){.outer = rows, .n = n, .inner = 1, .piece = n}, room,
            piece + pieces * b->elem));
        done += rows * n;
        pieces += rows;
    }
    if (pieces > 0)
        LK_TRY(lk_reduce_axis(
            dtype, LK_REDUCE_AXIS_SUM,
            &(lk_reduce_axis_shape){.outer = 1, .n = pieces, .inner = 1, .piece = 1}, piece, &sum));
    *out = dtype == LK_F32 ? (double)sum.f32 : sum.f64;
    return LK_OK;
}

/* The blocks of a tensor that are here, at their places in sum; others stay. */
static lk_status tensor_fill(const lk_slab_slice *slice, const lk_optimizer_cut *cut,
                             lk_reduce_axis_op op, const void *data, void *room, double *sum)
{
    int64_t held = cut->held.n * cut->inner, elem = (int64_t)lk_dtype_size(slice->dtype);
    for (int64_t first = cut->held.first, end = first + cut->held.n; first < end;) {
        int64_t block = first / cut->block, behind = (block + 1) * cut->block;
        int64_t n = (behind < end ? behind : end) - first;
        block_rows rows = {.data = (const char *)data + slice->offset +
                                   (first - cut->held.first) * cut->inner * elem,
                           .rows = slice->count / held,
                           .run = n * cut->inner,
                           .step = held,
                           .elem = elem};
        LK_TRY(block_reduce(slice->dtype, op, &rows, room, &sum[block]));
        sum[block] += 0.0; /* no sum of sums depends on the sign of a zero */
        first += n;
    }
    return LK_OK;
}

lk_status lk__blocks_reduce(const lk_update_call *call, lk_reduce_axis_op op, const void *data)
{
    const lk_optimizer_blocks *b = call->blocks;
    int64_t tensors = lk_slab_layout_slices(call->layout), at = 0;
    for (int64_t i = 0; i < tensors; i++) {
        lk_slab_slice slice;
        int64_t n = lk__cut_blocks(&b->cut[i]);
        LK_TRY(lk_slab_layout_slice(call->layout, i, &slice));
        memset(b->sum + at, 0, (size_t)n * sizeof *b->sum);
        if (n > 0 && slice.count > 0)
            LK_TRY(tensor_fill(&slice, &b->cut[i], op, data, b->room, b->sum + at));
        at += n;
    }
    if (b->join)
        LK_TRY(b->join(b->context, b->sum, at));
    return LK_OK;
}

lk_status lk__blocks_tensor(const lk_optimizer_blocks *b, int64_t tensor, double *out)
{
    int64_t at = 0;
    for (int64_t i = 0; i < tensor; i++)
        at += lk__cut_blocks(&b->cut[i]);
    lk_reduce_axis_shape shape = {
        .outer = 1, .n = lk__cut_blocks(&b->cut[tensor]), .inner = 1, .piece = 1};
    return LK_TRACE(lk_reduce_axis(LK_F64, LK_REDUCE_AXIS_SUM, &shape, b->sum + at, out));
}
