/* How the threads of OpenMP and of OpenBLAS wait for work, by this process's environment.
 *
 * A thread that spins while it waits has a core.  Beside ours it takes that core from us: convolutions
 * on two threads next to an idle oneDNN that spins have three quarters of their speed.
 */
#ifndef LK_CLI_OPENMP_H
#define LK_CLI_OPENMP_H

#include <stdbool.h>

/** Let libraries that this process opens or starts from now on wait passively, whatever the environment
 * said of it.  Called before the first of them, from the main thread. */
void openmp_wait_passively(void);

/** A variable of an environment that lets OpenMP's threads spin. */
typedef struct openmp_spin {
    const char *name;
    char value[32];
    const char *passive; /* the value that lets them sleep */
} openmp_spin;

/** Whether such a variable is set, and which: `*out`. */
bool openmp_spins(openmp_spin *out);

#endif /* LK_CLI_OPENMP_H */
