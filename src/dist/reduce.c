/* reduce: y = x reduced over all ranks, on root; zeros elsewhere.
 *
 *   sum        dx = root's dy, everywhere
 *   others     as allreduce, of which only root keeps the result: dy of the others is 0
 */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_reduce(lk_comm *comm, lk_var x, lk_reduce_op reduce_op, int root,
                         const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, reduce_op, root, name);
    lk_var all, zeros;
    LK_CHECK(out, LK_EINVAL, "reduce: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk__dist_reduce_check(&d, "reduce"));
    LK_TRY_DIST(comm, lk__dist_check(&d, "reduce", x));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    if (reduce_op == LK_REDUCE_SUM) {
        LK_TRY_DIST(comm, lk_apply(x.tape, &lk__dist_reduce, &x, 1, &d, out));
        return LK_OK;
    }
    lk__dist_noted(&d, "root", root);
    LK_TRY_DIST(comm, lk__dist_reduce_apply(&d, x, &all));
    *out = all;
    if (lk_comm_rank(comm) == root)
        return LK_OK;
    LK_TRY_DIST(comm, lk_zeros_like(all, &zeros));
    LK_TRY_DIST(comm, lk_join(zeros, &all, 1, out)); /* a loss of it is one of x, with gradient 0 */
    return LK_OK;
}

/* ---- samples ---- */

static lk_status reduce_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                               lk_var *out)
{
    return LK_TRACE(lk_dist_reduce(comm, in[0], s->op, lk_dist_root(s, comm), "check", out));
}

const lk_dist_check lk__dist_check_reduce = {
    .name = "reduce",
    .summary =
        "y = the reduction of x, on root; dx = root's dy, times the derivative of the reduction",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("sum to the first", shape_same, reduce_sample), .op = LK_REDUCE_SUM},
        {LINEAR_SAMPLE("sum to the second", shape_same, reduce_sample), .op = LK_REDUCE_SUM,
         .root = 1},
        {LINEAR_SAMPLE("avg to the last", shape_same, reduce_sample), .op = LK_REDUCE_AVG,
         .root = -1},
        {SAMPLE("prod with zeros", shape_same, reduce_sample), .op = LK_REDUCE_PROD, .root = 1,
         .lo = 0.5, .hi = 1.5, .has_zeros = true},
        {SAMPLE("min to the last", shape_same, reduce_sample), .op = LK_REDUCE_MIN, .root = -1},
        {SAMPLE("max to the first", shape_same, reduce_sample), .op = LK_REDUCE_MAX},
        {0}}};
