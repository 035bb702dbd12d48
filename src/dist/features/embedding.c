/* feature_embedding: rows of a table that is cut over ranks by rows.
 *
 *   y[...][c]    = table[index[...]][c], the bits of the rank that has the row
 *   dtable[r][c] = sum of dy[...][c] over the positions with index r, of the own rows
 *
 * Ranks give the rows that they have and zeros, and are joined by OR on the bits: an allreduce.  Backward
 * sends nothing, for all ranks have all of dy.  Made by lk_dist_feature_embedding(), run on the thread of
 * the tape.
 */
#include "ops/common/embedding.h"

#include "dist/common/features.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_range rows_of(const lk__feature_node *a)
{
    return lk_feature_range(a->split, a->split->rank, a->n);
}

static lk_status rows_infer(lk_call *c, lk_output_spec *out)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *table = c->x[0];
    LK_TRY(lk__embedding_infer(c, out));
    LK_CHECK(table->shape.dim[0] == rows_of(a).n, LK_ESHAPE,
             "%s of a table %s, where this rank has %lld of %lld rows", c->op->name,
             lk_tensor_text(table).s, (long long)rows_of(a).n, (long long)a->n);
    return LK_OK;
}

static lk_status rows_forward(lk_call *c)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *y = c->y[0];
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .out = lk__tensor_start(y),
                          .count = y->count,
                          .dtype = y->dtype == LK_F32 ? LK_I32 : LK_I64,
                          .op = LK_REDUCE_OR};
    LK_TRY(lk__embedding_copy(c->x[0], c->x[1], rows_of(a).first, a->n, call.out));
    return LK_TRACE(lk__feature_run(c, a, &call, y->count * (int64_t)lk_dtype_size(y->dtype)));
}

static lk_status rows_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__embedding_gradient(c, rows_of(c->attr).first, dout[0], &din[0]));
    return LK_OK;
}

static const lk_op embedding = {.name = "feature_embedding",
                                .summary = "rows of a table that is cut by rows",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                                .attr_size = sizeof(lk__feature_node),
                                .saves_in = 2,
                                .infer = rows_infer,
                                .forward = rows_forward,
                                .backward = rows_backward};

lk_status lk_dist_feature_embedding(const lk_feature_split *split, int64_t rows, lk_var table,
                                    lk_var index, const char *name, lk_var *out)
{
    lk__feature_node a;
    LK_TRY(lk__feature_begin(split, embedding.name, table, out));
    LK_CHECK(rows >= 0, LK_EINVAL, "%s: %lld rows", embedding.name, (long long)rows);
    if (!lk__feature_travels(split, rows)) {
        return LK_TRACE(lk_embedding(table, index, out));
    }
    a = lk__feature_of(split, rows, 0, name);
    LK_TRY_DIST(split->comm,
                lk_apply(table.tape, &embedding, (lk_var[]){table, index}, 2, &a, out));
    return LK_OK;
}
