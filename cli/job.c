/* Jobs from operands. */
#include "job.h"

#include "experiment.h"
#include "verb.h"

/* What an experiment asks for does not fit together: one line, as for its file. */
static bool is_usage(lk_status st)
{
    return st == LK_EINVAL || st == LK_ESHAPE || st == LK_EDTYPE || st == LK_EOVERFLOW;
}

int job_open(int n, char **operand, lk_experiment **experiment, lk_job **job)
{
    *job = NULL;
    int status = experiment_open(n, operand, experiment);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = lk_job_new(*experiment, NULL, job);
    if (st == LK_OK)
        return LK_EXIT_DONE;
    if (!is_usage(st))
        return verb_failed();
    fprintf(stderr, "error: %s: %s\n", (*experiment)->path, lk_error_message());
    lk_error_clear();
    return LK_EXIT_USAGE;
}
