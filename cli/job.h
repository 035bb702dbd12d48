/* Jobs on the command line, FILE.yaml [KEY=VALUE...] with data, model and trainer: what train and
 * eval share.  Called on every rank, on its thread. */
#ifndef LK_CLI_JOB_H
#define LK_CLI_JOB_H

#include <lockstep/train.h>

/** A verb that runs on the ranks of an experiment. */
typedef struct job_call {
    const void *options; /* of the verb */
    int n;
    char **operand;
    /* What job_on_ranks() has read, for ranks of this process to share; NULL: a launcher has started them, and
     * each reads it, so that one that cannot says so. */
    lk_experiment *experiment;
} job_call;

/**
 * The experiment operand[0], with what operand[1 ... n-1] assign and {rank} and {size} filled in.
 *
 * The caller frees it, also after a failure, before job_on_ranks() ends.  Returns LK_EXIT_DONE, or another exit
 * status after a message on stderr: LK_EXIT_USAGE when the experiment is to blame.
 */
int job_read(const lk_comm *comm, const job_call *call, lk_experiment **out);

/** Make the job of an experiment on the ranks of `comm`.  Collective.  The caller frees it, before the
 * experiment, also after a failure.  Returns as job_read(). */
int job_make(const lk_experiment *experiment, lk_comm *comm, lk_job **out);

/**
 * Run `fn(call)` on the ranks of the experiment that the operands name: those that a launcher started,
 * otherwise threads of this process, as many as the product of its layout.  Returns the status of `fn`, or
 * that of reading the experiment after a message.
 */
int job_on_ranks(int (*fn)(void *call), job_call *call);

#endif /* LK_CLI_JOB_H */
