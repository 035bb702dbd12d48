/* What `lockstep slurm` does: batch scripts, the tasks of a job as a table, and the self-test of keras_experiments'
 * cluster manager. */
#ifndef LK_CLI_SLURM_H
#define LK_CLI_SLURM_H

#include <lockstep/slurm.h>

#include <stdbool.h>
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

/** Print which task of the job in the environment is what, at which address; or an object for each, in JSON.
 * Every task of a step calls it, and the first prints.  Returns the exit status, after a message on stderr
 * unless it is LK_EXIT_DONE. */
int slurm_show(const char *command, const lk_slurm_cluster_options *options, bool json);

/** Compute the product on every rank of the job, and the sum of all; rank 0 prints a row for each rank.
 * Collective.  Returns the exit status: LK_EXIT_FAILED on all ranks where one has another result. */
int slurm_test(const char *command, bool json);

#endif /* LK_CLI_SLURM_H */
