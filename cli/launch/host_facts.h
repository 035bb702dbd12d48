/* host_facts: what the hosts of a job must have in common.  `lockstep info --host` prints it in one
 * line on each host; `lockstep run` reads these lines and compares them (host_probe.c). */
#ifndef LK_CLI_HOST_FACTS_H
#define LK_CLI_HOST_FACTS_H

#include <lockstep/option.h>

#include <stdio.h>

typedef struct host_facts {
    int rank; /* that the launcher gave to who looked; -1: none */
    char version[32];
    int epoch, hash;        /* numerics epoch and hash format */
    int sockets, cores;     /* cores of all sockets */
    char isa[16];           /* the best instruction set */
    char modules[64];       /* MPIs that there are modules for, "openmpi+mpich", or "none" */
    bool program;           /* whether the program that was asked for is there */
    const char *processors; /* of each core, "0+4,1+5", in an arena; "none": not known */
} host_facts;

/** Of this host; `program` NULL: none is asked for.  False with the library's error. */
bool host_facts_collect(const char *program, lk_arena *arena, host_facts *out);

void host_facts_print(const host_facts *f, FILE *to);

/** Read such a line; false if it is none, or there is no memory. */
bool host_facts_read(const char *line, lk_arena *arena, host_facts *out);

#endif /* LK_CLI_HOST_FACTS_H */
