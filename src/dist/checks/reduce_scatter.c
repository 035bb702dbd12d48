/* Samples of reduce_scatter, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_reduce_scatter(comm, in[0], s->axis, asked(lk_comm_rank(comm)), "check", out));
    return LK_OK;
}

#define SAMPLE(text, where)                                                                     \
    {                                                                                           \
        .name = text, .n_in = 1, .n_out = 1, .shape = shape_whole, .run = run, .axis = (where), \
        .is_linear = true                                                                       \
    }

const lk_dist_check lk__dist_check_reduce_scatter = {
    .name = "reduce_scatter",
    .summary = "y = own part of the sum of x; dx = all dy, one behind the other",
    .samples = (const lk_dist_sample[]){SAMPLE("axis 0, uneven", 0),
                                        SAMPLE("axis 1, uneven", 1),
                                        SAMPLE("axis 2, uneven", 2),
                                        {0}}};
