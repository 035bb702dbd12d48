/* job_spec: what is to be started as a job (a verb or a program), on how many ranks, by which
 * launcher. run_job.c and verify fill it in; wait.c starts it. */
#ifndef LK_CLI_LAUNCH_SPEC_H
#define LK_CLI_LAUNCH_SPEC_H

#include "launch/launch.h"
#include "launch/rankfile.h"

/** Where the ranks go, and what their launcher gets besides; all NULL or false: what it finds itself. */
typedef struct launch_place {
    const char *hosts;     /* with the ranks of each, in their order: "a:4,b:4" */
    bool here;             /* that is this host alone */
    const char *given;     /* Open MPI: a rank file of somebody else */
    const rankfile *ranks; /* Open MPI: one to be written for this job */
    const char *binding;   /* MPICH: the processors of the ranks of each host, "user:0+1,2+3" */
    bool crowded;          /* ranks of a host share cores */
    bool tcp;              /* hosts talk over TCP alone */
    const char *variables; /* for the ranks, a line each: "NAME=VALUE", "NAME" as it is here */
    const char *words;     /* for the launcher, separated by blanks and lines */
} launch_place;

typedef struct job_spec {
    const launcher *launcher; /* NULL: no launcher, the child itself is the job */
    int n;                    /* ranks */
    const char *program;      /* a program of somebody else; NULL: this command */
    char **argv;              /* its arguments, NULL-terminated; of this command from the verb on */
    const launch_place *place; /* NULL: the launcher's choice */
    bool saves;                /* when asked to stop, the verb saves what it has */
    int output;                /* a file for its standard output; 0: where this process's goes */
    double seconds;            /* that all of it may take; 0: any number */
    bool dry_run;              /* print how the launcher would be called, and start nothing */
    bool verbose;              /* print that on stderr as well */
} job_spec;

#endif /* LK_CLI_LAUNCH_SPEC_H */
