/* The tables of an experiment's own options, and grids, values in them that have a syntax of their own.
 * For experiment.c.
 */
#ifndef LK_CONFIG_SECTIONS_H
#define LK_CONFIG_SECTIONS_H

#include "config/node.h"

#include <lockstep/config.h>

extern const lk_descriptor lk__section_experiment, lk__section_train, lk__section_checkpoint,
    lk__section_early_stop, lk__section_phase, lk__section_pieces, lk__section_parallel;

/** Read the list of phases; NULL: there is none.  `train` is the section of that name, or NULL. */
lk_status lk__bind_phases(lk_experiment *e, const lk__yaml_node *node,
                          const lk__yaml_node *train) LK_NODISCARD;

/** Add what phases make another run.  Without an end, the epochs of the last do not. */
lk_status lk__phases_hash(const lk_experiment *e, lk_hash *h) LK_NODISCARD;

/** Read "2x2", up to three numbers.  Returns false for anything else. */
bool lk__grid_read(const char *text, lk_option_ints *out);

/** The pieces are at least as fine as the layout; otherwise say, at the place of either, which would be. */
lk_status lk__layout_check(const lk_experiment *e, const lk__yaml_pos *spatial,
                           const lk__yaml_pos *features) LK_NODISCARD;

#endif /* LK_CONFIG_SECTIONS_H */
