/* Split work over the pool of the calling thread: that of its set of processors if it is bound to one
 * (base/processors.h), otherwise the one that all others share. */
#ifndef LK_KERNEL_PARALLEL_H
#define LK_KERNEL_PARALLEL_H

#include "base/processors.h"

#include <lockstep/thread.h>

#include <stdint.h>

/** Do the tasks [first, last).  Runs on any thread; must write only the outputs of its tasks. */
typedef void lk__task_fn(void *arg, int64_t first, int64_t last);

/**
 * Do the tasks [0, n) with the pool, up to `grain` at a time (at least 1); returns when all are done.
 *
 * `grain` tasks should take a microsecond or more, as much as it costs to share them with threads that wait
 * for work.  Those that sleep are woken only for what takes longer than that.
 *
 * Which thread does which tasks is not defined, so a task must not depend on it.  Nested calls and
 * calls while the pool is busy are one call fn(arg, 0, n) on the calling thread; so is one thread,
 * and so are n <= grain tasks.  Threads that cannot be started are done without.
 *
 * Errors: as lk_threads_now(), and then nothing was done.
 */
lk_status lk__parallel(int64_t n, int64_t grain, lk__task_fn *fn, void *arg) LK_NODISCARD;

/** Threads that a kernel of a thread with this binding may use (NULL: of one that is not bound); errors
 * as lk_threads_now(). */
lk_status lk__threads_of(const lk__bound_set *bound, int *out) LK_NODISCARD;

/** Cores in the calling thread's affinity mask, that before it was bound; at least 1. */
int lk__cores(void);

/** Cores that the ranks on this node have together, as far as it is known here; at least 1. */
int lk__cores_of_node(void);

/** Threads for one of `ranks` on a node of `node` cores, with `mask` cores in its affinity mask. */
int lk__threads_share(int mask, int node, int ranks);

/** Ranks on this node as the launcher's environment tells, 1 if it does not. */
int lk__ranks_on_node(void);

#endif /* LK_KERNEL_PARALLEL_H */
