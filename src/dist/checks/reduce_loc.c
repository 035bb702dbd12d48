/* Samples of reduce_loc, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_reduce_loc(comm, in[0], LK_NO_VAR, s->op, lk_dist_root(s, comm), "check",
                              &out[0], &out[1]));
    return LK_OK;
}

#define SAMPLE(text, how, who)                                                               \
    {                                                                                        \
        .name = (text), .n_in = 1, .n_out = 2, .shape = shape_same, .run = run, .op = (how), \
        .root = (who)                                                                        \
    }

const lk_dist_check lk__dist_check_reduce_loc = {
    .name = "reduce_loc",
    .summary = "as allreduce_loc, on root; dx = root's dy there",
    .samples = (const lk_dist_sample[]){SAMPLE("minloc to the first", LK_REDUCE_MINLOC, 0),
                                        SAMPLE("maxloc to the last", LK_REDUCE_MAXLOC, -1),
                                        {0}}};
