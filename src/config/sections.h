/* The tables of an experiment's own options, and the two values in them that have a syntax of their
 * own: periods and grids.  For experiment.c.
 */
#ifndef LK_CONFIG_SECTIONS_H
#define LK_CONFIG_SECTIONS_H

#include "config/node.h"

#include <lockstep/config.h>

extern const lk_descriptor lk__section_experiment, lk__section_train, lk__section_checkpoint,
    lk__section_early_stop, lk__section_pieces, lk__section_parallel;

/** Read "1 epoch" or "500 steps".  Returns false for anything else. */
bool lk__period_read(const char *text, lk_period *out);

/** Read "2x2", up to three numbers.  Returns false for anything else. */
bool lk__grid_read(const char *text, lk_option_ints *out);

#endif /* LK_CONFIG_SECTIONS_H */
