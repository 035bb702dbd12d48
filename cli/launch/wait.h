/* A job as a child process: started, asked to stop when this command is, and waited for. run_job.c,
 * host_probe.c and verify call it, on the command's one thread. */
#ifndef LK_CLI_LAUNCH_WAIT_H
#define LK_CLI_LAUNCH_WAIT_H

#include "launch/spec.h"

typedef struct job_end {
    int status; /* LK_EXIT_DONE ... LK_EXIT_REQUEUE; of a program what its launcher says */
    bool asked; /* to stop, by a signal */
} job_end;

/**
 * Start a job and wait for its end.
 *
 * Without a launcher the child returns from this function, with true, to do the work itself.
 * Returns false where it was called, after the job's end.  There the signals that ask to stop stay
 * blocked: one that comes now does not hide the job's status, and asks the next job.
 */
bool job_start(const job_spec *spec, job_end *end);

/** After the last job, if there is more to do: signals end this process again. */
void job_signals_let_in(void);

#endif /* LK_CLI_LAUNCH_WAIT_H */
