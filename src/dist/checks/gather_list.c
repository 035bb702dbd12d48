/* Samples of gather_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

static lk_status body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list, lk_var *out)
{
    int root = lk_dist_root(s, comm);
    LK_TRY(lk_dist_gather_list(comm, x, root, "check", list));
    if (lk_comm_rank(comm) == root)
        LK_TRY(list_join(list, lk_comm_size(comm), out));
    return LK_OK;
}

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(list_run(body, s, comm, in[0], out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_gather_list = {
    .name = "gather_list",
    .summary = "out[r] of root = x of rank r; dx = root's dy about it",
    .samples = (const lk_dist_sample[]){LIST_SAMPLE("uneven, to the first", shape_ragged, 0),
                                        LIST_SAMPLE("uneven, to the last", shape_ragged, -1),
                                        {0}}};
