/* Samples of reduce, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_reduce(comm, in[0], s->op, lk_dist_root(s, comm), "check", out));
    return LK_OK;
}

#define SAMPLE(text, how, who)                                                           \
    .name = (text), .n_in = 1, .n_out = 1, .shape = shape_same, .run = run, .op = (how), \
    .root = (who)

const lk_dist_check lk__dist_check_reduce = {
    .name = "reduce",
    .summary =
        "y = the reduction of x, on root; dx = root's dy, times the derivative of the reduction",
    .samples = (const lk_dist_sample[]){
        {SAMPLE("sum to the first", LK_REDUCE_SUM, 0), .is_linear = true},
        {SAMPLE("sum to the second", LK_REDUCE_SUM, 1), .is_linear = true},
        {SAMPLE("avg to the last", LK_REDUCE_AVG, -1), .is_linear = true},
        {SAMPLE("prod with zeros", LK_REDUCE_PROD, 1), .lo = 0.5, .hi = 1.5, .has_zeros = true},
        {SAMPLE("min to the last", LK_REDUCE_MIN, -1)},
        {SAMPLE("max to the first", LK_REDUCE_MAX, 0)},
        {0}}};
