/* Parts along axis 0: allgather, reduce_scatter, gather, scatter and alltoall.
 *
 *   allgather       y = all x one behind the other        dx = reduce_scatter of dy
 *   reduce_scatter  y = own part of the sum of all x      dx = allgather of dy
 *   gather          the same on root                      dx = scatter of root's dy
 *   scatter         y = own part of root's x              dx = gather of dy, on root
 *   alltoall        y = part for this rank of each x      dx = alltoall of dy
 *
 * Inputs are the tensor and the counts of all ranks, of alltoall those it sends and those it gets.
 * A rank that is not root gives a tensor without rows to scatter, and gets one from gather.
 */
#include "dist/common/dist.h"
#include "tensor/tensor.h"

static int64_t sum_of(const lk_tensor *counts)
{
    const int64_t *count = lk_tensor_data(counts);
    int64_t sum = 0;
    for (int64_t r = 0; r < counts->count; r++)
        sum += count[r];
    return sum;
}

static int64_t own_of(const lk_call *c)
{
    const int64_t *count = lk_tensor_data(c->x[1]);
    return count[lk_comm_rank(((const lk__dist *)c->attr)->comm)];
}

/* The output: like the input, but with `rows` along axis 0. */
static void rows_spec(const lk_call *c, int64_t rows, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[0] = rows;
}

static lk_status rows_check(const lk_call *c, int64_t rows)
{
    LK_CHECK(c->x[0]->shape.dim[0] == rows, LK_ESHAPE,
             "%s: a tensor %s, where the counts of all ranks add up to %lld along its axis",
             c->op->name, lk_tensor_text(c->x[0]).s, (long long)rows);
    return LK_OK;
}

/* Do a call that takes counts of elements. */
static lk_status move(lk_call *c, lk_comm_call call, lk_reduce_op reduce_op)
{
    const lk__dist *d = c->attr;
    int64_t *counts = NULL, *sent = NULL, row = lk__dist_row(c->x[0]->shape);
    LK_TRY(lk__dist_elements(c, c->x[c->n_in - 1], row, &counts));
    if (call == LK_CALL_ALLTOALL)
        LK_TRY(lk__dist_elements(c, c->x[1], row, &sent));
    LK_TRY(lk_coll_run(d->comm, &(lk_collective){.call = call,
                                                 .name = d->name,
                                                 .in = lk__tensor_start(c->x[0]),
                                                 .out = lk__tensor_start(c->y[0]),
                                                 .counts = counts,
                                                 .in_counts = sent,
                                                 .dtype = c->x[0]->dtype,
                                                 .op = reduce_op,
                                                 .root = d->root}));
    return LK_OK;
}

/* Apply the adjoint op, to dout and the same counts. */
static lk_status adjoint(lk_call *c, const lk_op *op, lk_var dout, lk_var *din)
{
    lk_var in[] = {dout, c->in[1]};
    LK_TRY(lk__dist_adjoint_with(c, op, LK_REDUCE_SUM, in, 2, din));
    return LK_OK;
}

static bool is_root(const lk_call *c)
{
    const lk__dist *d = c->attr;
    return lk_comm_rank(d->comm) == d->root;
}

#define PARTS_OP(node, inputs, text)                                         \
    const lk_op lk__dist_##node = {.name = #node,                            \
                                   .summary = text,                          \
                                   .min_in = inputs,                         \
                                   .max_in = inputs,                         \
                                   .n_out = 1,                               \
                                   .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR, \
                                   .attr_size = sizeof(lk__dist),            \
                                   .infer = node##_infer,                    \
                                   .forward = node##_forward,                \
                                   .backward = node##_backward}

static lk_status allgather_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(rows_check(c, own_of(c)));
    rows_spec(c, sum_of(c->x[1]), out);
    return LK_OK;
}

static lk_status allgather_forward(lk_call *c)
{
    LK_TRY(move(c, LK_CALL_ALLGATHER, LK_REDUCE_SUM));
    return LK_OK;
}

static lk_status allgather_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_TRY(adjoint(c, &lk__dist_reduce_scatter, dout[0], din));
    return LK_OK;
}

PARTS_OP(allgather, 2, "the tensors of all ranks one behind the other");

static lk_status reduce_scatter_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(rows_check(c, sum_of(c->x[1])));
    rows_spec(c, own_of(c), out);
    return LK_OK;
}

static lk_status reduce_scatter_forward(lk_call *c)
{
    LK_TRY(move(c, LK_CALL_REDUCE_SCATTER, LK_REDUCE_SUM));
    return LK_OK;
}

static lk_status reduce_scatter_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_TRY(adjoint(c, &lk__dist_allgather, dout[0], din));
    return LK_OK;
}

PARTS_OP(reduce_scatter, 2, "a part of the sum over ranks for each");

static lk_status gather_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(rows_check(c, own_of(c)));
    rows_spec(c, is_root(c) ? sum_of(c->x[1]) : 0, out);
    return LK_OK;
}

static lk_status gather_forward(lk_call *c)
{
    LK_TRY(move(c, LK_CALL_GATHER, LK_REDUCE_SUM));
    return LK_OK;
}

static lk_status gather_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_TRY(adjoint(c, &lk__dist_scatter, dout[0], din));
    return LK_OK;
}

PARTS_OP(gather, 2, "the tensors of all ranks one behind the other, on one of them");

static lk_status scatter_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(rows_check(c, is_root(c) ? sum_of(c->x[1]) : 0));
    rows_spec(c, own_of(c), out);
    return LK_OK;
}

static lk_status scatter_forward(lk_call *c)
{
    LK_TRY(move(c, LK_CALL_SCATTER, LK_REDUCE_SUM));
    return LK_OK;
}

static lk_status scatter_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_TRY(adjoint(c, &lk__dist_gather, dout[0], din));
    return LK_OK;
}

PARTS_OP(scatter, 2, "a part of one rank's tensor for each");

static lk_status alltoall_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(rows_check(c, sum_of(c->x[1])));
    rows_spec(c, sum_of(c->x[2]), out);
    return LK_OK;
}

static lk_status alltoall_forward(lk_call *c)
{
    LK_TRY(move(c, LK_CALL_ALLTOALL, LK_REDUCE_SUM));
    return LK_OK;
}

static lk_status alltoall_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[2], c->in[1]};
    LK_TRY(lk__dist_adjoint_with(c, &lk__dist_alltoall, LK_REDUCE_SUM, in, 3, din));
    return LK_OK;
}

PARTS_OP(alltoall, 3, "a part of each rank's tensor for each");
