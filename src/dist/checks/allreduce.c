/* Samples of allreduce, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dist_allreduce(comm, in[0], s->op, "check", out));
    return LK_OK;
}

#define SAMPLE(text, how) \
    .name = (text), .n_in = 1, .n_out = 1, .shape = shape_same, .run = run, .op = (how)

const lk_dist_check lk__dist_check_allreduce = {
    .name = "allreduce",
    .summary = "y = the reduction of x; dx = the sum of dy, times the derivative of the reduction",
    .samples = (const lk_dist_sample[]){
        {SAMPLE("sum", LK_REDUCE_SUM), .is_linear = true},
        {SAMPLE("avg", LK_REDUCE_AVG), .is_linear = true},
        {SAMPLE("prod", LK_REDUCE_PROD), .lo = 0.5, .hi = 1.5},
        {SAMPLE("prod with zeros", LK_REDUCE_PROD), .lo = 0.5, .hi = 1.5, .has_zeros = true},
        {SAMPLE("min", LK_REDUCE_MIN)},
        {SAMPLE("max", LK_REDUCE_MAX)},
        {.name = "sum of scalars",
         .n_in = 1,
         .n_out = 1,
         .shape = shape_scalar,
         .run = run,
         .is_linear = true},
        {0}}};
