/* Samples of recv_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

/* The root takes lists of one value from any rank, and adds them up. */
static lk_status from_any(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) != root) {
        LK_TRY(lk_dist_send_list(comm, in, 1, root, 8, "check", NULL));
        return LK_OK;
    }
    out[0] = in[0];
    for (int r = 1; r < lk_comm_size(comm); r++) {
        lk_var got;
        lk_list list = {.at = &got, .room = 1};
        LK_TRY(lk_dist_recv_list(in[0].tape, comm, LK_ANY_RANK, 8, "check", &list));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

const lk_dist_check lk__dist_check_recv_list = {
    .name = "recv_list",
    .summary = "the values that were sent here; their dy go back to the sender",
    .samples = (const lk_dist_sample[]){{.name = "from any rank to the last",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = from_any,
                                         .root = -1,
                                         .is_linear = true},
                                        {0}}};
