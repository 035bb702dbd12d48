/* allreduce: y = x reduced over all ranks.
 *
 *   sum   dx = sum of all dy
 *   avg   dx = mean of all dy                  (the sum of all dy, over P)
 *   prod  dx_r = (sum of all dy) * product of the x of the others
 *   min, max, minloc, maxloc   see allreduce_loc.c
 *
 * The product of the others is taken of gathered x, without a division, so zeros are no trouble.
 */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

/* ---- prod ---- */

static lk_status prod_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    return LK_TRACE(lk_allreduce(d->comm, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]),
                                 c->x[0]->count, c->x[0]->dtype, LK_REDUCE_PROD, d->name));
}

/* The product of the x of all other ranks. */
static lk_status others(lk_call *c, const lk__dist *g, lk_var *out)
{
    lk_var counts, all, part[2];
    int rank = lk_comm_rank(g->comm), size = lk_comm_size(g->comm), n = 0;
    lk_shape shape = lk_shape_of(c->in[0]), row = {.ndim = shape.ndim + 1, .dim = {1}};
    LK_CHECK(shape.ndim < LK_MAX_NDIM, LK_ESHAPE,
             "the gradient of a product of values with %d axes", shape.ndim);
    for (int k = 0; k < shape.ndim; k++)
        row.dim[k + 1] = shape.dim[k];
    LK_TRY(lk_reshape(c->in[0], row, &all));
    LK_TRY(lk_full(c->tape, LK_I64, LK_SHAPE(size), 1, &counts));
    LK_TRY(lk_apply(c->tape, &lk__dist_allgather, (lk_var[]){all, counts}, 2, g, &all));
    if (rank > 0)
        LK_TRY(lk_slice(all, 0, 0, rank, 1, &part[n++]));
    if (rank + 1 < size)
        LK_TRY(lk_slice(all, 0, rank + 1, size, 1, &part[n++]));
    if (n == 0) {
        return LK_TRACE(lk_full(c->tape, lk_dtype_of(c->in[0]), shape, 1, out));
    }
    LK_TRY(lk_concat(part, n, 0, &all));
    return LK_TRACE(lk_prod(all, LK_AXES(0), out));
}

static lk_status prod_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__dist g;
    lk_var sum, rest;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(lk__dist_adjoint(c->attr, c->op->name, LK_REDUCE_SUM, &g));
    LK_TRY(lk_apply(c->tape, &lk__dist_allreduce, dout, 1, &g, &sum));
    LK_TRY(others(c, &g, &rest));
    return LK_TRACE(lk_mul(sum, rest, &din[0]));
}

static const lk_op allreduce_prod = {.name = "allreduce_prod",
                                     .summary = "the product over ranks",
                                     LK_ARITY(1, 1),
                                     .flags = LK_OP_COLLECTIVE,
                                     .attr_size = sizeof(lk__dist),
                                     .saves_in = 1,
                                     .infer = lk__like_infer,
                                     .forward = prod_forward,
                                     .backward = prod_backward};

/* ---- all ---- */

lk_status lk__dist_reduce_check(const lk__dist *d, const char *call)
{
    bool bits = d->reduce_op == LK_REDUCE_AND || d->reduce_op == LK_REDUCE_OR ||
                d->reduce_op == LK_REDUCE_XOR;
    LK_CHECK((unsigned)d->reduce_op < LK_N_REDUCE_OPS, LK_EINVAL, "%s: %d is no reduce operator",
             call, (int)d->reduce_op);
    LK_CHECK(!bits, LK_ENOTSUP,
             "%s(\"%s\") with %s has no derivative: it acts on bits; use lk_allreduce() on the "
             "elements, outside the tape",
             call, d->name, lk_reduce_op_name(d->reduce_op));
    return LK_OK;
}

lk_status lk__dist_reduce_apply(const lk__dist *d, lk_var x, lk_var *out)
{
    lk_var index;
    switch (d->reduce_op) {
    case LK_REDUCE_SUM:
    case LK_REDUCE_AVG: LK_TRY(lk_apply(x.tape, &lk__dist_allreduce, &x, 1, d, out)); break;
    case LK_REDUCE_PROD: LK_TRY(lk_apply(x.tape, &allreduce_prod, &x, 1, d, out)); break;
    default: LK_TRY(lk__dist_extreme(d, x, LK_NO_VAR, out, &index)); break;
    }
    return LK_OK;
}

lk_status lk_dist_allreduce(lk_comm *comm, lk_var x, lk_reduce_op reduce_op, const char *name,
                            lk_var *out)
{
    lk__dist d = lk__dist_of(comm, reduce_op, 0, name);
    LK_CHECK(out, LK_EINVAL, "allreduce: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk__dist_reduce_check(&d, "allreduce"));
    LK_TRY_DIST(comm, lk__dist_check(&d, "allreduce", x));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    LK_TRY_DIST(comm, lk__dist_reduce_apply(&d, x, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status allreduce_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                  lk_var *out)
{
    return LK_TRACE(lk_dist_allreduce(comm, in[0], s->op, "check", out));
}

const lk_dist_check lk__dist_check_allreduce = {
    .name = "allreduce",
    .summary = "y = the reduction of x; dx = the sum of dy, times the derivative of the reduction",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("sum", shape_same, allreduce_sample), .op = LK_REDUCE_SUM},
        {LINEAR_SAMPLE("avg", shape_same, allreduce_sample), .op = LK_REDUCE_AVG},
        {SAMPLE("prod", shape_same, allreduce_sample), .op = LK_REDUCE_PROD, .lo = 0.5, .hi = 1.5},
        {SAMPLE("prod with zeros", shape_same, allreduce_sample), .op = LK_REDUCE_PROD, .lo = 0.5,
         .hi = 1.5, .has_zeros = true},
        {SAMPLE("min", shape_same, allreduce_sample), .op = LK_REDUCE_MIN},
        {SAMPLE("max", shape_same, allreduce_sample), .op = LK_REDUCE_MAX},
        {LINEAR_SAMPLE("sum of scalars", shape_scalar, allreduce_sample)},
        {0}}};
