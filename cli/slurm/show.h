/* The tasks of a job of SLURM as a table. */
#ifndef LK_CLI_SLURM_SHOW_H
#define LK_CLI_SLURM_SHOW_H

#include <lockstep/slurm.h>

/** Print which task of the job in the environment is what, at which address; or an object for each, in JSON.
 * Every task of a step calls it, and the first prints.  Returns the exit status, after a message on stderr
 * unless it is LK_EXIT_DONE. */
int slurm_show(const char *command, const lk_slurm_cluster_options *options, bool json);

#endif /* LK_CLI_SLURM_SHOW_H */
