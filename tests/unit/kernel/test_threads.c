/* The pool: all tasks are done once, whoever calls, and the host program is left in peace. */
#include "base/fpenv.h"
#include "harness.h"
#include "kernel/runtime/parallel.h"
#include "thread_count.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>

#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* Stands before the C library's: fails once `creations_left` threads were created. */
static _Atomic int creations_left = -1; /* -1: no limit */

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &symbol, sizeof real);
    if (creations_left == 0)
        return EAGAIN;
    if (creations_left > 0)
        creations_left--;
    return real(t, attr, fn, arg);
}

enum { MAX_TASKS = 5000 };

struct tally {
    _Atomic int done[MAX_TASKS];
};

static void tally_tasks(void *arg, int64_t first, int64_t last)
{
    struct tally *t = arg;
    ASSERT_TRUE(first < last);
    for (int64_t i = first; i < last; i++)
        atomic_fetch_add(&t->done[i], 1);
}

static void check_tally(const struct tally *t, int64_t n)
{
    for (int64_t i = 0; i < MAX_TASKS; i++)
        ASSERT_EQ(t->done[i], i < n);
}

TEST(every_task_is_done_exactly_once)
{
    static const int64_t n[] = {0, 1, 2, 3, 64, 997, MAX_TASKS};
    static const int64_t least[] = {0, 1, 3, 64, MAX_TASKS, INT64_MAX};
    static const double ns[] = {0, 1, 1e6};
    static struct tally t;
    for (int threads = 1; threads <= 5; threads++) {
        ASSERT_OK(lk_threads_set(threads));
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 18; k++) {
                memset(&t, 0, sizeof t);
                ASSERT_OK(
                    lk__parallel((lk__tasks){n[i], ns[k / 6], least[k % 6]}, tally_tasks, &t));
                check_tally(&t, n[i]);
            }
    }
}

TEST(many_small_jobs_are_all_done)
{
    ASSERT_OK(lk_threads_set(3));
    static struct tally t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 3000; i++)
        ASSERT_OK(lk__parallel((lk__tasks){MAX_TASKS / 100, 100, 0}, tally_tasks, &t));
    for (int i = 0; i < MAX_TASKS / 100; i++)
        ASSERT_EQ(t.done[i], 3000);
}

static void keep_size(void *arg, int64_t first, int64_t last)
{
    _Atomic int64_t *size = arg;
    for (int64_t i = first; i < last; i++)
        size[i] = last - first;
}

TEST(few_tasks_are_cut_evenly)
{
    static const struct {
        int threads;
        int64_t n, least, size; /* what each call has, or one less */
    } of[] = {{2, 12, 8, 6}, {2, 9, 8, 5}, {2, 12, 5, 3}, {8, 20, 15, 3}, {3, 100, 0, 1}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        static _Atomic int64_t size[100];
        ASSERT_OK(lk_threads_set(of[i].threads));
        lk__tasks tasks = lk__tasks_long(of[i].n);
        tasks.least = of[i].least;
        ASSERT_OK(lk__parallel(tasks, keep_size, size));
        for (int64_t k = 0; k < of[i].n; k++)
            ASSERT_TRUE(size[k] == of[i].size || (size[k] > 0 && size[k] == of[i].size - 1));
    }
}

/* A job with one task for each thread, in which all threads meet. */
struct meeting {
    int expected;
    _Atomic int present;
    void (*then)(void);
};

static void meet(void *arg, int64_t first, int64_t last)
{
    struct meeting *m = arg;
    for (int64_t i = first; i < last; i++) {
        atomic_fetch_add(&m->present, 1);
        while (m->present < m->expected)
            sched_yield();
        if (m->then)
            m->then();
    }
}

static void on_all_threads(int threads, void (*then)(void))
{
    struct meeting m = {.expected = threads, .then = then};
    ASSERT_OK(lk_threads_set(threads));
    ASSERT_OK(lk__parallel(lk__tasks_long(threads), meet, &m));
    ASSERT_EQ(m.present, threads);
}

/* Tasks that each take a time, and who did them. */
struct timed {
    pthread_t caller;
    int64_t ns; /* of a task */
    _Atomic int by_others;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void take_time(void *arg, int64_t first, int64_t last)
{
    struct timed *t = arg;
    for (int64_t i = first, end = now_ns(); i < last; i++)
        for (end += t->ns; now_ns() < end;)
            ;
    if (!pthread_equal(t->caller, pthread_self()))
        atomic_fetch_add(&t->by_others, (int)(last - first));
}

static void sleep_a_while(void)
{
    struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
}

/* How often threads of this process have gone to sleep. */
static long sleeps(void)
{
    struct rusage used;
    ASSERT_EQ(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_nvcsw;
}

TEST(a_short_job_wakes_nobody)
{
#if defined __SANITIZE_THREAD__ || defined TEST_EMULATED
    return; /* reading the clock takes as long as a job there */
#endif
    enum { JOBS = 20 };
    struct timed t = {.caller = pthread_self(), .ns = 40};
    long n = 0;
    for (int i = 0; i < JOBS; i++) {
        on_all_threads(2, NULL);
        sleep_a_while();
        long before = sleeps();
        ASSERT_OK(lk__parallel((lk__tasks){64, (double)t.ns, 0}, take_time, &t));
        sleep_a_while();
        n += sleeps() - before;
    }
    ASSERT_TRUE(n < JOBS + JOBS / 2); /* the caller's, and hardly a worker's */
}

TEST(a_long_job_of_small_tasks_is_shared)
{
    struct timed t = {.caller = pthread_self(), .ns = 1000000};
    on_all_threads(2, NULL);
    sleep_a_while();
    ASSERT_OK(lk__parallel((lk__tasks){64, (double)t.ns, 0}, take_time, &t));
    ASSERT_TRUE(t.by_others > 0);
}

/* Each would not pay for waking one. */
TEST(many_short_jobs_wake_a_worker)
{
    struct timed t = {.caller = pthread_self(), .ns = 150};
    on_all_threads(2, NULL);
    sleep_a_while();
    for (int i = 0; i < 10000 && t.by_others == 0; i++)
        ASSERT_OK(lk__parallel((lk__tasks){64, (double)t.ns, 0}, take_time, &t));
    ASSERT_TRUE(t.by_others > 0);
}

TEST(a_job_that_is_said_to_be_short_is_not_shared)
{
    struct timed t = {.caller = pthread_self(), .ns = 1000000};
    on_all_threads(2, NULL); /* they are awake */
    ASSERT_OK(lk__parallel((lk__tasks){4, 100, 0}, take_time, &t));
    ASSERT_EQ(t.by_others, 0);
}

TEST(all_threads_take_part)
{
    for (int threads = 2; threads <= 8; threads++)
        on_all_threads(threads, NULL);
}

/* Who does a task of a job in which all threads meet. */
struct regulars {
    struct meeting meeting;
    pthread_t of[8];
};

static void meet_and_sign(void *arg, int64_t first, int64_t last)
{
    struct regulars *r = arg;
    r->of[first] = pthread_self();
    meet(&r->meeting, first, last);
}

TEST(a_thread_has_the_same_tasks_in_every_job)
{
    enum { THREADS = 4, JOBS = 50 };
    struct regulars first, next;
    ASSERT_OK(lk_threads_set(THREADS));
    for (int i = 0; i < JOBS; i++) {
        next = (struct regulars){.meeting.expected = THREADS};
        ASSERT_OK(lk__parallel(lk__tasks_long(THREADS), meet_and_sign, &next));
        for (int k = 0; k < THREADS && i > 0; k++)
            ASSERT_TRUE(pthread_equal(first.of[k], next.of[k]));
        first = next;
    }
    ASSERT_TRUE(pthread_equal(first.of[0], pthread_self()));
}

static void tally_nested(void *arg, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        struct tally *t = arg;
        pthread_t before = pthread_self();
        ASSERT_OK(lk__parallel(lk__tasks_long(50), tally_tasks, t));
        ASSERT_TRUE(pthread_equal(before, pthread_self()));
    }
}

TEST(nested_calls_are_done_by_their_caller)
{
    static struct tally t;
    memset(&t, 0, sizeof t);
    ASSERT_OK(lk_threads_set(4));
    ASSERT_OK(lk__parallel(lk__tasks_long(20), tally_nested, &t));
    for (int i = 0; i < 50; i++)
        ASSERT_EQ(t.done[i], 20);
}

enum { N_SUM = 40000 };

static float sum_operand[N_SUM];

/* A kernel that the pool splits into runs of pieces. */
static float sum_of_operand(void)
{
    float sum;
    lk_reduce_axis_shape s = {1, N_SUM, 1, 100};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, sum_operand, &sum));
    return sum;
}

static void *host_thread(void *arg)
{
    const float *expected = arg;
    for (int i = 0; i < 5; i++)
        ASSERT_TRUE(sum_of_operand() == *expected);
    return NULL;
}

TEST(a_thousand_host_threads_call_kernels_at_once)
{
    enum { HOSTS = 1000 };
    static pthread_t host[HOSTS];
    pthread_attr_t attr;
    ASSERT_EQ(pthread_attr_init(&attr), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    for (int i = 0; i < N_SUM; i++)
        sum_operand[i] = (float)(i * 7919 % 1009) * 0.37F - 3;
    ASSERT_OK(lk_threads_set(1));
    float expected = sum_of_operand();
    ASSERT_OK(lk_threads_set(2));
    for (int i = 0; i < HOSTS; i++)
        ASSERT_EQ(pthread_create(&host[i], &attr, host_thread, &expected), 0);
    for (int i = 0; i < HOSTS; i++)
        ASSERT_EQ(pthread_join(host[i], NULL), 0);
    pthread_attr_destroy(&attr);
}

static bool is_worker(void)
{
    char name[16];
    ASSERT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    return strncmp(name, "lockstep-", 9) == 0;
}

static _Atomic int workers_checked;

static void check_worker(void)
{
    if (!is_worker())
        return;
    sigset_t blocked;
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    ASSERT_TRUE(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM) &&
                sigismember(&blocked, SIGALRM) && sigismember(&blocked, SIGUSR1));
    ASSERT_TRUE(!sigismember(&blocked, SIGSEGV) && !sigismember(&blocked, SIGFPE));
    ASSERT_OK(lk__fp_check());
    pthread_attr_t attr;
    size_t stack = 0;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
    ASSERT_EQ(pthread_attr_getstacksize(&attr, &stack), 0);
    ASSERT_TRUE(stack >= 1 << 20);
    pthread_attr_destroy(&attr);
    workers_checked++;
}

TEST(workers_have_names_stacks_no_signals_and_canonical_arithmetic)
{
    lk_threads_stop();
    sigset_t before, after;
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    ASSERT_TRUE(!sigismember(&before, SIGINT));
    fesetround(FE_UPWARD); /* the pool is started from a thread that rounds otherwise */
    workers_checked = 0;
    on_all_threads(4, check_worker);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(workers_checked, 3);
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int sig = 1; sig < NSIG; sig++)
        ASSERT_EQ(sigismember(&before, sig), sigismember(&after, sig));
}

/* The number once it stays the same: a joined thread may still be on its way out. */
static int settled_threads(void)
{
    int n = count_threads();
    for (int same = 0; same < 5;) {
        struct timespec pause = {.tv_nsec = 10000000};
        nanosleep(&pause, NULL);
        int now = count_threads();
        same = now == n ? same + 1 : 0;
        n = now;
    }
    return n;
}

TEST(stopping_leaves_no_thread_and_no_memory)
{
    lk_threads_stop();
    int64_t live = lk_alloc_stats_now().live_blocks;
    int before = settled_threads();
    on_all_threads(4, NULL);
    ASSERT_EQ(count_threads(), before + 3);
    lk_threads_stop();
    ASSERT_EQ(settled_threads(), before);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
    lk_threads_stop();
    on_all_threads(3, NULL);
}

TEST(an_idle_pool_sleeps)
{
    on_all_threads(2, NULL);
    struct timespec pause = {.tv_nsec = 200000000}, begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double used = (double)(end.tv_sec - begin.tv_sec) +
                  1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    ASSERT_TRUE(used < 0.02);
}

TEST(threads_that_cannot_be_started_are_done_without)
{
    static struct tally t;
    for (int can = 0; can <= 2; can++) {
        lk_threads_stop();
        creations_left = can;
        memset(&t, 0, sizeof t);
        ASSERT_OK(lk_threads_set(9));
        ASSERT_OK(lk__parallel(lk__tasks_long(MAX_TASKS), tally_tasks, &t));
        ASSERT_OK(lk__parallel(lk__tasks_long(0), tally_tasks, &t));
        check_tally(&t, MAX_TASKS);
        creations_left = -1;
        ASSERT_TRUE(count_threads() >= can + 1);
    }
    lk_threads_stop(); /* the next start tries again */
    on_all_threads(9, NULL);
}

/* Run in a child that the watchdog's alarm ends if it hangs.  Neither ThreadSanitizer nor qemu can
 * follow a fork of a program with threads. */
static void check_in_child(void)
{
#if defined __SANITIZE_THREAD__ || defined TEST_EMULATED
    return;
#endif
    pid_t child = fork();
    ASSERT_TRUE(child >= 0);
    if (child == 0) {
        alarm(10);
        on_all_threads(3, NULL);
        lk_threads_stop();
        _exit(0);
    }
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_forked_child_starts_its_own_pool)
{
    on_all_threads(3, NULL);
    check_in_child();
    on_all_threads(3, NULL);
}

static atomic_bool forked, running;

static void tally_until_forked(void *arg, int64_t first, int64_t last)
{
    running = true;
    while (!forked)
        sched_yield();
    tally_tasks(arg, first, last);
}

static void *busy_host(void *arg)
{
    ASSERT_OK(lk__parallel(lk__tasks_long(100), tally_until_forked, arg));
    return NULL;
}

TEST(a_child_forked_in_the_middle_of_a_job_starts_its_own_pool)
{
    static struct tally t;
    memset(&t, 0, sizeof t);
    ASSERT_OK(lk_threads_set(3));
    pthread_t host;
    ASSERT_EQ(pthread_create(&host, NULL, busy_host, &t), 0);
    while (!running)
        sched_yield();
    check_in_child();
    forked = true;
    ASSERT_EQ(pthread_join(host, NULL), 0);
    check_tally(&t, 100);
}
