/* Samples of send_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

/* Two values along the line of ranks, each of which passes on what it got and something of its own. */
static lk_status line(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm);
    lk_var token;
    lk_list list = {.at = out, .room = 2};
    (void)s;
    if (rank > 0)
        LK_TRY(lk_dist_recv_list(in[0].tape, comm, rank - 1, 6, "check", &list));
    else
        out[0] = in[0];
    LK_TRY(lk_mul(out[0], in[1], &out[1]));
    if (rank + 1 < lk_comm_size(comm))
        LK_TRY(lk_dist_send_list(comm, out, 2, rank + 1, 6, "check", &token));
    return LK_OK;
}

const lk_dist_check lk__dist_check_send_list = {
    .name = "send_list",
    .summary = "values for dest, of any shapes; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){
        {.name = "along a line", .n_in = 2, .n_out = 2, .shape = shape_same, .run = line}, {0}}};
