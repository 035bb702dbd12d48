/* Threads of the library's own: workers of kernels, the loader's, progress threads of communication, writers
 * of checkpoints, replicas of a parallel model.  Ranks of lk_run_local() are not among them: they run the
 * host's program.
 */
#ifndef LK_BASE_THREAD_H
#define LK_BASE_THREAD_H

#include <pthread.h>

/**
 * Start a thread that takes no signals but the faults of its own making; as pthread_create(), whose
 * status it returns.  The signals of the caller stay as they are.
 *
 * A host's signals are the host's: handlers run on the threads that it made, where they may look for
 * what belongs to the thread.  Faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) arise in the
 * thread that did it and can go nowhere else: blocked, they would end the process without the handler
 * of a host that reports crashes.  SIGABRT is no fault: abort() lets its own through, and one that is
 * sent to the process is for the host.
 */
int lk__thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

#endif /* LK_BASE_THREAD_H */
