/* Jobs from operands of the command line. */
#include "job.h"

#include "experiment.h"
#include "layout.h"
#include "ranks.h"
#include "verb.h"

int job_read(const lk_comm *comm, int n, char **operand, lk_experiment **out)
{
    int status = experiment_open(n, operand, out);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = lk_experiment_expand(*out, lk_comm_rank(comm), lk_comm_size(comm));
    return st == LK_OK ? LK_EXIT_DONE : experiment_failed(*out, st);
}

int job_make(const lk_experiment *experiment, lk_comm *comm, lk_job **out)
{
    lk_status st = lk_job_new(experiment, comm, out);
    return st == LK_OK ? LK_EXIT_DONE : experiment_failed(experiment, st);
}

int job_on_ranks(int n, char **operand, int (*fn)(void *arg), void *arg)
{
    lk_experiment *experiment = NULL;
    if (ranks_launched())
        return fn(arg);
    int status = experiment_open(n, operand, &experiment);
    lk_mesh_shape shape = {0};
    if (status == LK_EXIT_DONE)
        shape = layout_of(experiment);
    int64_t ranks = layout_ranks(&shape);
    lk_experiment_free(experiment);
    if (status != LK_EXIT_DONE)
        return status;
    if (ranks <= 1)
        return fn(arg);
    if (ranks > LK_MAX_LOCAL)
        return verb_refuse("parallel needs %lld ranks: at most %d are threads of one process",
                           (long long)ranks, LK_MAX_LOCAL);
    return ranks_run((int)ranks, fn, arg);
}
