/* The libraries that `lockstep bench --against` knows, each in a module opened at run time, and how their
 * threads wait. */
#ifndef LK_CLI_PEERS_H
#define LK_CLI_PEERS_H

#include "peer.h"

#include <stdbool.h>
#include <stdio.h>

enum { PEER_PATH = 8192 };

typedef struct peer_entry {
    const char *name;
    const char *package; /* what to install for it */
    const char *computes;
} peer_entry;

/** The known peers; the last has no name. */
extern const peer_entry peer_entries[];

/** The entry of a name, or NULL. */
const peer_entry *peer_find(const char *name);

/**
 * Open the module of a peer.  NULL with the reason in `why` (at most `size` bytes) when it is not
 * there; modules stay open until the process ends.  Its threads wait passively, see
 * openmp_wait_passively().
 */
const lk__peer *peer_open(const peer_entry *entry, char *why, size_t size);

/** Where the build or the installation puts the file `name` of the peers; false if in neither place. */
bool peer_file(const char *name, char *path, size_t size);

/* How the threads of OpenMP and of OpenBLAS wait for work, by this process's environment.  A thread that spins
 * while it waits has a core.  Beside ours it takes that core from us: convolutions on two threads next to an idle
 * oneDNN that spins have three quarters of their speed. */

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

#endif /* LK_CLI_PEERS_H */
