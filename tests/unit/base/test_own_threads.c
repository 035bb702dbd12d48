/* Threads of the library's own take no signals but their faults. */
#include "base/thread.h"
#include "harness.h"

#include <signal.h>
#include <stdbool.h>

static void *mask_get(void *arg)
{
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, arg), 0);
    return NULL;
}

static bool is_fault(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP ||
           sig == SIGSYS;
}

/* Some signals cannot be blocked, or are those of the threads themselves. */
static bool can_block(int sig)
{
    return sig != SIGKILL && sig != SIGSTOP && (sig < 32 || sig >= SIGRTMIN);
}

TEST(a_thread_takes_its_faults_and_no_other_signals)
{
    sigset_t before, after, inside;
    pthread_t thread;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    sigaddset(&before, SIGSEGV);
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    ASSERT_EQ(lk__thread_start(&thread, NULL, mask_get, &inside), 0);
    ASSERT_EQ(pthread_join(thread, NULL), 0);
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int sig = 1; sig <= SIGRTMAX; sig++)
        if (can_block(sig)) {
            ASSERT_EQ(sigismember(&inside, sig), !is_fault(sig));
            ASSERT_EQ(sigismember(&after, sig), sig == SIGUSR1 || sig == SIGSEGV);
        }
}
