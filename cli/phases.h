/* The phases of an experiment that a few steps go through, evenly, for verbs that compare layouts. */
#ifndef LK_CLI_PHASES_H
#define LK_CLI_PHASES_H

#include <lockstep/config.h>

/** The phases that are trained, of which those of 0 epochs are none; 1 without phases. */
int64_t phases_trained(const lk_experiment *experiment);

/** The number of the phase, for lk_job_set_phase(), that step `step` of `steps` is in, counted from 0; there
 * are at least as many steps as phases. */
int64_t phase_of_step(const lk_experiment *experiment, int64_t step, int64_t steps);

#endif /* LK_CLI_PHASES_H */
