/* Samples of allreduce_list, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/lists.h"

/* Three values, of which one has other shapes; each is an output. */
static lk_shape shape_of_input(const lk_dist_sample *s, int rank, int size, int i)
{
    return i == 1 ? LK_SHAPE(4) : shape_same(s, rank, size, i);
}

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_allreduce_list(comm, in, 3, s->op, "check", out));
    return LK_OK;
}

#define SAMPLE(text, how) \
    .name = (text), .n_in = 3, .n_out = 3, .shape = shape_of_input, .run = run, .op = (how)

const lk_dist_check lk__dist_check_allreduce_list = {
    .name = "allreduce_list",
    .summary = "out[i] = the reduction of xs[i]; dxs[i] as of allreduce",
    .samples = (const lk_dist_sample[]){
        {SAMPLE("sum", LK_REDUCE_SUM), .is_linear = true},
        {SAMPLE("avg", LK_REDUCE_AVG), .is_linear = true},
        {SAMPLE("prod", LK_REDUCE_PROD), .lo = 0.5, .hi = 1.5, .has_zeros = true},
        {SAMPLE("max", LK_REDUCE_MAX)},
        {0}}};
