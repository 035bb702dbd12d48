/* Samples of barrier, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    (void)s;
    LK_TRY(lk_dist_barrier(in[0].tape, comm, "check"));
    LK_TRY(lk_dist_allreduce(comm, in[0], LK_REDUCE_SUM, "check", out));
    LK_TRY(lk_dist_barrier(in[0].tape, comm, "check"));
    return LK_OK;
}

const lk_dist_check lk__dist_check_barrier = {
    .name = "barrier",
    .summary = "all ranks wait for each other; in backward the same",
    .samples = (const lk_dist_sample[]){{.name = "around an allreduce",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = run,
                                         .is_linear = true},
                                        {0}}};
