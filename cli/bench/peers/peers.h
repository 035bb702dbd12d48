/* The libraries that `lockstep bench --against` knows, each in a module opened at run time. */
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
 * there; modules stay open until the process ends.  Its threads wait passively, see bench/peers/openmp.h.
 */
const lk__peer *peer_open(const peer_entry *entry, char *why, size_t size);

/** Where the build or the installation puts the file `name` of the peers; false if in neither place. */
bool peer_file(const char *name, char *path, size_t size);

#endif /* LK_CLI_PEERS_H */
