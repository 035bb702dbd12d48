/* run_job(): what `lockstep run` does: start a verb or a program as ranks, wait for it and return
 * its status. */
#ifndef LK_CLI_RUN_JOB_H
#define LK_CLI_RUN_JOB_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_COMMAND "lockstep run"

typedef struct run_options {
    int64_t n, restarts;
    const char *transport, *mpi, *start_deadline;
    const char *host, *hostfile, *mode, *rankfile;
    int64_t accelerators, nodes, racks, aisles;
    const char *variables, *mpiarg, *ddlarg; /* lines */
    bool tcp, no_ddloptions, verbose, dry_run;
} run_options;

/** Run the words `argv`, a verb or a program with its arguments.  Returns the exit status. */
int run_job(const run_options *o, int argc, char **argv);

#endif /* LK_CLI_RUN_JOB_H */
