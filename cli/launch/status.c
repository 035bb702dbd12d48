/* The exit status of a job, from that of its launcher and those that its ranks posted: see
 * status.h. */
#include "launch/status.h"

#include "launch/mailbox.h"
#include "verb.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* What the ranks themselves say, where the launcher says that all is done: the status of one, or that one
 * has gone without any. */
static int status_posted(const job_spec *spec, int mailbox, bool asked)
{
    int status = launch_mailbox_status(mailbox);
    for (int r = 0; r < spec->n && status == LK_EXIT_DONE; r++) {
        pid_t pid;
        launch_stage stage = launch_mailbox_stage(mailbox, r, &pid);
        if (stage != LAUNCH_ARRIVED && stage != LAUNCH_CONNECTED)
            continue;
        if (asked)
            return 128 + SIGTERM;
        fprintf(stderr,
                "error: rank %d (process %d) ended before its work was done, of which %s says "
                "nothing\n",
                r, (int)pid, spec->launcher->path);
        status = LK_EXIT_FAILED;
    }
    return status;
}

/* MPICH's launcher joins the statuses of its ranks bit by bit, and says 9 of one that was killed, or
 * even 0; Open MPI's says 137.  Those of somebody else's program are its own. */
int launch_status(const job_spec *spec, int wait_status, int mailbox, bool asked)
{
    const launcher *l = spec->launcher;
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (spec->program)
        return code;
    if (code == LK_EXIT_DONE)
        code = status_posted(spec, mailbox, asked);
    if (code == LK_EXIT_DONE || code == LK_EXIT_FAILED || code == LK_EXIT_USAGE ||
        code == LK_EXIT_REQUEUE)
        return code;
    if (asked)
        fprintf(stderr, "lockstep: stopped, without a checkpoint\n");
    else if (code > 128 && code <= 128 + SIGRTMAX && code != 128 + SIGPIPE)
        fprintf(stderr, "lockstep: %s was killed by signal %d\n", l ? "a rank" : "the job",
                code - 128);
    else if (code != 128 + SIGPIPE)
        fprintf(stderr, "lockstep: the job ended with status %d\n", code);
    return LK_EXIT_FAILED;
}
