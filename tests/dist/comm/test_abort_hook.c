/* The abort hook: a rank that crashes names itself, the signal and the place, and ends all ranks.
 *
 *     test_abort_hook              local ranks, in processes that crash; under MPI, what does not crash
 *     test_abort_hook HOW          under MPI: rank 1 ends so (segv, abort, divide, overflow, fail); the others
 *                                  print what they are told (tests/dist/aborted.sh)
 */
#include "comm/comm.h"
#include "faults.h"
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#if defined __has_feature
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define SANITIZED
#    endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#    define SANITIZED
#endif
#ifdef SANITIZED /* its own handlers end the process behind ours, with a report and a status */
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* ---- crashes ---- */

static volatile int zero, sink;
static int *volatile nowhere = (int *)16; /* NOLINT(performance-no-int-to-ptr) */

__attribute__((noinline, no_sanitize("undefined", "address"))) static void segv_here(void)
{
    sink = *nowhere;
    sink = 1;
}

__attribute__((noinline, no_sanitize("undefined"))) static void divide_here(void)
{
#ifdef __x86_64__
    sink = 7 / zero;
#else /* where it gives 0 */
    (void)raise(SIGFPE);
#endif
    sink = 1;
}

__attribute__((noinline)) static void abort_here(void)
{
    abort();
}

/* NOLINTNEXTLINE(misc-no-recursion) */
__attribute__((noinline, no_sanitize("undefined", "address"))) static int overflow_here(int depth)
{
    volatile char page[4096];
    if (depth < zero)
        return 0;
    page[depth % 4096] = (char)depth;
    return overflow_here(depth + 1) + page[(depth + 1) % 4096];
}

static void *thread_crashes(void *arg)
{
    segv_here();
    return arg;
}

typedef struct way {
    const char *how;
    int signal;
    const char *cause;
    void (*place)(void);
} way;

static const way ways[] = {
    {"segv", SIGSEGV, "ended by SIGSEGV at address 0x10", segv_here},
    {"abort", SIGABRT, "ended by SIGABRT", abort_here},
    {"divide", SIGFPE, "ended by SIGFPE", divide_here},
    {"overflow", SIGSEGV, "ended by SIGSEGV at address 0x", NULL},
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static lk_status crash(const char *how)
{
    pthread_t thread;
    if (strcmp(how, "segv") == 0)
        segv_here();
    else if (strcmp(how, "abort") == 0)
        abort_here();
    else if (strcmp(how, "divide") == 0)
        divide_here();
    else if (strcmp(how, "overflow") == 0)
        sink = overflow_here(0);
    else if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, thread_crashes, NULL) == 0)
        pthread_join(thread, NULL);
    return LK_RAISE(LK_EIO, "there is no sample 7");
}

/* ---- a program that crashes ---- */

typedef struct program {
    const char *how;
    bool installs;
    FILE *errors;
} program;

/* Three calls, then rank 1 crashes while the others wait for it. */
static lk_status rank_run(lk_comm *comm, void *arg)
{
    const program *p = arg;
    float x[4] = {0};
    LK_TRY(lk_comm_set_deadline(comm, 60));
    if (p->installs)
        LK_TRY(lk_abort_hook_install(comm, p->errors));
    for (int i = 0; i < 3; i++)
        LK_TRY(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warmup"));
    if (lk_comm_rank(comm) == 1)
        LK_TRY(crash(p->how));
    return LK_TRACE(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "aux"));
}

/* ---- in a child ---- */

enum { PRINTED = 1 << 16 };

typedef struct outcome {
    int status; /* of waitpid() */
    int64_t ns;
    pid_t pid;
    char printed[PRINTED];
} outcome;

/* Run `main_of` in a process of its own, with its stderr. */
static const outcome *child_run(int (*main_of)(void *arg), void *arg)
{
    static outcome out;
    int fd[2];
    int64_t start = lk_clock_ns();
    ASSERT_EQ(pipe(fd), 0);
    fflush(stdout);
    fflush(stderr);
    out.pid = fork();
    ASSERT_TRUE(out.pid >= 0);
    if (out.pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        _exit(main_of(arg));
    }
    close(fd[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(fd[0], out.printed + n, sizeof out.printed - 1 - n)) > 0;)
        n += (size_t)got;
    out.printed[n] = '\0';
    close(fd[0]);
    ASSERT_EQ(waitpid(out.pid, &out.status, 0), out.pid);
    out.ns = lk_clock_ns() - start;
    return &out;
}

typedef struct job {
    int ranks;
    program p;
} job;

static int job_main(void *arg)
{
    job *j = arg;
    return lk_run_main(j->ranks, rank_run, &j->p, stderr);
}

static void expect_printed(const outcome *o, const char *text)
{
    if (!strstr(o->printed, text))
        TEST_FAIL("nothing was printed with \"%s\", but:\n%s", text, o->printed);
}

static void expect_signal(const outcome *o, int signal)
{
    bool ended = sanitized ? !WIFEXITED(o->status) || WEXITSTATUS(o->status) != 0
                           : WIFSIGNALED(o->status) && WTERMSIG(o->status) == signal;
    if (!ended)
        TEST_FAIL("status %x, not that of signal %d; printed:\n%s", o->status, signal, o->printed);
    ASSERT_TRUE((double)o->ns / 1e9 < 10 * TEST_SLOWNESS);
}

/* Frame `#i module+0xOFFSET` is within the function. */
static void expect_place(const outcome *o, const char *frame, void (*function)(void))
{
    Dl_info in;
    const char *at = strstr(o->printed, frame),
               *offset = at ? strstr(at, "test_abort_hook+0x") : NULL;
    ASSERT_TRUE(at && offset && dladdr((void *)(uintptr_t)function, &in));
    uintptr_t found = (uintptr_t)strtoull(offset + strlen("test_abort_hook+"), NULL, 16);
    uintptr_t begin = (uintptr_t)function - (uintptr_t)in.dli_fbase;
    if (found < begin || found > begin + 256)
        TEST_FAIL("%s at %zx, not within %zx...", frame, (size_t)found, (size_t)begin);
}

/* ---- local ranks ---- */

TEST(ranks_that_are_threads_name_themselves)
{
    for (int i = 0; i < N_WAYS; i++)
        for (int n = 2; n <= 4; n++) {
            const way *w = &ways[i];
            char who[128];
            if (sanitized && strcmp(w->how, "overflow") == 0)
                continue; /* its stacks are others */
            const outcome *o = child_run(
                job_main, &(job){n, {.how = w->how, .installs = true, .errors = stderr}});
            expect_signal(o, w->signal);
            snprintf(who, sizeof who, "lockstep: rank 1 of %d on host \"", n);
            expect_printed(o, who);
            snprintf(who, sizeof who, "\", process %d, ended by ", (int)o->pid);
            expect_printed(o, who);
            expect_printed(o, w->cause);
            expect_printed(o, " after allreduce(\"warmup\") #3, with all ranks of its job\n");
            if (w->place == abort_here || strstr(o->printed, "  #0 raise"))
                expect_place(o, "  #", w->place); /* below those of the C library */
            else if (w->place)
                expect_place(o, "  #0 ", w->place);
        }
}

/* The report of a thread that is no rank, in a process of several ranks. */
TEST(a_thread_that_is_no_rank_is_told_as_such)
{
    const outcome *o = child_run(job_main,
                                 &(job){3, {.how = "thread", .installs = true, .errors = stderr}});
    expect_signal(o, SIGSEGV);
    expect_printed(o, "lockstep: a thread that is no rank, ended by SIGSEGV at address 0x10");
    expect_place(o, "  #0 ", segv_here);
}

/* The same as of old, with the rank's message. */
TEST(a_failure_is_returned_with_its_rank)
{
    const outcome *o = child_run(job_main,
                                 &(job){3, {.how = "fail", .installs = true, .errors = stderr}});
    ASSERT_TRUE(WIFEXITED(o->status) && WEXITSTATUS(o->status) == 1);
    expect_printed(o, "error: input/output error: rank 1: there is no sample 7\n");
    expect_printed(o, "  #0 crash (");
}

TEST(without_it_nothing_is_printed)
{
    const outcome *o = child_run(job_main, &(job){2, {.how = "segv"}});
    expect_signal(o, SIGSEGV);
    ASSERT_TRUE(!strstr(o->printed, "lockstep: rank"));
    o = child_run(job_main, &(job){2, {.how = "segv", .installs = true, .errors = NULL}});
    expect_signal(o, SIGSEGV);
    ASSERT_TRUE(!strstr(o->printed, "lockstep: rank"));
}

/* ---- the environment ---- */

static int asked_main(void *arg)
{
    setenv("LK_ABORT_HOOK", arg, 1);
    return lk_run_main(2, rank_run, &(program){.how = "segv"}, stderr);
}

TEST(the_environment_installs_it)
{
    const outcome *o = child_run(asked_main, (char[]){"1"});
    expect_signal(o, SIGSEGV);
    expect_printed(o, "lockstep: rank 1 of 2 on host \"");
    o = child_run(asked_main, (char[]){"0"});
    ASSERT_TRUE(!strstr(o->printed, "lockstep: rank"));
    o = child_run(asked_main, (char[]){"yes"});
    ASSERT_TRUE(WIFEXITED(o->status) && WEXITSTATUS(o->status) == 1);
    expect_printed(o, "LK_ABORT_HOOK is \"yes\": it must be 0 or 1");
}

/* ---- the host's handlers ---- */

static void host_handler(int sig, siginfo_t *info, void *context)
{
    static const char text[] = "handler of the host\n";
    (void)context;
    bool same = sig == SIGSEGV && info->si_addr == (void *)nowhere;
    if (same && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(3);
    _exit(42);
}

static int hosted_main(void *arg)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = host_handler;
    sigaction(SIGSEGV, &action, NULL);
    return job_main(arg);
}

TEST(handlers_of_the_host_run_behind_it)
{
    const outcome *o = child_run(hosted_main,
                                 &(job){2, {.how = "segv", .installs = true, .errors = stderr}});
    ASSERT_TRUE(WIFEXITED(o->status) && WEXITSTATUS(o->status) == 42);
    expect_printed(o, "lockstep: rank 1 of 2");
    ASSERT_TRUE(strstr(o->printed, "handler of the host") > strstr(o->printed, "lockstep: rank 1"));
}

/* A child of a rank is no rank: the job goes on. */
static lk_status forking_run(lk_comm *comm, void *arg)
{
    int status = 0;
    LK_TRY(lk_abort_hook_install(comm, stderr));
    pid_t pid = lk_comm_rank(comm) == 1 ? fork() : -1;
    if (pid == 0)
        segv_here();
    if (pid > 0 && (waitpid(pid, &status, 0) != pid || status == 0))
        return LK_RAISE(LK_EIO, "the child did not crash");
    (void)arg;
    return lk_barrier(comm, "end");
}

static int forking_main(void *arg)
{
    return lk_run_main(2, forking_run, arg, stderr);
}

TEST(a_child_of_a_rank_is_not_reported)
{
    const outcome *o = child_run(forking_main, NULL);
    ASSERT_TRUE(WIFEXITED(o->status) && WEXITSTATUS(o->status) == 0);
    ASSERT_TRUE(!strstr(o->printed, "lockstep: "));
}

/* ---- what does not crash ---- */

static bool is_same_action(const struct sigaction *a, const struct sigaction *b)
{
    const int flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART; /* the C library has one of its own */
    bool info = a->sa_flags & SA_SIGINFO;
    return (a->sa_flags & flags) == (b->sa_flags & flags) &&
           (info ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler);
}

static lk_status given_back_run(lk_comm *comm, void *arg)
{
    static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction start[5], now;
    (void)arg;
    signal(SIGILL, SIG_IGN);
    for (int i = 0; i < 5; i++)
        sigaction(all[i], NULL, &start[i]);
    lk_comm *more = NULL;
    LK_TRY(lk_comm_dup(comm, &more));
    LK_TRY(lk_abort_hook_install(comm, stderr));
    LK_TRY(lk_abort_hook_install(more, NULL)); /* the same family: once is enough */
    for (int i = 0; i < 5; i++) {
        sigaction(all[i], NULL, &now);
        ASSERT_EQ(is_same_action(&now, &start[i]), all[i] == SIGILL); /* which is ignored */
    }
    lk_comm_close(more);
    lk_abort_hook_remove(comm);
    lk_abort_hook_remove(comm);
    lk_abort_hook_remove(NULL);
    for (int i = 0; i < 5; i++) {
        sigaction(all[i], NULL, &now);
        ASSERT_TRUE(is_same_action(&now, &start[i]));
    }
    signal(SIGILL, SIG_DFL);
    ASSERT_FAILS(lk_abort_hook_install(NULL, stderr), LK_EINVAL, "comm is NULL");
    return LK_OK;
}

TEST(signals_are_given_back)
{
    struct sigaction start, now;
    lk_comm *comm;
    sigaction(SIGSEGV, NULL, &start);
    ASSERT_OK(lk_comm_open("self", &comm));
    ASSERT_OK(given_back_run(comm, NULL));
    ASSERT_OK(lk_abort_hook_install(comm, stderr));
    sigaction(SIGSEGV, NULL, &now);
    ASSERT_TRUE(!is_same_action(&now, &start));
    lk_comm_close(comm); /* removes it */
    sigaction(SIGSEGV, NULL, &now);
    ASSERT_TRUE(is_same_action(&now, &start));
}

static lk_comm *held;

static lk_status hook_made(void)
{
    LK_TRY(lk_abort_hook_install(held, stderr));
    lk_abort_hook_remove(held);
    return LK_OK;
}

TEST(every_allocation_can_fail)
{
    ASSERT_OK(lk_comm_open("self", &held));
    ASSERT_TRUE(test_every_allocation_fails(hook_made) > 0);
    lk_comm_close(held);
}

/* ---- under MPI ---- */

/* The others print what they are told; who fails does as lk_run_main() does. */
static int end_badly(const char *how)
{
    lk_comm *comm;
    signal(SIGUSR1, SIG_IGN); /* MPICH's launcher says so that a process has ended */
    ASSERT_OK(lk_comm_open("mpi", &comm));
    int64_t start = lk_clock_ns();
    lk_status st = rank_run(comm, &(program){.how = how, .installs = true, .errors = stderr});
    if (lk_comm_rank(comm) != 1)
        printf("rank %d was told after %.1f s: %s\n", lk_comm_rank(comm),
               (double)(lk_clock_ns() - start) / 1e9, lk_error_message());
    fflush(stdout);
    int status = st == LK_OK ? 0 : lk_comm_fail(comm, stderr);
    lk_comm_close(comm);
    usleep(300000); /* the other ones speak too */
    _exit(status);
}

int main(int argc, char **argv)
{
    const char *transport = getenv("TEST_TRANSPORT");
    if (argc > 1)
        return end_badly(argv[1]);
    if (!transport)
        return test_main();
    lk_comm *comm;
    ASSERT_OK(lk_comm_open(transport, &comm));
    ASSERT_OK(given_back_run(comm, NULL));
    ASSERT_OK(lk_barrier(comm, "end"));
    lk_comm_close(comm);
    return 0;
}
