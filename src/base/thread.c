/* lk__thread_start(): a thread of the library's own, with all signals blocked but those of faults:
 * the host's signals are handled by the host's threads. */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int lk__thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before); /* which the thread inherits */
    int code = pthread_create(thread, attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
