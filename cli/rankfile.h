/* Rank files for Open MPI: which rank runs on which cores of which host. */
#ifndef LK_CLI_RANKFILE_H
#define LK_CLI_RANKFILE_H

#include <lockstep/topology.h>

enum { RANKFILE_MAX_HOSTS = 4096, RANKFILE_MAX_RANKS = 1000000 };

/* What a rank file is made from. */
typedef struct rankfile {
    lk_tier_spec mode;
    int n_hosts;
    char *host[RANKFILE_MAX_HOSTS];
    int sockets, cores; /* of each host; cores of each socket */
} rankfile;

/**
 * Cut `list` ("a,b,c") into the hosts of `out`; it is changed and must outlive it.  False after a
 * message for an empty list, a name twice, or a character that is in no host's name.
 */
bool rankfile_hosts(rankfile *out, const char *command, char *list);

/** Check that the hosts hold the mode's groups and their cores its ranks; false after a message. */
bool rankfile_check(const rankfile *f, const char *command);

/** The socket and the cores of rank `x` among those of a host. */
void rankfile_slot(const rankfile *f, int x, int *socket, int *first, int *last);

/** Print it: `rank 0=a slot=0:0-3`, ... */
void rankfile_print(const rankfile *f);

#endif /* LK_CLI_RANKFILE_H */
