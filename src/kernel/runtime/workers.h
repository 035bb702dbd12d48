/* A pool of workers: threads that do the tasks of one job at a time, together with its caller.
 *
 * parallel.c owns the pools, all of them static, and says which one a thread has.  The thread that
 * starts, stops or uses one holds its lock.
 */
#ifndef LK_KERNEL_WORKERS_H
#define LK_KERNEL_WORKERS_H

#include "kernel/runtime/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    LK__CACHE_LINE = 64,
    LK__WORKERS_LEAST_NS = 1000 /* of a job that may be shared */
};

/* Tasks that one thread has, and others take over when they are done with theirs. */
typedef struct lk__task_part {
    _Alignas(LK__CACHE_LINE) _Atomic int64_t next;
    int64_t end;
} lk__task_part;

typedef struct lk__workers {
    pthread_mutex_t lock; /* held by the caller whose job it is, and while starting and stopping */
    pthread_t worker[LK_MAX_THREADS];
    _Atomic int n_begun; /* workers that have begun: each takes the next number */
    int n_workers;
    int n_wanted; /* more than n_workers if some could not be started */
    bool spins;   /* there is a core for each thread */

    int n_processors;     /* of the set that its workers are bound to; 0: they are not bound */
    lk__processors set;   /* changes only while there is no worker */
    uint32_t first_epoch; /* when the workers were started */

    /* The job; changes only while the gate is closed and no worker is inside. */
    lk__task_fn *fn;
    void *arg;
    int64_t chunk; /* tasks that are taken at a time */
    int n_parts;
    int64_t opened_ns;
    double alone_ns; /* jobs that were done by fewer threads, as others slept */
    lk__task_part part[LK_MAX_THREADS];

    _Alignas(LK__CACHE_LINE) _Atomic uint32_t gate;
    /* From opening a job until a worker is inside, the last ones count most; of one that slept, too. */
    _Atomic int64_t reach_ns, wake_ns;
    _Alignas(LK__CACHE_LINE) _Atomic uint32_t epoch;
    _Atomic int sleepers; /* workers asleep on the epoch, or about to be */
    atomic_bool stopping;
} lk__workers;

/** Start workers until there are `n_wanted`; those that cannot be started are done without. */
void lk__workers_start(lk__workers *p, int n_wanted);

/** End all of them. */
void lk__workers_stop(lk__workers *p);

/** Do the tasks, at least one, as lk__parallel() says. */
void lk__workers_run(lk__workers *p, const lk__tasks *tasks, lk__task_fn *fn, void *arg);

/** In a forked child, which has no workers, whatever the parent's were doing: begin anew. */
void lk__workers_forget(lk__workers *p);

#endif /* LK_KERNEL_WORKERS_H */
