/* Threads that are bound to sets of processors: pools of their own, on their processors, with the bits of
 * one thread.
 *
 * All tests run twice: on this machine, where what its processors cannot show is said on stdout, and on
 * one of twelve processors, which the calls below pretend.
 */
#include "harness.h"
#include "kernel/runtime/parallel.h"
#include "processors.h"
#include "thread_count.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

static int threads(void)
{
    int n = -1;
    ASSERT_OK(lk_threads_now(&n));
    return n;
}

/* A job in which all threads of a pool meet; each looks where it may run, and what it would use. */
struct meeting {
    lk__processors set;
    int expected;
    _Atomic int present, workers;
};

static void inner(void *arg, int64_t first, int64_t last)
{
    ASSERT_TRUE(first == 0 && last == 7); /* in one call: by its caller alone */
    *(pthread_t *)arg = pthread_self();
}

static void meet(void *arg, int64_t first, int64_t last)
{
    struct meeting *m = arg;
    for (int64_t i = first; i < last; i++) {
        atomic_fetch_add(&m->present, 1);
        while (m->present < m->expected)
            sched_yield();
        lk__processors mask;
        ASSERT_TRUE(lk__processors_allowed(&mask));
        ASSERT_TRUE(lk__processors_same(&mask, &m->set));
        ASSERT_TRUE(pretends || lk__processors_have(&m->set, sched_getcpu()));
        ASSERT_EQ(threads(), m->expected);
        char name[16];
        ASSERT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
        m->workers += strncmp(name, "lockstep-", 9) == 0;
        pthread_t nested;
        ASSERT_OK(lk__parallel(lk__tasks_long(7), inner, &nested));
        ASSERT_TRUE(pthread_equal(nested, pthread_self()));
    }
}

static void meet_on(const lk__processors *set, int expected)
{
    struct meeting m = {.set = *set, .expected = expected};
    ASSERT_EQ(threads(), expected);
    ASSERT_OK(lk__parallel(lk__tasks_long(expected), meet, &m));
    ASSERT_EQ(m.present, expected);
    ASSERT_EQ(m.workers, expected - 1);
}

static int most(int n)
{
    return n < LK_MAX_THREADS ? n : LK_MAX_THREADS;
}

/* Begin a test as a process does that nobody bound, and that has no settings. */
static void start_plain(void)
{
    unsetenv("LK_THREADS");
    ASSERT_OK(lk_threads_set(0));
    ASSERT_OK(lk__thread_bind(NULL));
}

static void *nothing(void *arg)
{
    return arg;
}

static int threads_at_start;

TEST(on_this_machine)
{
    pthread_t first;
    processors_begin();
    ASSERT_EQ(pthread_create(&first, NULL, nothing, NULL),
              0); /* a sanitizer may then start its own */
    ASSERT_EQ(pthread_join(first, NULL), 0);
    struct timespec pause = {.tv_nsec = 20000000}; /* it may still be on its way out */
    nanosleep(&pause, NULL);
    threads_at_start = count_threads();
}

TEST(workers_stay_in_the_set)
{
    start_plain();
    for (int n = n_all; n >= 1; n /= 2) {
        lk__processors set = some(n_all - n, n);
        ASSERT_OK(lk__thread_bind(&set));
        meet_on(&set, most(n));
    }
    ASSERT_OK(lk__thread_bind(NULL));
    meet_on(&all, most(n_all));
}

TEST(a_setting_is_the_most_that_a_set_has)
{
    lk__processors one = some(0, 1);
    start_plain();
    ASSERT_OK(lk__thread_bind(&all));
    ASSERT_OK(lk_threads_set(1));
    meet_on(&all, 1);
    ASSERT_OK(lk_threads_set(LK_MAX_THREADS));
    meet_on(&all, most(n_all));
    ASSERT_OK(lk__thread_bind(&one));
    meet_on(&one, 1);
    ASSERT_OK(lk__thread_bind(NULL));
    ASSERT_EQ(threads(), LK_MAX_THREADS);
    setenv("LK_THREADS", "1", 1);
    ASSERT_OK(lk_threads_set(0));
    ASSERT_OK(lk__thread_bind(&all));
    meet_on(&all, 1);
    setenv("LK_THREADS", "many", 1);
    ASSERT_OK(lk_threads_set(0));
    int n;
    ASSERT_FAILS(lk_threads_now(&n), LK_EINVAL, "LK_THREADS is \"many\"");
    start_plain();
}

/* What the others have is decided by the mask before, if a bound thread is the first to ask. */
TEST(a_bound_thread_does_not_decide_for_the_others)
{
    lk__processors one = some(0, 1);
    start_plain();
    ASSERT_OK(lk__thread_bind(&one));
    ASSERT_EQ(threads(), 1);
    ASSERT_EQ(lk__cores(), n_all);
    ASSERT_OK(lk__thread_bind(NULL));
    ASSERT_EQ(threads(), most(n_all));
}

enum { N_SUM = 60000, ROUNDS = 200 };

static float operand[N_SUM];

static float sum_of_operand(void)
{
    float sum;
    lk_reduce_axis_shape s = {1, N_SUM, 1, 100};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, operand, &sum));
    return sum;
}

struct side {
    lk__processors set;
    float expected;
    pthread_t thread;
};

static void *side_main(void *arg)
{
    struct side *s = arg;
    ASSERT_OK(lk__thread_bind(&s->set));
    for (int i = 0; i < ROUNDS; i++) {
        float sum = sum_of_operand();
        ASSERT_SAME_BITS(&sum, &s->expected, sizeof sum);
        if (i % 50 == 0)
            meet_on(&s->set, most(lk__processors_count(&s->set)));
    }
    return NULL;
}

static float expected_sum(void)
{
    for (int i = 0; i < N_SUM; i++)
        operand[i] = (float)(i * 7919 % 1009) * 0.37F - 3;
    lk__processors one = some(0, 1);
    ASSERT_OK(lk__thread_bind(&one));
    float sum = sum_of_operand();
    ASSERT_OK(lk__thread_bind(NULL));
    return sum;
}

TEST(threads_of_two_sets_compute_the_same_bits_at_the_same_time)
{
    start_plain();
    float expected = expected_sum();
    if (n_all < 2) {
        printf("not tested: two sets side by side, for want of a second processor\n");
        return;
    }
    int half = n_all / 2;
    struct side side[2] = {{.set = some(0, half), .expected = expected},
                           {.set = some(half, n_all - half), .expected = expected}};
    for (int i = 0; i < 2; i++)
        ASSERT_EQ(pthread_create(&side[i].thread, NULL, side_main, &side[i]), 0);
    for (int i = 0; i < 2; i++)
        ASSERT_EQ(pthread_join(side[i].thread, NULL), 0);
}

/* Two jobs, each of which ends only when the other has begun, with workers in both. */
struct pair {
    lk__processors set;
    _Atomic int *begun;
};

static void begin_and_wait(void *arg, int64_t first, int64_t last)
{
    struct pair *p = arg;
    for (int64_t i = first; i < last; i++) {
        atomic_fetch_add(p->begun, 1);
        while (*p->begun < 4)
            sched_yield();
    }
}

static void *pair_main(void *arg)
{
    struct pair *p = arg;
    ASSERT_OK(lk__thread_bind(&p->set));
    ASSERT_OK(lk__parallel(lk__tasks_long(2), begin_and_wait, p));
    return NULL;
}

/* Sets of two that overlap, where there are fewer than four processors: pools go by sets. */
TEST(each_set_has_a_pool_of_its_own)
{
    start_plain();
    if (n_all < 3) {
        printf("not tested: jobs of two pools that wait for each other, for want of a third "
               "processor\n");
        return;
    }
    _Atomic int begun = 0;
    struct pair a = {some(0, 2), &begun}, b = {some(n_all > 3 ? 2 : 1, 2), &begun};
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, NULL, pair_main, &b), 0);
    pair_main(&a);
    ASSERT_EQ(pthread_join(thread, NULL), 0);
    ASSERT_OK(lk__thread_bind(NULL));
}

/* The pool of all processors, and that of threads that are not bound, are two. */
TEST(a_bound_and_a_free_thread_have_different_pools)
{
    start_plain();
    if (n_all < 2) {
        printf("not tested: a bound and a free pool, for want of a second processor\n");
        return;
    }
    _Atomic int begun = 0;
    struct pair bound = {all, &begun};
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, NULL, pair_main, &bound), 0);
    ASSERT_OK(lk__parallel(lk__tasks_long(2), begin_and_wait, &bound));
    ASSERT_EQ(pthread_join(thread, NULL), 0);
}

/* More sets than there are places for pools (64): all pairs of twelve are 66. */
TEST(sets_beyond_the_places_take_turns)
{
    start_plain();
    if (n_all < 12) {
        printf("not tested: more sets than places for pools, for want of 12 processors\n");
        return;
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 12; i++)
            for (int k = 0; k < i; k++) {
                lk__processors set = some(i, 1), other = some(k, 1);
                for (int w = 0; w < LK__PROCESSOR_WORDS; w++)
                    set.word[w] |= other.word[w];
                ASSERT_OK(lk__thread_bind(&set));
                meet_on(&set, 2);
            }
    ASSERT_OK(lk__thread_bind(NULL));
}

/* Stop all workers: the threads of the start are left.  One that was joined may still be on its way out. */
static void stop_and_count(void)
{
    ASSERT_TRUE(count_threads() > threads_at_start || n_all == 1);
    lk_threads_stop();
    while (count_threads() > threads_at_start) /* the watchdog ends it */
        sched_yield();
}

TEST(stopping_ends_the_workers_of_all_sets)
{
    start_plain();
    lk_threads_stop();
    int64_t live = lk_alloc_stats_now().live_blocks, calls = lk_alloc_stats_now().calls;
    for (int i = 0; i < 3; i++) {
        meet_on(&all, most(n_all));
        ASSERT_OK(lk__thread_bind(&all));
        meet_on(&all, most(n_all));
        stop_and_count();
        meet_on(&all, most(n_all));
        ASSERT_OK(lk__thread_bind(NULL));
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
    ASSERT_EQ(lk_alloc_stats_now().calls, calls); /* nothing that could fail */
}

/* Neither ThreadSanitizer nor qemu can follow a fork of a program with threads. */
TEST(a_forked_child_is_bound_and_has_its_own_workers)
{
#if defined __SANITIZE_THREAD__ || defined TEST_EMULATED
    return;
#endif
    start_plain();
    ASSERT_OK(lk__thread_bind(&all));
    meet_on(&all, most(n_all));
    pid_t child = fork();
    ASSERT_TRUE(child >= 0);
    if (child == 0) {
        alarm(10);
        meet_on(&all, most(n_all));
        ASSERT_OK(lk__thread_bind(NULL));
        meet_on(&all, most(n_all));
        lk_threads_stop();
        _exit(0);
    }
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    meet_on(&all, most(n_all));
    ASSERT_OK(lk__thread_bind(NULL));
}

TEST(on_twelve_processors)
{
    start_plain();
    lk_threads_stop();
    processors_pretend(12);
}

TEST_AGAIN(workers_stay_in_the_set)
TEST_AGAIN(a_setting_is_the_most_that_a_set_has)
TEST_AGAIN(a_bound_thread_does_not_decide_for_the_others)
TEST_AGAIN(threads_of_two_sets_compute_the_same_bits_at_the_same_time)
TEST_AGAIN(each_set_has_a_pool_of_its_own)
TEST_AGAIN(a_bound_and_a_free_thread_have_different_pools)
TEST_AGAIN(sets_beyond_the_places_take_turns)
TEST_AGAIN(stopping_ends_the_workers_of_all_sets)
TEST_AGAIN(a_forked_child_is_bound_and_has_its_own_workers)
