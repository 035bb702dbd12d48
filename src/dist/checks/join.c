#include "dist/checks/shapes.h"

/* x of the first rank for the last, with the tokens of the messages joined to what comes after. */
static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var token[2], got;
    (void)s;
    out[0] = in[0];
    if (rank == 0 && size > 1) {
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 1, "check", &token[0]));
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 2, "check", &token[1]));
        LK_TRY(lk_join(in[0], token, 2, out));
    }
    for (int tag = 1; rank > 0 && rank == size - 1 && tag <= 2; tag++) {
        LK_TRY(lk_dist_recv(in[0].tape, comm, 0, tag, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", &got));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

const lk_dist_check lk_dist_check_join = {
    .name = "join",
    .summary = "y = x, depending on tokens besides; dx = dy",
    .samples = (const lk_dist_sample[]){{.name = "tokens of two messages",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = run,
                                         .is_linear = true},
                                        {0}}};
