/* lockstep gradcheck --layout: parameters, gradients, statistics and losses of a model under random layouts
 * against those of one rank.  Called on the main thread; the ranks of a layout are threads that it starts and
 * waits for.
 */
#ifndef LK_CLI_GRADCHECK_RANDOM_LAYOUTS_H
#define LK_CLI_GRADCHECK_RANDOM_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gradcheck_layout_options {
    int64_t seed, count, steps; /* layouts of a model, and steps of each */
    bool json;
} gradcheck_layout_options;

/** Check the experiment operand[0] with what the other operands, KEY=VALUE, assign; or without a file the
 * command's own models, which must then have all kinds of nodes and all types of layers.  Returns an exit
 * status. */
int gradcheck_layout_run(const gradcheck_layout_options *options, int n, char **operand);

#endif /* LK_CLI_GRADCHECK_RANDOM_LAYOUTS_H */
