/* Experiment files on the command line, FILE.yaml [KEY=VALUE...]: read into an lk_experiment, which
 * the verb owns, with errors printed as the command prints them. */
#ifndef LK_CLI_EXPERIMENT_H
#define LK_CLI_EXPERIMENT_H

#include "report.h"

#include <lockstep/config.h>

/**
 * Read the experiment operand[0], with what operand[1 ... n-1] assign.
 *
 * Returns LK_EXIT_DONE, or another exit status after a message of one line on stderr.
 */
int experiment_open(int n, char **operand, lk_experiment **out);

/** A copy whose paths can be expanded for a rank.  The rest is shared with the original, which must
 * outlive it.
 * Errors: LK_ENOMEM. */
lk_status experiment_copy(const lk_experiment *experiment, lk_experiment **out) LK_NODISCARD;

/** After a failure with `st`: an error in the experiment prints one line and gives LK_EXIT_USAGE, what
 * is missing here (files, memory) one line and LK_EXIT_FAILED, anything else as verb_failed().  The
 * line begins with the experiment's file, once. */
int experiment_failed(const lk_experiment *experiment, lk_status st);

/** Give a report rows of three cells: the section, the option and its value; everything that is set,
 * by the file or by default. */
void experiment_rows(const lk_experiment *experiment, report *out);

#endif /* LK_CLI_EXPERIMENT_H */
