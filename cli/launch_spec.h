/* What is to be started as a job. */
#ifndef LK_CLI_LAUNCH_SPEC_H
#define LK_CLI_LAUNCH_SPEC_H

#include "launch.h"

typedef struct job_spec {
    const launcher *launcher; /* NULL: no launcher, the child itself is the job */
    int n;                    /* ranks */
    const char *program;      /* a program of somebody else; NULL: this command */
    char **argv;              /* its arguments, NULL-terminated; of this command from the verb on */
    bool saves;               /* when asked to stop, the verb saves what it has */
    int output;               /* a file for its standard output; 0: where this process's goes */
    bool dry_run;             /* print how the launcher would be called, and start nothing */
} job_spec;

#endif /* LK_CLI_LAUNCH_SPEC_H */
