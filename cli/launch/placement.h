/* Where the ranks of `lockstep run` go, by the options of DDL's launcher.
 *
 * Made in steps: what the options say by themselves; what the hosts have, which the caller looks for; and
 * what is passed to the launcher of both.
 */
#ifndef LK_CLI_PLACEMENT_H
#define LK_CLI_PLACEMENT_H

#include "launch/host_facts.h"
#include "launch/run_job.h"
#include "launch/spec.h"

typedef struct placement {
    lk_arena *arena; /* of all below */
    bool asked;      /* hosts, a mode or the like are given */
    int n;           /* ranks; 0: not known yet */
    bool
        declared; /* the mode's dimensions say what cannot be found: they are given, or racks are */
    rankfile file; /* hosts and mode; of a rank file that is given the mode alone */
    rank_places given;
    launch_place place; /* what is passed to the launcher */
} placement;

/**
 * What the options say: hosts, mode and numbers that fit each other.  `threads`: ranks are threads.  Returns
 * an exit status, after a message; placement_free() in any case.
 */
int placement_make(const run_options *o, bool threads, placement *out);

/** Whether hosts are to be looked at before the start: they are named, and no rank file is given. */
bool placement_has_hosts(const placement *p);

/** What each host has: cores for its ranks.  Returns an exit status, after a message. */
int placement_fit(placement *p, const run_options *o, const host_facts *each);

/** What the launcher of this MPI is told, and the ranks ("local": threads).  Returns an exit status, after a
 * message. */
int placement_pass(placement *p, const run_options *o, const char *mpi, const host_facts *each);

void placement_free(placement *p);

#endif /* LK_CLI_PLACEMENT_H */
