/* A job as a child process: started, asked to stop when this process is, and waited for. */
#ifndef LK_CLI_LAUNCH_WAIT_H
#define LK_CLI_LAUNCH_WAIT_H

#include "launch.h"

/** What to start. */
typedef struct job_spec {
    const launcher *launcher; /* NULL: no launcher, the child itself is the job */
    int n;                    /* ranks */
    char **argv;              /* from the verb's name on, NULL-terminated */
    bool saves;               /* when asked to stop, the verb saves what it has */
    int output;               /* a file for its standard output; 0: where this process's goes */
    bool dry_run;             /* print how the launcher would be called, and start nothing */
} job_spec;

typedef struct job_end {
    int status; /* LK_EXIT_DONE ... LK_EXIT_REQUEUE */
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
