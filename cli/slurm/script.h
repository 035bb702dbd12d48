/* Batch scripts for SLURM. */
#ifndef LK_CLI_SLURM_SCRIPT_H
#define LK_CLI_SLURM_SCRIPT_H

#include <stdint.h>

/** What a job asks for; 0 or NULL: not said. */
typedef struct slurm_script_options {
    int64_t ranks, nodes, tasks_per_node, cpus_per_task, signal;
    const char *time, *mpi;
} slurm_script_options;

/**
 * Print a script for sbatch that trains the experiment operand[0], with what operand[1 ... n-1] assign, until
 * it is done, however often its time ends.
 *
 * The experiment is checked first, as training would.  Returns the exit status, after a message on stderr
 * unless it is LK_EXIT_DONE: nothing is printed then.
 */
int slurm_script(const char *command, const slurm_script_options *options, int n, char **operand);

#endif /* LK_CLI_SLURM_SCRIPT_H */
