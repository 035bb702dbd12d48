/* Samples of allreduce_loc, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_allreduce_loc(comm, in[0], LK_NO_VAR, s->op, "check", &out[0], &out[1]));
    return LK_OK;
}

#define SAMPLE(text, how)                                                                   \
    {                                                                                       \
        .name = (text), .n_in = 1, .n_out = 2, .shape = shape_same, .run = run, .op = (how) \
    }

const lk_dist_check lk__dist_check_allreduce_loc = {
    .name = "allreduce_loc",
    .summary = "y = the smallest or largest x, and who has it; dx = the sum of dy there",
    .samples = (const lk_dist_sample[]){
        SAMPLE("minloc", LK_REDUCE_MINLOC), SAMPLE("maxloc", LK_REDUCE_MAXLOC), {0}}};
