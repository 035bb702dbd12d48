/* An experiment as verbs cut it up: how many ranks there are along each axis of its layout, and the phases that
 * a few steps go through, evenly. */
#ifndef LK_CLI_LAYOUT_H
#define LK_CLI_LAYOUT_H

#include <lockstep/config.h>
#include <lockstep/parallel.h>

/** What an experiment asks for; `data` is 0 where it says nothing. */
lk_mesh_shape layout_of(const lk_experiment *experiment);

/** How many ranks a layout needs, a `data` of 0 counting as 1; INT_MAX where there are more. */
int64_t layout_ranks(const lk_mesh_shape *shape);

enum { LAYOUT_GRID = 64 };

/** "2x2", "4"; without axes "1".  Returns `out`. */
const char *layout_grid_text(int ndim, const int64_t *n, char out[LAYOUT_GRID]);

/** The phases that are trained, of which those of 0 epochs are none; 1 without phases. */
int64_t phases_trained(const lk_experiment *experiment);

/** The number of the phase, for lk_job_set_phase(), that step `step` of `steps` is in, counted from 0; there
 * are at least as many steps as phases. */
int64_t phase_of_step(const lk_experiment *experiment, int64_t step, int64_t steps);

#endif /* LK_CLI_LAYOUT_H */
