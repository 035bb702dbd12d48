/* Tests with ranks: each is a function of a communicator, run by every rank.
 *
 * Started plainly, the program runs every test on 1, 2, 3, 4, 5, 7 and 8 local ranks; with TEST_BRIEF
 * in the environment, as `make test` does under sanitizers, on 1, 3 and 4, and alike cases once;
 * with TEST_RANKS, a list of numbers, on those.
 * Started by tests/dist/run.sh (TEST_TRANSPORT=mpi) it is one rank of as many as the launcher
 * started, and each test gets a communicator of its own.  A check that fails ends all ranks.
 */
#ifndef LK_TEST_RANKS_H
#define LK_TEST_RANKS_H

#include "harness.h"

#include <lockstep/comm.h>
#include <lockstep/extra/alloc.h>

#include <fenv.h>

struct ranks_test {
    const char *name;
    void (*run)(lk_comm *comm);
};

static inline bool ranks_brief(void)
{
    return getenv("TEST_BRIEF") != NULL;
}

static lk_status ranks_call(lk_comm *comm, void *arg)
{
    const struct ranks_test *t = arg;
    t->run(comm);
    return LK_OK;
}

/* The next number of ranks, or 0; `list` is what is left of TEST_RANKS, or of its default. */
static inline int ranks_next(const char **list)
{
    char *end;
    long n = strtol(*list, &end, 10);
    ASSERT_TRUE(end != *list || **list == 0);
    *list = end;
    return (int)n;
}

static inline int ranks_main(const struct ranks_test *t, int n)
{
    const char *sizes = getenv("TEST_RANKS");
    if (!sizes)
        sizes = ranks_brief() ? "1 3 4" : "1 2 3 4 5 7 8";
    const char *transport = getenv("TEST_TRANSPORT");
    signal(SIGALRM, test_on_alarm);
    lk_comm *comm = NULL;
    if (transport) {
        feclearexcept(FE_ALL_EXCEPT);
        ASSERT_OK(lk_comm_open(transport, &comm));
        ASSERT_EQ(fetestexcept(FE_ALL_EXCEPT), 0); /* MPI computes when it begins */
    }
    for (int i = 0; i < n; i++) {
        test_current = t[i].name;
        alarm(4 * TEST_TIMEOUT_S);
        if (comm) {
            lk_comm *own;
            ASSERT_OK(lk_comm_dup(comm, &own));
            t[i].run(own);
            lk_comm_close(own);
        }
        const char *left = sizes;
        for (int size = ranks_next(&left); !comm && size > 0; size = ranks_next(&left))
            ASSERT_OK(lk_run_local(size, ranks_call, (void *)(uintptr_t)&t[i]));
        if (!comm || lk_comm_rank(comm) == 0)
            printf("ok %s\n", t[i].name);
    }
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}

#define RANKS_MAIN(...)                                                  \
    int main(void)                                                       \
    {                                                                    \
        static const struct ranks_test tests[] = {__VA_ARGS__};          \
        return ranks_main(tests, (int)(sizeof tests / sizeof tests[0])); \
    }

#endif /* LK_TEST_RANKS_H */
