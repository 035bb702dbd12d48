/* A crew: threads of this process that wait for work, each bound to a device.
 *
 * They are ranks of the transport `local`, so they can communicate with each other while they work.  The
 * thread that made the crew gives the work and waits for it; it is none of them.
 *
 *     lk__crew_new(devices, n, &crew);
 *     lk__crew_run(crew, fn, arg, false);     fn(arg, i, comm) on each, for i = 0 ... n - 1
 *     lk__crew_free(crew);
 *
 * A parallel model has one for its replicas, and one of a single thread for its ps_device.
 */
#ifndef LK_PARALLEL_CREW_H
#define LK_PARALLEL_CREW_H

#include <lockstep/comm.h>
#include <lockstep/device.h>

#include <stdbool.h>

typedef struct lk__crew lk__crew;

/** What member `i` does.  `comm` is of all members. */
typedef lk_status lk__crew_fn(void *arg, int i, lk_comm *comm);

/** Start a thread on each device.  The caller owns `*out`; `devices` is copied.  Errors: those of
 * lk_device_bind(), LK_ENOMEM. */
lk_status lk__crew_new(const lk_device *devices, int n, lk__crew **out) LK_NODISCARD;

/** End the threads; NULL is allowed. */
void lk__crew_free(lk__crew *crew);

/**
 * Let all members work, and wait for all of them.  A crew that is NULL is the calling thread alone: it
 * works as number 0, and `comm` is NULL.
 *
 * `meets`: members wait for each other in it.  Then the failure of one ends their communicators, so that
 * no member waits for it, and the next run begins with new threads.
 *
 * Errors: that of the first member whose failure is no consequence of another's, with "replica I (DEVICE): "
 * before its message; LK_ENOMEM where new threads cannot be started.
 */
lk_status lk__crew_run(lk__crew *crew, lk__crew_fn *fn, void *arg, bool communicates) LK_NODISCARD;

#endif /* LK_PARALLEL_CREW_H */
