/* embedding: rows of a table by number.
 *
 *   y[...][c]    = table[index[...]][c]
 *   dtable[r][c] = sum of dy[...][c] over the positions with index r
 *
 * Each element of dtable is, within a piece of the batch, one chain from +0 over the positions in
 * ascending order; pieces of lk_tape_shard_size() samples are joined by the fixed tree.  A piece without
 * the row counts as +0, which changes no sum, and is skipped.
 */
#include "ops/common/embedding.h"

#include "base/fpenv.h"
#include "kernel/reduce.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/index.h"
#include "ops/common/ops.h"

#include <lockstep/pieces.h>

enum { BLOCK_BYTES = 512 };

lk_status lk__embedding_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *table = c->x[0], *index = c->x[1];
    LK_CHECK(lk_dtype_is_real(table->dtype) && lk__is_index(index->dtype), LK_EDTYPE,
             "embedding of a table %s by %s: the table is f32 or f64, the indices i32 or i64",
             lk_tensor_text(table).s, lk_tensor_text(index).s);
    LK_CHECK(table->shape.ndim == 2 && index->shape.ndim < LK_MAX_NDIM, LK_ESHAPE,
             "embedding of a table %s by %s: the table has two axes, the indices less than %d",
             lk_tensor_text(table).s, lk_tensor_text(index).s, LK_MAX_NDIM);
    out->dtype = table->dtype;
    out->shape = index->shape;
    out->shape.dim[out->shape.ndim++] = table->shape.dim[1];
    return LK_OK;
}

/* ---- forward: copy rows ---- */

typedef struct copy_job {
    const lk_tensor *index;
    lk_range rows; /* that `table` has */
    int64_t bytes; /* of a row */
    const char *table;
    char *y;
} copy_job;

/* Whether a row is one of these; its number among them. */
static bool is_row_of(lk_range rows, int64_t index, int64_t *row)
{
    *row = index - rows.first;
    return *row >= 0 && *row < rows.n;
}

static void copy_task(void *arg, int64_t first, int64_t last)
{
    const copy_job *j = arg;
    for (int64_t i = first; i < last; i++) {
        int64_t row;
        if (is_row_of(j->rows, lk__index_at(j->index, i), &row))
            memcpy(j->y + i * j->bytes, j->table + row * j->bytes, (size_t)j->bytes);
        else
            memset(j->y + i * j->bytes, 0, (size_t)j->bytes);
    }
}

lk_status lk__embedding_copy(const lk_tensor *table, const lk_tensor *index, int64_t first,
                             int64_t all, void *y)
{
    copy_job j = {.index = index,
                  .rows = {first, table->shape.dim[0]},
                  .bytes = table->shape.dim[1] * (int64_t)lk_dtype_size(table->dtype),
                  .table = lk__tensor_start(table),
                  .y = y};
    LK_TRY(lk__index_check(index, all, "embedding: index"));
    return LK_TRACE(lk__parallel(lk__tasks_bytes(index->count, j.bytes), copy_task, &j));
}

static lk_status embedding_forward(lk_call *c)
{
    return LK_TRACE(
        lk__embedding_copy(c->x[0], c->x[1], 0, c->x[0]->shape.dim[0], lk__tensor_start(c->y[0])));
}

/* ---- gradient: add rows ---- */

typedef struct grad_job {
    lk__reduce_join_fn *add;
    int64_t size, bytes;           /* of an element, of a row */
    int64_t per_piece, n_pieces;   /* positions */
    const int64_t *start, *places; /* positions of row r: places[start[r]] to places[start[r+1]] */
    const char *dy;
    char *out;
} grad_job;

/* A block of columns of one row of the table. */
typedef struct grad_block {
    const grad_job *j;
    int64_t from, bytes;
} grad_block;

/* sum = the chain over `places`, which are of one piece. */
static void sum_chain(const grad_block *b, const int64_t *places, int64_t n, char *sum)
{
    memset(sum, 0, (size_t)b->bytes);
    for (int64_t i = 0; i < n; i++)
        b->j->add(b->bytes / b->j->size, sum, b->j->dy + places[i] * b->j->bytes + b->from);
}

/* sum = the tree over `n_pieces` pieces from `piece` on, which have the n > 0 places. */
static void sum_tree(const grad_block *b, const int64_t *places, int64_t n, int64_t piece,
                     int64_t n_pieces, char *sum)
{
    while (n_pieces > 1) {
        int64_t half = lk_tree_half(n_pieces);
        int64_t left = 0, end = (piece + half) * b->j->per_piece;
        while (left < n && places[left] < end)
            left++;
        if (left > 0 && left < n) {
            _Alignas(64) char right[BLOCK_BYTES];
            sum_tree(b, places, left, piece, half, sum);
            sum_tree(b, places + left, n - left, piece + half, n_pieces - half, right);
            b->j->add(b->bytes / b->j->size, sum, right);
            return;
        }
        if (left == 0)
            piece += half;
        n_pieces = left == 0 ? n_pieces - half : half;
    }
    sum_chain(b, places, n, sum);
}

static void grad_task(void *arg, int64_t first, int64_t last)
{
    const grad_job *j = arg;
    for (int64_t r = first; r < last; r++) {
        const int64_t *places = j->places + j->start[r];
        int64_t n = j->start[r + 1] - j->start[r];
        char *row = j->out + r * j->bytes;
        if (n == 0)
            memset(row, 0, (size_t)j->bytes);
        for (int64_t from = 0; n > 0 && from < j->bytes; from += BLOCK_BYTES) {
            grad_block b = {j, from, j->bytes - from};
            if (b.bytes > BLOCK_BYTES)
                b.bytes = BLOCK_BYTES;
            sum_tree(&b, places, n, 0, j->n_pieces, row + from);
        }
    }
}

/* Sort the positions of these rows by index, ascending within each. */
static lk_status sort_places(lk_call *c, const lk_tensor *index, lk_range rows, grad_job *j)
{
    int64_t *start, *places, row;
    LK_TRY(lk_call_scratch(c, (rows.n + 2) * (int64_t)sizeof *start, &start));
    LK_TRY(lk_call_scratch(c, index->count * (int64_t)sizeof *places, &places));
    memset(start, 0, (size_t)(rows.n + 2) * sizeof *start);
    for (int64_t i = 0; i < index->count; i++)
        if (is_row_of(rows, lk__index_at(index, i), &row))
            start[row + 2]++;
    for (int64_t r = 0; r < rows.n; r++)
        start[r + 2] += start[r + 1];
    for (int64_t i = 0; i < index->count; i++)
        if (is_row_of(rows, lk__index_at(index, i), &row))
            places[start[row + 1]++] = i;
    j->start = start;
    j->places = places;
    return LK_OK;
}

static lk_status embedding_grad_infer(lk_call *c, lk_output_spec *out)
{
    lk_shape dy = c->x[0]->shape;
    out->dtype = c->x[0]->dtype;
    out->shape = LK_SHAPE(((const lk_range *)c->attr)->n, dy.dim[dy.ndim - 1]);
    return LK_OK;
}

static lk_status embedding_grad_forward(lk_call *c)
{
    const lk_tensor *dy = c->x[0], *index = c->x[1];
    const lk__reduce_table *t = NULL;
    lk_range rows = *(const lk_range *)c->attr;
    int64_t piece = lk_tape_shard_size(c->tape);
    grad_job j = {.size = (int64_t)lk_dtype_size(dy->dtype),
                  .n_pieces = 1,
                  .dy = lk__tensor_start(dy),
                  .out = lk__tensor_start(c->y[0])};
    LK_TRY(lk__fp_check());
    LK_TRY(lk__reduce_get(&t));
    j.add = t->of[dy->dtype].join[LK_REDUCE_AXIS_SUM];
    j.bytes = c->y[0]->shape.dim[1] * j.size;
    if (c->y[0]->count == 0)
        return LK_OK;
    if (index->count > 0 && index->shape.ndim > 0 && piece > 0 && piece < index->shape.dim[0]) {
        j.per_piece = piece * (index->count / index->shape.dim[0]);
        j.n_pieces = (index->shape.dim[0] - 1) / piece + 1;
    }
    LK_TRY(sort_places(c, index, rows, &j));
    return LK_TRACE(lk__parallel(lk__tasks_bytes(rows.n, j.bytes), grad_task, &j));
}

static lk_status embedding_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_embedding(dout[0], c->in[1], &din[0]));
}

static const lk_op embedding_grad = {
    .name = "embedding_grad",
    .summary = "rows added into a table by number",
    LK_ARITY(2, 1),
    .flags = LK_OP_OVERWRITES, /* a chain from +0 is never -0, so 0 + sum is the sum */
    .attr_size = sizeof(lk_range),
    .saves_in = 2,
    .infer = embedding_grad_infer,
    .forward = embedding_grad_forward,
    .backward = embedding_grad_backward,
};

lk_status lk__embedding_gradient(const lk_call *c, int64_t first, lk_var dy, lk_var *out)
{
    lk_range rows = {first, lk_shape_of(c->in[0]).dim[0]};
    return LK_TRACE(
        lk_apply_gradient(c, 0, &embedding_grad, (lk_var[]){dy, c->in[1]}, 2, &rows, out));
}

static lk_status embedding_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk__embedding_gradient(c, 0, dout[0], &din[0]));
}

const lk_op lk__op_embedding = {
    .name = "embedding",
    .summary = "rows of a table by number",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR,
    .saves_in = 2,
    .infer = lk__embedding_infer,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2, .in = {LK_IN(4, 3), LK_IN_INDEX(4, 6)}},
                                      {.n_in = 2,
                                       .in = {LK_IN(3, 2), LK_IN_INDEX(3, 7, 2)},
                                       .shard_size = 2},
                                      {.n_in = 2, .in = {LK_IN(2, 1), LK_IN_INDEX(2, 1, 1, 3)}},
                                      {0}},
};

lk_status lk_embedding(lk_var table, lk_var index, lk_var *out)
{
    return LK_TRACE(
        lk_apply(table.tape, &lk__op_embedding, (lk_var[]){table, index}, 2, NULL, out));
}
