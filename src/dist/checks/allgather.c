/* Samples of allgather, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_allgather(comm, in[0], s->axis, "check", out));
    return LK_OK;
}

#define SAMPLE(text, where)                                                                      \
    {                                                                                            \
        .name = text, .n_in = 1, .n_out = 1, .shape = shape_ragged, .run = run, .axis = (where), \
        .is_linear = true                                                                        \
    }

const lk_dist_check lk__dist_check_allgather = {
    .name = "allgather",
    .summary = "y = all x, one behind the other; dx = own part of the sum of dy",
    .samples = (const lk_dist_sample[]){SAMPLE("axis 0, uneven", 0),
                                        SAMPLE("axis 1, uneven", 1),
                                        SAMPLE("axis 2, uneven", 2),
                                        {0}}};
