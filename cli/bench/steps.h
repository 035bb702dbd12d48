/* The networks of `lockstep bench step`: experiments in small, on generated images and volumes. */
#ifndef LK_CLI_BENCH_STEPS_H
#define LK_CLI_BENCH_STEPS_H

#include <lockstep/config.h>

typedef struct bench_steps {
    const char *name;
    const char
        *request;     /* to PyTorch's script: network, batch and optimizer; NULL: it is not asked */
    const char *data; /* type, shape, batch and shards */
    const char *model;
    const char *optimizer;
    int axes; /* that ranks cut, with 2 tiles along each; 0: they share the batch */
} bench_steps;

/** All of them; the last has no name. */
extern const bench_steps bench_step_cases[];

/** The experiment of a case on so many ranks, with what `n` assignments say.  The caller owns it.  Errors:
 * LK_EOVERFLOW where its text is too long; those of lk_experiment_parse(). */
lk_status bench_steps_open(const bench_steps *c, int ranks, const char *const *assignment, int n,
                           lk_experiment **out) LK_NODISCARD;

#endif /* LK_CLI_BENCH_STEPS_H */
