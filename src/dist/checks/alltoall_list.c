/* Samples of alltoall_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

static lk_status body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list, lk_var *out)
{
    int size = lk_comm_size(comm);
    (void)s;
    LK_TRY(list_parts(x, size, list));
    LK_TRY(lk_dist_alltoall_list(comm, list, "check", list + size));
    LK_TRY(list_join(list + size, size, out));
    return LK_OK;
}

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(list_run(body, s, comm, in[0], out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_alltoall_list = {
    .name = "alltoall_list",
    .summary = "out[r] = xs[rank] of rank r; dxs the same of dout",
    .samples = (const lk_dist_sample[]){LIST_SAMPLE("uneven", shape_same, 0), {0}}};
