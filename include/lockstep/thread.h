/* Threads of the kernels.
 *
 * A small pool of POSIX threads, started on first use.  Work is split over outputs only, so the
 * number of threads never changes a bit.  The pool sleeps when idle; a second thread that calls a
 * kernel while the pool is busy does its work alone.  The count is, in this order: what
 * lk_threads_set() said; LK_THREADS; the node's cores divided by the ranks that the launcher (Open
 * MPI, MPICH or SLURM, by its environment) started on this node, but no more than the cores of this
 * process's affinity mask.  Ranks that were bound to cores of their own use these; ranks that share
 * a mask, of a socket or the whole node, use their part of it.  Where a mask is narrower than the
 * machine and shared, and neither a container nor SLURM says so, set the count.
 *
 * A thread that is bound to a device (lk_device_bind()) has the pool of its set of processors instead,
 * with a thread for each of these, and no more than lk_threads_set() or LK_THREADS say.  Threads that are
 * bound to different sets compute at the same time; those of one set share its pool, as above.
 *
 * A thread that calls a kernel needs 512 KiB of stack: tiles are packed there, so that kernels need
 * not allocate.
 *
 * In a host program: workers block all signals but the faults of their own making, keep the
 * affinity mask of the thread that started them (or the set of their pool), and end with
 * lk_threads_stop(), at exit and when the library is unloaded.  After fork() the child starts its own.
 */
#ifndef LK_THREAD_H
#define LK_THREAD_H

#include <lockstep/status.h>

LK_BEGIN_DECLS

enum { LK_MAX_THREADS = 256 };

/**
 * Threads a kernel that this thread calls may use, the calling one included.
 *
 * Errors: LK_EINVAL when LK_THREADS is not a number from 1 to LK_MAX_THREADS.
 */
LK_API lk_status lk_threads_now(int *out) LK_NODISCARD;

/**
 * Use `n` threads from now on, on bound threads at most as many (0: forget the setting, decide anew).  No kernel may be running.
 * Threads that the system refuses to start are done without.
 *
 * Errors: LK_EINVAL unless 0 <= n <= LK_MAX_THREADS.
 */
LK_API lk_status lk_threads_set(int n) LK_NODISCARD;

/** Stop the threads of all pools and release their memory.  The next kernel starts them again. */
LK_API void lk_threads_stop(void);

LK_END_DECLS

#endif /* LK_THREAD_H */
