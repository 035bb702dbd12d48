/* Jobs from operands. */
#include "job.h"

#include "experiment.h"
#include "verb.h"

int job_open(int n, char **operand, lk_experiment **experiment, lk_job **job)
{
    *job = NULL;
    int status = experiment_open(n, operand, experiment);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = lk_job_new(*experiment, NULL, job);
    return st == LK_OK ? LK_EXIT_DONE : experiment_failed(*experiment, st);
}
