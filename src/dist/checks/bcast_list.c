/* Samples of bcast_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

/* Two values of root; the others do not know what will come. */
static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_list list = {.at = out, .n = 0, .room = 3};
    if (lk_comm_rank(comm) == lk_dist_root(s, comm))
        for (list.n = 0; list.n < 2; list.n++)
            out[list.n] = in[list.n];
    LK_TRY(lk_dist_bcast_list(in[0].tape, comm, lk_dist_root(s, comm), "check", &list));
    return LK_OK;
}

#define SAMPLE(text, who)                                                                    \
    {                                                                                        \
        .name = (text), .n_in = 2, .n_out = 3, .shape = shape_ragged, .run = run, .axis = 2, \
        .root = (who), .is_linear = true                                                     \
    }

const lk_dist_check lk__dist_check_bcast_list = {
    .name = "bcast_list",
    .summary = "the values of root; dx = the sum of dy, on root",
    .samples = (const lk_dist_sample[]){
        SAMPLE("two values, from the first", 0), SAMPLE("two values, from the last", -1), {0}}};
