/* Where `lockstep verify` has its ranks: in this process, or in processes of an MPI. */
#ifndef LK_CLI_VERIFY_TRANSPORT_H
#define LK_CLI_VERIFY_TRANSPORT_H

#include "launch/launch.h"

#include <lockstep/option.h>

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

#endif /* LK_CLI_VERIFY_TRANSPORT_H */
