/* The processes below a process, as /proc shows them: a launcher, its helpers and its ranks. */
#ifndef LK_CLI_LAUNCH_TREE_H
#define LK_CLI_LAUNCH_TREE_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct process {
    pid_t pid;
    char state;               /* as in ps: T is stopped, Z has ended */
    unsigned long long start; /* with it, a number is one process and no later one */
} process;

/** Look at a process; false if there is none. */
bool process_read(pid_t pid, process *out);

/** The rank that a process is of a job of this command, or a child of one; -1: it is none.  Its launcher
 * has set that, and this command in LK_NOTE which job it is, in the environment it began with. */
int process_rank(pid_t pid);

/** Call `fn` with each process below `root`, those further down first. */
void tree_visit(pid_t root, void (*fn)(const process *p, void *arg), void *arg);

/**
 * Whether a launcher hangs: it has children, all of which are zombies.  Open MPI's does if one of them is
 * killed while it starts: all ranks are dead, and it waits.
 */
bool tree_is_hung(pid_t launcher);

/** Kill a launcher with all that is below it; stopped processes, too.  And ranks that outlived their
 * launcher. */
void tree_kill(pid_t launcher);

/** Kill the ranks below this process, whether or not they still have their launcher, and wait for their
 * end. */
void tree_kill_ranks(pid_t launcher);

#endif /* LK_CLI_LAUNCH_TREE_H */
