/* One configuration of `lockstep verify`: where and how steps are trained. */
#ifndef LK_CLI_VERIFY_CONFIG_H
#define LK_CLI_VERIFY_CONFIG_H

#include "launch/launch.h"
#include "verify/layouts.h"
#include "verify/train.h"

#include <lockstep/extra/isa.h>

enum { VERIFY_WHY = 256 };

typedef struct verify_config {
    const verify_layout *layout;
    int threads;              /* of each rank's kernels */
    const launcher *launcher; /* NULL: ranks are threads of this process */
    lk_isa isa;
    const char *algorithm; /* of allreduce; NULL: as `train` chooses it, see verify_named() */
    int64_t steps;         /* of the whole comparison, which phases share */
} verify_config;

/** How the experiment is trained there. */
const verify_version *verify_version_of(const verify_config *place);

/**
 * Train there as many of the steps as `out` has, with a snapshot at the end unless `snapshot` is NULL.  Returns an exit status, after a
 * message on stderr if it is not LK_EXIT_DONE.  If the algorithm cannot be used on these ranks, `why`
 * says so; otherwise it is "".
 *
 * Processes are started as `lockstep verify --trace`, whose output is read.
 */
int verify_run(const verify_config *place, const char *snapshot, verify_trace *out,
               char why[VERIFY_WHY]);

/** On the ranks of a launcher: train, and let rank 0 print the trace, for verify_run().  Of `place`,
 * threads, instruction set and algorithm count. */
int verify_print(const verify_config *place, const verify_setting *setting);

#endif /* LK_CLI_VERIFY_CONFIG_H */
