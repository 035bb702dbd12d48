/* min and max over ranks, and where they are.
 *
 *   y = the smallest or largest of all x, index = the lowest index among those that have it
 *   dx_r = the sum of all dy where rank r is the lowest that has it, else 0
 *
 * Values and indices travel as pairs, reduced by minloc or maxloc.  Without indices the program's ranks
 * are taken, and the index says who has it; otherwise a second reduction finds the lowest rank.
 */
#include "coll/pairs.h"
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"
#include "tensor/tensor.h"

/* Outputs: the value, its index, and 1 where this rank is the one that has it, else 0. */
static lk_status extreme_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    LK_CHECK(x->dtype != LK_F16 && x->dtype != LK_BF16, LK_EDTYPE,
             "allreduce: min and max of %s: not for f16 and bf16", lk_tensor_text(x).s);
    if (c->n_in > 1) {
        LK_CHECK(c->x[1]->dtype == LK_I64, LK_EDTYPE, "allreduce_loc: the index is %s, must be i64",
                 lk_tensor_text(c->x[1]).s);
        LK_CHECK(lk_shape_is_equal(c->x[1]->shape, x->shape), LK_ESHAPE,
                 "allreduce_loc: a value %s with the index %s", lk_tensor_text(x).s,
                 lk_tensor_text(c->x[1]).s);
    }
    out[0] = (lk_output_spec){.dtype = x->dtype, .shape = x->shape};
    out[1] = (lk_output_spec){.dtype = LK_I64, .shape = x->shape};
    out[2] = (lk_output_spec){.dtype = LK_U8, .shape = x->shape};
    return LK_OK;
}

/* This rank is the lowest one that has the pair: mine[i], from 1 where it has it at all. */
static lk_status lowest(lk_call *c, uint8_t *mine, int64_t n)
{
    const lk__dist *d = c->attr;
    int32_t *owner = NULL, rank = lk_comm_rank(d->comm);
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *owner, &owner));
    for (int64_t i = 0; i < n; i++)
        owner[i] = mine[i] ? rank : INT32_MAX;
    LK_TRY(lk_allreduce(d->comm, NULL, owner, n, LK_I32, LK_REDUCE_MIN, d->name));
    for (int64_t i = 0; i < n; i++)
        mine[i] = owner[i] == rank;
    return LK_OK;
}

static lk_status extreme_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    const lk_tensor *x = c->x[0];
    const size_t size = lk_dtype_size(x->dtype);
    const int64_t n = x->count, *given = c->n_in > 1 ? lk_tensor_data(c->x[1]) : NULL;
    const char *from = lk__tensor_start(x);
    char *to = lk__tensor_start(c->y[0]);
    int64_t *where = (int64_t *)(void *)lk__tensor_start(c->y[1]);
    uint8_t *mine = (uint8_t *)lk__tensor_start(c->y[2]);
    const int rank = lk_comm_rank(d->comm);
    lk_value_index *pair = NULL;
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *pair, &pair));
    for (int64_t i = 0; i < n; i++) {
        pair[i] = (lk_value_index){.index = given ? given[i] : rank};
        memcpy(&pair[i].value, from + (size_t)i * size, size);
    }
    LK_TRY(lk__allreduce_pairs(d->comm, pair, n, x->dtype, d->reduce_op, d->name));
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * size, &pair[i].value, size);
        where[i] = pair[i].index;
        mine[i] = pair[i].index == (given ? given[i] : rank) &&
                  (!given || memcmp(&pair[i].value, from + (size_t)i * size, size) == 0);
    }
    if (given)
        LK_TRY(lowest(c, mine, n));
    return LK_OK;
}

static lk_status extreme_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__dist g;
    lk_var sum, zero;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(lk__dist_adjoint(c->attr, c->op->name, LK_REDUCE_SUM, &g));
    LK_TRY(lk_apply(c->tape, &lk__dist_allreduce, dout, 1, &g, &sum));
    LK_TRY(lk_zeros_like(c->in[0], &zero));
    return LK_TRACE(lk_where(c->out[2], sum, zero, &din[0]));
}

static const lk_op extreme = {.name = "allreduce_loc",
                              .summary = "the smallest or largest over ranks, and where it is",
                              .min_in = 1,
                              .max_in = 2,
                              .n_out = 3,
                              .flags = LK_OP_COLLECTIVE,
                              .attr_size = sizeof(lk__dist),
                              .infer = extreme_infer,
                              .forward = extreme_forward,
                              .backward = extreme_backward};

lk_status lk__dist_extreme(const lk__dist *d, lk_var x, lk_var index, lk_var *value, lk_var *where)
{
    lk_var out[3];
    LK_TRY(lk_apply(x.tape, &extreme, (lk_var[]){x, index}, lk_is_var(index) ? 2 : 1, d, out));
    *value = out[0];
    *where = out[1];
    return LK_OK;
}

static lk_status loc_check(const lk__dist *d, const char *call, lk_var x, lk_var *value,
                           lk_var *where)
{
    LK_CHECK(value && where, LK_EINVAL, "%s: %s is NULL", call, value ? "where" : "value");
    *value = *where = LK_NO_VAR;
    LK_CHECK(d->reduce_op == LK_REDUCE_MINLOC || d->reduce_op == LK_REDUCE_MAXLOC, LK_EINVAL,
             "%s(\"%s\") with %s: only minloc and maxloc have an index", call, d->name,
             lk_reduce_op_name(d->reduce_op));
    return LK_TRACE(lk__dist_check(d, call, x));
}

lk_status lk_dist_allreduce_loc(lk_comm *comm, lk_var x, lk_var index, lk_reduce_op reduce_op,
                                const char *name, lk_var *value, lk_var *where)
{
    lk__dist d = lk__dist_of(comm, reduce_op, 0, name);
    LK_TRY_DIST(comm, loc_check(&d, "allreduce_loc", x, value, where));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    LK_TRY_DIST(comm, lk__dist_extreme(&d, x, index, value, where));
    return LK_OK;
}

lk_status lk_dist_reduce_loc(lk_comm *comm, lk_var x, lk_var index, lk_reduce_op reduce_op,
                             int root, const char *name, lk_var *value, lk_var *where)
{
    lk__dist d = lk__dist_of(comm, reduce_op, root, name);
    lk_var all, at;
    LK_TRY_DIST(comm, loc_check(&d, "reduce_loc", x, value, where));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    lk__dist_noted(&d, "root", root);
    LK_TRY_DIST(comm, lk__dist_extreme(&d, x, index, value, where));
    if (lk_comm_rank(comm) == root)
        return LK_OK;
    all = *value;
    at = *where;
    LK_TRY_DIST(comm, lk_zeros_like(all, value));
    LK_TRY_DIST(comm, lk_join(*value, &all, 1, value));
    LK_TRY_DIST(comm, lk_zeros_like(at, where));
    return LK_OK;
}

/* ---- samples ---- */

#define LOC_SAMPLE(text, runs, how, owner)                                                      \
    {                                                                                           \
        .name = (text), .n_in = 1, .n_out = 2, .shape = shape_same, .run = (runs), .op = (how), \
        .root = (owner)                                                                         \
    }

static lk_status allreduce_loc_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                      lk_var *out)
{
    return LK_TRACE(
        lk_dist_allreduce_loc(comm, in[0], LK_NO_VAR, s->op, "check", &out[0], &out[1]));
}

const lk_dist_check lk__dist_check_allreduce_loc = {
    .name = "allreduce_loc",
    .summary = "y = the smallest or largest x, and who has it; dx = the sum of dy there",
    .samples = (const lk_dist_sample[]){
        LOC_SAMPLE("minloc", allreduce_loc_sample, LK_REDUCE_MINLOC, 0),
        LOC_SAMPLE("maxloc", allreduce_loc_sample, LK_REDUCE_MAXLOC, 0),
        {0}}};

static lk_status reduce_loc_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                   lk_var *out)
{
    return LK_TRACE(lk_dist_reduce_loc(comm, in[0], LK_NO_VAR, s->op, lk_dist_root(s, comm),
                                       "check", &out[0], &out[1]));
}

const lk_dist_check lk__dist_check_reduce_loc = {
    .name = "reduce_loc",
    .summary = "as allreduce_loc, on root; dx = root's dy there",
    .samples = (const lk_dist_sample[]){
        LOC_SAMPLE("minloc to the first", reduce_loc_sample, LK_REDUCE_MINLOC, 0),
        LOC_SAMPLE("maxloc to the last", reduce_loc_sample, LK_REDUCE_MAXLOC, -1),
        {0}}};
