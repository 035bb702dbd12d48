/* The models of `lockstep gradcheck --layout` without a file: together they have every type of layer, and under
 * random layouts every kind of node.
 */
#ifndef LK_CLI_GRADCHECK_NETS_H
#define LK_CLI_GRADCHECK_NETS_H

#include <lockstep/data.h>

typedef struct gradcheck_net {
    const char *name;
    const char *text; /* an experiment, without an optimizer */
    bool takes_words; /* its data is that of gradcheck_words() */
} gradcheck_net;

/** The last has no name. */
extern const gradcheck_net gradcheck_nets[];

/** Samples of a few words, whole numbers below 20, that are of three classes.  The caller owns `*out`. */
lk_status gradcheck_words(lk_dataset **out) LK_NODISCARD;

#endif /* LK_CLI_GRADCHECK_NETS_H */
