/* The exit status of a job after its launcher has ended. wait.c asks. */
#ifndef LK_CLI_LAUNCH_STATUS_H
#define LK_CLI_LAUNCH_STATUS_H

#include "launch/spec.h"

/**
 * The exit status of a job: its launcher ended with `wait_status`, as waitpid() has it, and its ranks have
 * left what they have in the mailbox.  `asked`: to stop.  A status that says nothing is explained on stderr.
 */
int launch_status(const job_spec *spec, int wait_status, int mailbox, bool asked);

#endif /* LK_CLI_LAUNCH_STATUS_H */
