/* Jobs from operands. */
#include "job.h"

#include "experiment.h"
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
