/* Samples of scatter_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

static lk_status body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list, lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) == root)
        LK_TRY(list_parts(x, lk_comm_size(comm), list));
    LK_TRY(lk_dist_scatter_list(x.tape, comm, list, root, "check", out));
    return LK_OK;
}

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(list_run(body, s, comm, in[0], out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_scatter_list = {
    .name = "scatter_list",
    .summary = "y = xs[rank] of root; dxs[r] = dy of rank r, on root",
    .samples = (const lk_dist_sample[]){LIST_SAMPLE("uneven, from the first", shape_same, 0),
                                        LIST_SAMPLE("uneven, from the last", shape_same, -1),
                                        {0}}};
