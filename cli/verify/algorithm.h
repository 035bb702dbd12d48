/* The allreduce of a configuration of `lockstep verify`: which one an option or the environment names. */
#ifndef LK_CLI_VERIFY_ALGORITHM_H
#define LK_CLI_VERIFY_ALGORITHM_H

#include <stdbool.h>

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

#endif /* LK_CLI_VERIFY_ALGORITHM_H */
