/* Samples of bcast, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_bcast(comm, in[0], lk_dist_root(s, comm), "check", out));
    return LK_OK;
}

#define SAMPLE(text, who)                                                                    \
    {                                                                                        \
        .name = text, .n_in = 1, .n_out = 1, .shape = shape_same, .run = run, .root = (who), \
        .is_linear = true                                                                    \
    }

const lk_dist_check lk__dist_check_bcast = {
    .name = "bcast",
    .summary = "y = root's x; dx = the sum of dy, on root",
    .samples = (const lk_dist_sample[]){SAMPLE("from the first", 0),
                                        SAMPLE("from the last", -1),
                                        SAMPLE("from the second", 1),
                                        {0}}};
