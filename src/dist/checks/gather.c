/* Samples of gather, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_gather(comm, in[0], s->axis, lk_dist_root(s, comm), "check", out));
    return LK_OK;
}

#define SAMPLE(text, where, who)                                                                 \
    {                                                                                            \
        .name = text, .n_in = 1, .n_out = 1, .shape = shape_ragged, .run = run, .axis = (where), \
        .root = (who), .is_linear = true                                                         \
    }

const lk_dist_check lk__dist_check_gather = {
    .name = "gather",
    .summary = "y = all x, one behind the other, on root; dx = own part of root's dy",
    .samples = (const lk_dist_sample[]){SAMPLE("axis 0, uneven, to the first", 0, 0),
                                        SAMPLE("axis 1, uneven, to the last", 1, -1),
                                        SAMPLE("axis 2, uneven, to the second", 2, 1),
                                        {0}}};
