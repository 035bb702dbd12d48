/* One configuration of `lockstep verify`: where and how steps are trained, which allreduce an option or the
 * environment names, and on which transports. */
#ifndef LK_CLI_VERIFY_CONFIG_H
#define LK_CLI_VERIFY_CONFIG_H

#include "launch/launch.h"
#include "verify/layouts.h"
#include "verify/train.h"

#include <lockstep/extra/isa.h>
#include <lockstep/option.h>

#include <stdbool.h>

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
const verify_version *verify_version_of(const verify_config *config);

/**
 * Train there as many of the steps as `out` has, with a snapshot at the end unless `snapshot` is NULL.  Returns
 * an exit status, after a message on stderr if it is not LK_EXIT_DONE.  If the algorithm cannot be used on these
 * ranks, `why` says so; otherwise it is "".
 *
 * Processes are started as `lockstep verify --trace`, whose output is read.
 */
int verify_run(const verify_config *config, const char *snapshot, verify_trace *out,
               char why[VERIFY_WHY]);

/** On the ranks of a launcher: train, and let rank 0 print the trace, for verify_run().  Of `config`,
 * threads, instruction set and algorithm count. */
int verify_print(const verify_config *config, const verify_setting *setting);

/** The algorithm that the environment named when this was first called, for `train` as for verify; NULL:
 * none, it is taken by cost. */
const char *verify_named(void);

/** Set the algorithm of this process; NULL: what verify_named() says.  No rank may be running: algorithms
 * are named in the environment, and communicators look there when they make their first call. */
void verify_algorithm_set(const char *name);

/**
 * Refuse what `train` refuses on several ranks, before the first configuration runs: a name that there is
 * not, and in canonical mode one that may give other bits.  `who` named it: "option --algorithms".
 * Returns an exit status.
 */
int verify_algorithm_check(bool fast, const char *who, const char *name);

/* Where the ranks are: in this process, or in processes of an MPI. */
enum { VERIFY_TRANSPORTS = 4 };

/** It does not move: items point into it. */
typedef struct verify_transports {
    launcher launcher[VERIFY_TRANSPORTS];
    const launcher *item[VERIFY_TRANSPORTS]; /* NULL: threads of this process */
    int n;
} verify_transports;

/** Those of the options --transport and --mpi.  Returns an exit status, after a message if it is not
 * LK_EXIT_DONE. */
int verify_transports_read(const lk_option_names *transport, const lk_option_names *mpi,
                           verify_transports *out);

#endif /* LK_CLI_VERIFY_CONFIG_H */
