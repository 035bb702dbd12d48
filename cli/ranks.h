/* The ranks that a verb runs on.
 *
 * A verb that is marked `ranks` begins with ranks_open() and does collective work on what it gets.
 * That is one rank, this process; or all processes of an MPI launcher; or, inside
 * `lockstep run --transport local`, threads of this process, each of which runs the verb.  So what a
 * verb keeps between calls is not in static memory, unless it belongs to the process.
 *
 * Rank 0 prints.  What goes wrong is printed once: by the rank that says so first.
 */
#ifndef LK_CLI_RANKS_H
#define LK_CLI_RANKS_H

#include <lockstep/comm.h>

/* The most ranks of a job that are processes; on threads they are LK_MAX_LOCAL at most. */
enum { RANKS_MAX_PROCESSES = 1000000 };

/** The ranks of this job; returns LK_EXIT_DONE, or another exit status after a message.
 * Collective.  ranks_close() also after a failure. */
int ranks_open(lk_comm **out);

/** As ranks_open(), on the transport that an option names: "self" or "mpi".  NULL: as ranks_open();
 * "local": the caller makes ranks of its own, `*out` is NULL. */
int ranks_open_on(const char *transport, lk_comm **out);

/** Give them back; NULL is allowed. */
void ranks_close(lk_comm *comm);

/** The rank that a launcher gave this process; -1: none started it. */
int ranks_given(void);

/** Whether a launcher started this process or thread as a rank. */
bool ranks_launched(void);

/** Whether ranks are threads of this process. */
bool ranks_are_threads(void);

/** Whether this is rank 0; before ranks_open(), by what the launcher says. */
bool ranks_is_root(void);

/** Whether this rank is the one to report a failure: the first that asks. */
bool ranks_may_report_error(void);

/** Print "[rank/size] " on stderr if there are other ranks. */
void ranks_print_prefix(void);

/** Run `fn(arg)` as `n` ranks, threads of this process, on each of which ranks_open() gives its place.
 * Returns the status of the first that failed, LK_EXIT_REQUEUE if one stopped on request. */
int ranks_run(int n, int (*fn)(void *arg), void *arg);

#endif /* LK_CLI_RANKS_H */
