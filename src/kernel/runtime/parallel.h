/* lk__parallel(): split work over the pool of the calling thread: that of its set of processors if it is
 * bound to one (base/processors.h), otherwise the one that all others share.  Kernels call it, on any
 * thread; a caller that finds its pool busy does all the work itself. */
#ifndef LK_KERNEL_PARALLEL_H
#define LK_KERNEL_PARALLEL_H

#include "base/processors.h"

#include <lockstep/thread.h>

#include <stdbool.h>
#include <stdint.h>

/** Do the tasks [first, last).  Runs on any thread; must write only the outputs of its tasks. */
typedef void lk__task_fn(void *arg, int64_t first, int64_t last);

/* What a kernel is cut into. */
typedef struct lk__tasks {
    int64_t n;
    double ns;     /* about how long one takes on one thread, rather too short than too long */
    int64_t least; /* of them in one call, if there are so many for each thread; 0: any number */
} lk__tasks;

/* Tasks that copy so many bytes each, or write them as results of a few operations; that take an elementary
 * function of so many elements; that add up so many products.  Estimates for a fast processor that has
 * everything in its caches. */
static inline lk__tasks lk__tasks_bytes(int64_t n, int64_t bytes)
{
    return (lk__tasks){.n = n, .ns = (double)bytes / 64};
}

static inline lk__tasks lk__tasks_functions(int64_t n, int64_t elements)
{
    return (lk__tasks){.n = n, .ns = (double)elements / 2};
}

static inline lk__tasks lk__tasks_products(int64_t n, double products)
{
    return (lk__tasks){.n = n, .ns = products / 64};
}

/* Tasks that are worth a thread each: a kernel has made few of them for that. */
static inline lk__tasks lk__tasks_long(int64_t n)
{
    return (lk__tasks){.n = n, .ns = 1e6};
}

/**
 * Do all tasks with the pool; returns when they are done.
 *
 * As few threads do them as pay: each has many times as much to do as it takes to reach it, which the pool
 * measures.  Those that sleep are woken for what takes longer than that, or for many short jobs.
 *
 * A thread has the same range of the tasks in each job of as many, but which one does a task is not
 * defined, so a task must not depend on it.  Nested calls and calls while the pool is busy are one call
 * fn(arg, 0, n) on the calling thread; so are one thread, and tasks that are too short to share.  Threads
 * that cannot be started are done without.
 *
 * Errors: as lk_threads_now(), and then nothing was done.
 */
lk_status lk__parallel(lk__tasks tasks, lk__task_fn *fn, void *arg) LK_NODISCARD;

/** Threads that a kernel of a thread with this binding may use (NULL: of one that is not bound); errors
 * as lk_threads_now(). */
lk_status lk__threads_of(const lk__bound_set *bound, int *out) LK_NODISCARD;

/** Cores in the calling thread's affinity mask, that before it was bound; at least 1. */
int lk__cores(void);

/** Cores that the ranks on this node have together, as far as it is known here; at least 1. */
int lk__cores_of_node(void);

/** Threads for one of `ranks` on a node of `node` cores, with `mask` cores in its affinity mask. */
int lk__threads_share(int mask, int node, int ranks);

/** Whether a core is left when the threads of this process compute, which is one of so many ranks of a node.
 * Errors: as lk_threads_now(). */
lk_status lk__threads_leave_core(int ranks, bool *out) LK_NODISCARD;

/** Ranks on this node as the launcher's environment tells, 1 if it does not. */
int lk__ranks_on_node(void);

#endif /* LK_KERNEL_PARALLEL_H */
