/* Opening datasets from the command line. */
#ifndef LK_CLI_DATASET_H
#define LK_CLI_DATASET_H

#include <lockstep/data.h>

/* What says which dataset is meant; PATH may be NULL if there is a type that needs no file. */
typedef struct dataset_choice {
    const char *type;    /* a format; NULL: guessed from the path */
    const char *options; /* of the format, "NAME=VALUE ..."; may be NULL */
    int n_assigned;
    const char **assigned; /* more of them, NAME=VALUE each */
} dataset_choice;

/**
 * Sort operands: those that are NAME=VALUE become c->assigned, the first `max` others path[0 ...]; returns
 * how many these are, -1 after a message if there are more.  All live in `arena` or are borrowed.  A path
 * that looks like an option is given as ./a=b.
 */
int dataset_operands(dataset_choice *c, const char *command, int n, char **operand, int max,
                     const char **path, lk_arena *arena);

/** The config that reads `path`; it lives in `arena`. */
lk_status dataset_choose(const dataset_choice *c, const char *path, lk_arena *arena,
                         lk_config *out) LK_NODISCARD;

/* What the values of a field are like. */
typedef struct dataset_range {
    double min, max, mean;
} dataset_range;

/** Read all samples and say what the values of field `f` are like.  No samples: all 0. */
lk_status dataset_measure(const lk_dataset *ds, int f, dataset_range *out) LK_NODISCARD;

#endif /* LK_CLI_DATASET_H */
