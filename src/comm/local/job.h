/* Ranks on threads in steps, for who has other work while they run: lk_run_local() taken apart.
 *
 *     lk__local_new(n, &job);
 *     lk__local_start(job, fn, arg, left);     returns at once; if it fails, some ranks may run
 *     ... let `fn` end on all ranks ...
 *     lk__local_end(job);
 *
 * Called on one thread, which is none of the ranks.
 */
#ifndef LK_COMM_LOCAL_JOB_H
#define LK_COMM_LOCAL_JOB_H

#include <lockstep/comm.h>

/** A rank is about to leave, on its own thread: with what its function returned, or with why that was not
 * called.  This thread's last error says so. */
typedef void lk__left_fn(void *arg, int rank, lk_status st);

struct lk__local_job;

/** The ends of `n` ranks without threads.  Errors: LK_EINVAL, LK_ENOMEM. */
lk_status lk__local_new(int n, struct lk__local_job **out) LK_NODISCARD;

/** Start a thread for each rank, which runs fn(comm, arg).  `left` NULL: they run the host's program;
 * otherwise they are the library's own, which take no signals (base/thread.h).  Errors: LK_ENOMEM when a
 * thread cannot be started; those that were get it from their next call that communicates. */
lk_status lk__local_start(struct lk__local_job *job, lk_rank_fn *fn, void *arg,
                          lk__left_fn *left) LK_NODISCARD;

/** Wait for the threads and free the job: the first failure that a rank returned. */
lk_status lk__local_end(struct lk__local_job *job);

#endif /* LK_COMM_LOCAL_JOB_H */
