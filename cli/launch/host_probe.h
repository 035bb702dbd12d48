/* Before a job on several hosts starts, `lockstep info --host` is run on each as the job will be, by the
 * same launcher, and the replies are compared. run_job.c calls it, on the command's one thread. */
#ifndef LK_CLI_HOST_PROBE_H
#define LK_CLI_HOST_PROBE_H

#include "launch/host_facts.h"
#include "launch/hosts.h"
#include "launch/spec.h"

/**
 * Start `lockstep info --host` on each host, by the launcher of `spec` with the same words, and compare their
 * replies: that each can be reached, has this lockstep and the module for the MPI, the program, and as
 * many sockets and cores and the same instruction set as the first, whose facts are written to `out`.
 *
 * Returns LK_EXIT_DONE, or another exit status after messages.  `verbose`: each reply is printed on stderr.
 */
int hosts_probe(const char *command, const host_list *hosts, const job_spec *spec, lk_arena *arena,
                host_facts *out);

#endif /* LK_CLI_HOST_PROBE_H */
