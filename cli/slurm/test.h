/* The self-test of keras_experiments' cluster manager. */
#ifndef LK_CLI_SLURM_TEST_H
#define LK_CLI_SLURM_TEST_H

#include <stdbool.h>

/** Compute the product on every rank of the job, and the sum of all; rank 0 prints a row for each rank.
 * Collective.  Returns the exit status: LK_EXIT_FAILED on all ranks where one has another result. */
int slurm_test(const char *command, bool json);

#endif /* LK_CLI_SLURM_TEST_H */
