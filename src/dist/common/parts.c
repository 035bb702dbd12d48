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
#include "ops/common/ops.h"
#include "tensor/tensor.h"

/* Rows of a tensor, by the counts. */
typedef enum rows {
    OWN,         /* those of this rank */
    ALL,         /* those of all ranks together */
    ALL_OF_ROOT, /* the same on root, none elsewhere */
    GOT          /* of alltoall: what comes from all ranks together */
} rows;

/* The `data` of an op; the table of all is below. */
typedef struct parts {
    lk_comm_call call;
    rows in, out;
    const lk_op *adjoint;
} parts;

static int64_t sum_of(const lk_tensor *counts)
{
    const int64_t *count = lk_tensor_data(counts);
    int64_t sum = 0;
    for (int64_t r = 0; r < counts->count; r++)
        sum += count[r];
    return sum;
}

static int64_t rows_of(const lk_call *c, rows which)
{
    const lk__dist *d = c->attr;
    const int64_t *count = lk_tensor_data(c->x[1]);
    const int rank = lk_comm_rank(d->comm);
    switch (which) {
    case OWN: return count[rank];
    case ALL_OF_ROOT: return rank == d->root ? sum_of(c->x[1]) : 0;
    case GOT: return sum_of(c->x[2]);
    default: return sum_of(c->x[1]);
    }
}

/* The output is like the input, but with other rows. */
static lk_status parts_infer(lk_call *c, lk_output_spec *out)
{
    const parts *p = c->op->data;
    const int64_t expected = rows_of(c, p->in);
    LK_CHECK(c->x[0]->shape.dim[0] == expected, LK_ESHAPE,
             "%s: a tensor %s, where the counts of all ranks add up to %lld along its axis",
             c->op->name, lk_tensor_text(c->x[0]).s, (long long)expected);
    LK_TRY(lk__like_infer(c, out));
    out->shape.dim[0] = rows_of(c, p->out);
    return LK_OK;
}

/* The call takes counts of elements. */
static lk_status parts_forward(lk_call *c)
{
    const parts *p = c->op->data;
    const lk__dist *d = c->attr;
    int64_t *counts = NULL, *sent = NULL, row = lk__dist_row(c->x[0]->shape);
    LK_TRY(lk__dist_elements(c, c->x[c->n_in - 1], row, &counts));
    if (p->call == LK_CALL_ALLTOALL)
        LK_TRY(lk__dist_elements(c, c->x[1], row, &sent));
    return LK_TRACE(lk_coll_run(d->comm, &(lk_collective){.call = p->call,
                                                          .name = d->name,
                                                          .in = lk__tensor_start(c->x[0]),
                                                          .out = lk__tensor_start(c->y[0]),
                                                          .counts = counts,
                                                          .in_counts = sent,
                                                          .dtype = c->x[0]->dtype,
                                                          .op = LK_REDUCE_SUM,
                                                          .root = d->root}));
}

/* The adjoint op of dout and the same counts, those of alltoall the other way round. */
static lk_status parts_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const parts *p = c->op->data;
    lk_var in[] = {dout[0], c->in[c->n_in - 1], c->in[1]};
    return LK_TRACE(lk__dist_adjoint_with(c, p->adjoint, LK_REDUCE_SUM, in, c->n_in, din));
}

/* The call, rows that go in and come out, and the adjoint. */
static const parts allgather = {LK_CALL_ALLGATHER, OWN, ALL, &lk__dist_reduce_scatter};
static const parts reduce_scatter = {LK_CALL_REDUCE_SCATTER, ALL, OWN, &lk__dist_allgather};
static const parts gather = {LK_CALL_GATHER, OWN, ALL_OF_ROOT, &lk__dist_scatter};
static const parts scatter = {LK_CALL_SCATTER, ALL_OF_ROOT, OWN, &lk__dist_gather};
static const parts alltoall = {LK_CALL_ALLTOALL, ALL, GOT, &lk__dist_alltoall};

#define PARTS_OP(node, inputs, text)                                         \
    const lk_op lk__dist_##node = {.name = #node,                            \
                                   .summary = (text),                        \
                                   .min_in = (inputs),                       \
                                   .max_in = (inputs),                       \
                                   .n_out = 1,                               \
                                   .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR, \
                                   .attr_size = sizeof(lk__dist),            \
                                   .infer = parts_infer,                     \
                                   .forward = parts_forward,                 \
                                   .backward = parts_backward,               \
                                   .data = &(node)}

PARTS_OP(allgather, 2, "the tensors of all ranks one behind the other");
PARTS_OP(reduce_scatter, 2, "a part of the sum over ranks for each");
PARTS_OP(gather, 2, "the tensors of all ranks one behind the other, on one of them");
PARTS_OP(scatter, 2, "a part of one rank's tensor for each");
PARTS_OP(alltoall, 3, "a part of each rank's tensor for each");
