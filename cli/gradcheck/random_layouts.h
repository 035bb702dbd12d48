/* lockstep gradcheck --layout: the gradients of a model under random layouts against those of one rank. */
#ifndef LK_CLI_GRADCHECK_LAYOUT_H
#define LK_CLI_GRADCHECK_LAYOUT_H

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

#endif /* LK_CLI_GRADCHECK_LAYOUT_H */
