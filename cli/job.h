/* Jobs on the command line: FILE.yaml [KEY=VALUE...], with data, model and trainer. */
#ifndef LK_CLI_JOB_H
#define LK_CLI_JOB_H

#include <lockstep/train.h>

/**
 * Read the experiment operand[0], with what operand[1 ... n-1] assign, and make its job.
 *
 * The caller frees both, the job first, also after a failure.  Returns LK_EXIT_DONE, or another exit
 * status after a message on stderr: LK_EXIT_USAGE when the experiment is to blame.
 */
int job_open(int n, char **operand, lk_experiment **experiment, lk_job **job);

#endif /* LK_CLI_JOB_H */
