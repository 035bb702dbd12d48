/* What runs the tests of a program: their list, the watchdog, and the ranks of those that need some. */
#include "harness.h"

#include <lockstep/comm.h>
#include <lockstep/extra/alloc.h>

#include <fenv.h>

const char *test_current = "?";

static struct test *tests;

void test_add(struct test *t)
{
    struct test **place = &tests;
    while (*place && (*place)->line < t->line)
        place = &(*place)->next;
    t->next = *place;
    *place = t;
}

void test_on_alarm(int sig)
{
    (void)sig;
    static const char msg[] = ": watchdog: the test hung\n";
    bool said = write(STDERR_FILENO, "FAIL ", 5) > 0 &&
                write(STDERR_FILENO, test_current, strlen(test_current)) > 0 &&
                write(STDERR_FILENO, msg, sizeof msg - 1) > 0;
    _exit(said ? 2 : 3);
}

static lk_status rank_call(lk_comm *comm, void *arg)
{
    const struct test *t = arg;
    t->on_rank(comm);
    return LK_OK;
}

/* The next number of ranks, or 0; `list` is what is left of TEST_RANKS, or of its default. */
static int size_next(const char **list)
{
    char *end;
    long n = strtol(*list, &end, 10);
    ASSERT_TRUE(end != *list || **list == 0);
    *list = end;
    return (int)n;
}

/* On the ranks that the launcher started, or else on threads, one number of ranks after the other. */
static void run_on_ranks(struct test *t, lk_comm *all)
{
    if (all) {
        lk_comm *own;
        ASSERT_OK(lk_comm_dup(all, &own));
        t->on_rank(own);
        lk_comm_close(own);
        return;
    }
    const char *sizes = getenv("TEST_RANKS");
    if (!sizes)
        sizes = getenv("TEST_BRIEF") ? "1 3 4" : "1 2 3 4 5 7 8";
    for (int size = size_next(&sizes); size > 0; size = size_next(&sizes))
        ASSERT_OK(lk_run_local(size, rank_call, t));
}

static lk_comm *transport_open(const char *transport)
{
    lk_comm *all;
    feclearexcept(FE_ALL_EXCEPT);
    ASSERT_OK(lk_comm_open(transport, &all));
    ASSERT_EQ(fetestexcept(FE_ALL_EXCEPT), 0); /* MPI computes when it begins */
    return all;
}

int test_main(void)
{
    const char *transport = getenv("TEST_TRANSPORT");
    bool has_ranks = false;
    for (const struct test *t = tests; t; t = t->next)
        has_ranks = has_ranks || t->on_rank;
    signal(SIGALRM, test_on_alarm);
    lk_comm *all = has_ranks && transport ? transport_open(transport) : NULL;
    for (struct test *t = tests; t; t = t->next) {
        test_current = t->name;
        alarm(t->on_rank ? 4 * TEST_TIMEOUT_S : TEST_TIMEOUT_S);
        if (t->on_rank)
            run_on_ranks(t, all);
        else
            t->run();
        if (!all || lk_comm_rank(all) == 0)
            printf("ok %s\n", t->name);
    }
    lk_comm_close(all);
    if (has_ranks)
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    if (!tests)
        fprintf(stderr, "FAIL: there is no test in this program\n");
    return tests ? 0 : 1;
}
