/* Rank files, in which Open MPI reads which rank runs on which cores of which host: written for a
 * placement. */
#ifndef LK_CLI_RANKFILE_H
#define LK_CLI_RANKFILE_H

#include "launch/hosts.h"

#include <lockstep/topology.h>

#include <stdio.h>

/* What a rank file is made from: X ranks on each host, of a mode XxYxZxW. */
typedef struct rankfile {
    lk_tier_spec mode;
    host_list hosts;
    int sets;           /* that the cores of a host are cut into; rank x of a host has set x */
    int sockets, cores; /* of each host; cores of each socket */
} rankfile;

/** Check that the hosts hold the mode's groups; false after a message. */
bool rankfile_check_hosts(const rankfile *f, const char *command);

/** Check that each host takes its ranks: by its slots, or else one core for each set at least; false after
 * a message. */
bool rankfile_check_cores(const rankfile *f, const char *command);

/** The socket and the cores of set `x` of a host.  Where there are more sets than cores they share them. */
void rankfile_slot(const rankfile *f, int x, int *socket, int *first, int *last);

/** Write it: `rank 0=a slot=0:0-3`, ... */
void rankfile_write(const rankfile *f, FILE *to);

/** A rank as a rank file has it. */
typedef struct rank_place {
    int host; /* in a list of hosts */
    int line; /* of the file; 0: none yet */
} rank_place;

/** What a rank file says. */
typedef struct rank_places {
    int n;            /* ranks */
    rank_place *rank; /* [n] */
    host_list hosts;  /* as they come first; slots are the ranks of each */
} rank_places;

/** Read a rank file, into an arena; false after a message that has the line. */
bool rankfile_read(const char *command, const char *path, lk_arena *arena, rank_places *out);

#endif /* LK_CLI_RANKFILE_H */
