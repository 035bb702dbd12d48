/* lk_grid: Cartesian coordinates of ranks, the last axis fastest, and the communicators along its
 * axes.  A plain struct that lk_grid_make() fills in, the same on all ranks; only lk_grid_split() is
 * collective. */
#include <lockstep/comm.h>

#include <stdio.h>

lk_status lk_grid_make(const lk_comm *comm, int ndim, const int *dim, const bool *periodic,
                       lk_grid *out)
{
    LK_CHECK(comm && dim && out, LK_EINVAL, "%s is NULL", !comm ? "comm" : !dim ? "dim" : "out");
    LK_CHECK(ndim >= 1 && ndim <= LK_MAX_GRID, LK_EINVAL, "a grid of %d axes: give 1 to %d", ndim,
             LK_MAX_GRID);
    int64_t product = 1;
    char text[128] = "";
    for (int k = 0, used = 0; k < ndim; k++) {
        LK_CHECK(dim[k] >= 1, LK_EINVAL, "axis %d of the grid has size %d", k, dim[k]);
        product = product > INT32_MAX ? product : product * dim[k];
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", k ? "x" : "", dim[k]);
    }
    LK_CHECK(product == lk_comm_size(comm), LK_ESHAPE,
             "a grid of %s has %s%lld places, the communicator has %d ranks", text,
             product > INT32_MAX ? "more than " : "",
             (long long)(product > INT32_MAX ? INT32_MAX : product), lk_comm_size(comm));
    lk_grid g = {.ndim = ndim};
    int rest = lk_comm_rank(comm);
    for (int k = ndim - 1; k >= 0; k--) {
        g.dim[k] = dim[k];
        g.periodic[k] = periodic && periodic[k];
        g.at[k] = rest % dim[k];
        rest /= dim[k];
    }
    *out = g;
    return LK_OK;
}

int lk_grid_rank(const lk_grid *g, const int *step)
{
    int rank = 0;
    for (int k = 0; k < g->ndim; k++) {
        int64_t at = (int64_t)g->at[k] + step[k], dim = g->dim[k];
        if (g->periodic[k])
            at = (at % dim + dim) % dim;
        if (at < 0 || at >= dim)
            return -1;
        rank = rank * g->dim[k] + (int)at;
    }
    return rank;
}

lk_status lk_grid_split(lk_comm *comm, const lk_grid *g, const bool *keep, lk_comm **out)
{
    LK_CHECK(comm && g && keep, LK_EINVAL, "%s is NULL", !comm ? "comm" : g ? "keep" : "grid");
    int color = 0;
    for (int k = 0; k < g->ndim; k++)
        if (!keep[k])
            color = color * g->dim[k] + g->at[k];
    return LK_TRACE(lk_comm_split(comm, color, lk_comm_rank(comm), out));
}
