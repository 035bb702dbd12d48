/* Whole tensors: allreduce, reduce and bcast.
 *
 *   allreduce sum   y = sum of all x      dx = allreduce sum of dy
 *   reduce sum      y = sum, on root      dx = bcast of root's dy
 *   bcast           y = root's x          dx = reduce sum of dy, on root
 */
#include "dist/common/dist.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

static lk_status allreduce_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    return LK_TRACE(lk_allreduce(d->comm, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]),
                                 c->x[0]->count, c->x[0]->dtype, d->reduce_op, d->name));
}

/* The adjoint op, the `data` of each; reduce and bcast are by sums. */
static lk_status whole_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__dist *d = c->attr;
    return LK_TRACE(lk__dist_adjoint_with(c, c->op->data, d->reduce_op, dout, 1, din));
}

const lk_op lk__dist_allreduce = {.name = "allreduce",
                                  .summary = "the sum or mean over ranks",
                                  LK_ARITY(1, 1),
                                  .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                                  .attr_size = sizeof(lk__dist),
                                  .infer = lk__like_infer,
                                  .forward = allreduce_forward,
                                  .backward = whole_backward,
                                  .data = &lk__dist_allreduce};

static lk_status reduce_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    void *y = lk__tensor_start(c->y[0]);
    LK_TRY(lk_reduce(d->comm, lk__tensor_start(c->x[0]), y, c->x[0]->count, c->x[0]->dtype,
                     d->reduce_op, d->root, d->name));
    if (lk_comm_rank(d->comm) != d->root)
        memset(y, 0, (size_t)c->x[0]->count * lk_dtype_size(c->x[0]->dtype));
    return LK_OK;
}

const lk_op lk__dist_reduce = {.name = "reduce",
                               .summary = "the sum over ranks, on one of them",
                               LK_ARITY(1, 1),
                               .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                               .attr_size = sizeof(lk__dist),
                               .infer = lk__like_infer,
                               .forward = reduce_forward,
                               .backward = whole_backward,
                               .data = &lk__dist_bcast};

static lk_status bcast_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    void *y = lk__tensor_start(c->y[0]);
    if (lk_comm_rank(d->comm) == d->root)
        memcpy(y, lk__tensor_start(c->x[0]),
               (size_t)c->x[0]->count * lk_dtype_size(c->x[0]->dtype));
    return LK_TRACE(lk_bcast(d->comm, y, c->x[0]->count, c->x[0]->dtype, d->root, d->name));
}

const lk_op lk__dist_bcast = {.name = "bcast",
                              .summary = "one rank's value, everywhere",
                              LK_ARITY(1, 1),
                              .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                              .attr_size = sizeof(lk__dist),
                              .infer = lk__like_infer,
                              .forward = bcast_forward,
                              .backward = whole_backward,
                              .data = &lk__dist_reduce};
