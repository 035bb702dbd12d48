/* Samples of allgather_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

static lk_status body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list, lk_var *out)
{
    (void)s;
    LK_TRY(lk_dist_allgather_list(comm, x, "check", list));
    LK_TRY(list_join(list, lk_comm_size(comm), out));
    return LK_OK;
}

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(list_run(body, s, comm, in[0], out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_allgather_list = {
    .name = "allgather_list",
    .summary = "out[r] = x of rank r; dx = the sum of the dy that are about it",
    .samples = (const lk_dist_sample[]){LIST_SAMPLE("uneven", shape_ragged, 0), {0}}};
