/* The layouts that `lockstep verify` trains, and what each makes of the experiment.
 *
 * The command reads them before the first one runs, so that what cannot be trained is refused then.
 */
#ifndef LK_CLI_VERIFY_LAYOUT_H
#define LK_CLI_VERIFY_LAYOUT_H

#include "layout.h"

enum { VERIFY_ASSIGNMENTS = 8, VERIFY_ASSIGNMENT = 64 };

/** The experiment, and how it is named on the command line: FILE.yaml [KEY=VALUE...].  It does not move:
 * operands point into it. */
typedef struct verify_version {
    lk_experiment *experiment;
    int n;
    char **operand; /* those that were given, then `more` */
    char more[VERIFY_ASSIGNMENTS][VERIFY_ASSIGNMENT];
    int n_more;
} verify_version;

typedef struct verify_layout {
    char word[LK_MESH_WORD];
    lk_mesh_shape shape;
    int ranks;
    /* As given, in this layout; and with gradients by allreduce, which they are if each rank updates its
     * own parameters. */
    verify_version version[2];
} verify_layout;

typedef struct verify_layouts {
    verify_layout *item;
    int n;
    char pieces[128]; /* "{tiles: 3x2}": what all of them need and the experiment lacks; or "" */
} verify_layouts;

/**
 * The layouts that --layouts names, words joined by commas.  Whatever the experiment says of its own layout does not count; where
 * it has no tiles, or no blocks, all layouts get the coarsest that allow each of them.
 *
 * Returns an exit status, after a message on stderr if it is not LK_EXIT_DONE: the word that is no
 * layout or there twice, or that the pieces, the shards or the number of ranks do not allow.  verify_layouts_free() in
 * any case.
 */
int verify_layouts_read(const char *words, int n, char **operand, verify_layouts *out);

/** As verify_layouts_read(), the experiment's own layout on these numbers of ranks: they are `data`,
 * behind what else it says.  None: those from 1 to 4 that it can be trained on. */
int verify_layouts_of_ranks(const lk_option_ints *ranks, int n, char **operand,
                            verify_layouts *out);

/** Widen the column of layouts of a table that is measured, for the longest word. */
struct report;
void verify_layouts_measure(const verify_layouts *layouts, struct report *out);

void verify_layouts_free(verify_layouts *layouts);

/** The experiment as it is given, for as many ranks as there will be.  Returns an exit status;
 * verify_version_free() in any case. */
int verify_version_read(int n, char **operand, verify_version *out);
void verify_version_free(verify_version *version);

#endif /* LK_CLI_VERIFY_LAYOUT_H */
