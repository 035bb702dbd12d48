/* hosts: the hosts of a job by name, and how many ranks each takes if that is given. run_job.c
 * reads the list. */
#ifndef LK_CLI_HOSTS_H
#define LK_CLI_HOSTS_H

#include <lockstep/option.h>

enum { HOSTS_MAX = 4096, HOSTS_MAX_SLOTS = 1000000 };

typedef struct host_entry {
    const char *name;
    int slots; /* 0: not said */
} host_entry;

/** In the order of the ranks.  Names live in an arena. */
typedef struct host_list {
    int n;
    host_entry *item; /* [n] */
} host_list;

/** Read "a,b:4,c", as the option of this name has it; false after a message. */
bool hosts_parse(const char *command, const char *option, const char *text, lk_arena *arena,
                 host_list *out);

/**
 * Read a host file: a name a line, and behind it how many ranks the host takes, as Open MPI
 * (`slots=4`, `max_slots=4`) or MPICH (`name:4`) has it.  False after a message that has the line.
 */
bool hosts_read(const char *command, const char *path, lk_arena *arena, host_list *out);

/** This host alone, by its name. */
bool hosts_here(const char *command, lk_arena *arena, host_list *out);

/** Whether a name is this host's. */
bool hosts_is_here(const char *name);

#endif /* LK_CLI_HOSTS_H */
