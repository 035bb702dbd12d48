/* scatter: y = this rank's part along an axis of root's x; dx = all dy on root, 0 elsewhere.
 *
 * What the others give has no elements that matter: they take part with a tensor without rows, made
 * after root's shape.
 */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

/* Root's shape, with the axis in front, for all. */
static lk_status shape_of_root(const lk__dist *d, lk_shape *shape)
{
    int64_t n[1 + LK_MAX_NDIM] = {shape->ndim};
    for (int k = 0; k < shape->ndim; k++)
        n[1 + k] = shape->dim[k];
    LK_TRY(lk_bcast(d->comm, n, 1 + LK_MAX_NDIM, LK_I64, d->root, d->name));
    shape->ndim = (int)n[0];
    for (int k = 0; k < shape->ndim; k++)
        shape->dim[k] = n[1 + k];
    return LK_OK;
}

lk_status lk_dist_scatter(lk_comm *comm, lk_var x, int axis, int64_t count, int root,
                          const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, root, name);
    lk_var front = x, counts;
    LK_CHECK(out, LK_EINVAL, "scatter: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "scatter", x));
    LK_CHECK(count >= 0, LK_EINVAL, "scatter: count is %lld", (long long)count);
    lk__dist_noted(&d, "axis", axis);
    bool is_root = lk_comm_rank(comm) == root;
    if (is_root)
        LK_TRY_DIST(comm, lk__dist_front("scatter", x, axis, &front));
    lk_shape shape = lk_shape_of(front);
    int64_t sum;
    LK_TRY_DIST(comm, shape_of_root(&d, &shape));
    LK_TRY_DIST(comm, lk__dist_counts(&d, x.tape, count, &sum, &counts));
    LK_TRY_DIST(comm, lk__dist_adds_up("scatter", lk_dtype_of(x), lk__dist_moved_back(shape, axis),
                                       axis, sum));
    if (!is_root) {
        shape.dim[0] = 0;
        LK_TRY_DIST(comm, lk_full(x.tape, lk_dtype_of(x), shape, 0, &front));
    }
    LK_TRY_DIST(comm,
                lk_apply(x.tape, &lk__dist_scatter, (lk_var[]){front, counts}, 2, &d, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, axis, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status scatter_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                lk_var *out)
{
    return LK_TRACE(lk_dist_scatter(comm, in[0], s->axis, asked(lk_comm_rank(comm)),
                                    lk_dist_root(s, comm), "check", out));
}

const lk_dist_check lk__dist_check_scatter = {
    .name = "scatter",
    .summary = "y = own part of root's x; dx = all dy, on root",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("axis 0, uneven, from the first", shape_whole, scatter_sample)},
        {LINEAR_SAMPLE("axis 1, uneven, from the last", shape_whole, scatter_sample), .axis = 1,
         .root = -1},
        {LINEAR_SAMPLE("axis 2, uneven, from the second", shape_whole, scatter_sample), .axis = 2,
         .root = 1},
        {0}}};
