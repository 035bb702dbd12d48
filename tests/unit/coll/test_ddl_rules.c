/* DDL from inside: when a value is right, what options mean, what mode p and -rebind_iter do. */
#include "coll/ddl/ddl.h"
#include "faults.h"

#include <time.h>

TEST(right_is_relative_and_at_zero_absolute)
{
    ASSERT_TRUE(lk__ddl_right(1, 1, 0));
    ASSERT_TRUE(lk__ddl_right(0, -0.0, 0));
    ASSERT_TRUE(lk__ddl_right(1.1, 1, 0.11));
    ASSERT_TRUE(!lk__ddl_right(1.1, 1, 0.09));
    ASSERT_TRUE(lk__ddl_right(-110, -100, 0.11));
    ASSERT_TRUE(!lk__ddl_right(110, -100, 0.11));
    ASSERT_TRUE(lk__ddl_right(1e-7, 0, 1e-6)); /* nothing is relative to 0 */
    ASSERT_TRUE(!lk__ddl_right(1e-5, 0, 1e-6));
    ASSERT_TRUE(!lk__ddl_right(1e-300, 0, 0));
    ASSERT_TRUE(!lk__ddl_right(1e-5, 1e-6, 1e-6)); /* small, but not 0 */
    ASSERT_TRUE(!lk__ddl_right((double)NAN, (double)NAN, 1e9));
    ASSERT_TRUE(!lk__ddl_right((double)NAN, 0, 1e9));
    ASSERT_TRUE(!lk__ddl_right(0, (double)NAN, 1e9));
    ASSERT_TRUE(lk__ddl_right(HUGE_VAL, HUGE_VAL, 0));
    ASSERT_TRUE(!lk__ddl_right(HUGE_VAL, -HUGE_VAL, 0.5));
    ASSERT_TRUE(!lk__ddl_right(HUGE_VAL, 1, 0.5));
}

TEST(options_are_read_in_any_order)
{
    lk__ddl_options o;
    ASSERT_OK(lk__ddl_options_parse(
        "  -dbg_level 2\t-mode c:4x8x2 -rebind_iter 7 -dev_sync 1 -dump_iter 100 ", &o));
    ASSERT_EQ(o.mode.algorithm, LK_TIER_CUT);
    ASSERT_EQ(o.mode.n_tiers, 3);
    ASSERT_EQ(o.dump_iter, 100);
    ASSERT_EQ(o.rebind_iter, 7);
    ASSERT_EQ(o.dev_sync, 1);
    ASSERT_EQ(o.dbg_level, 2);
    ASSERT_OK(lk__ddl_options_parse("", &o));
    ASSERT_EQ(o.mode.algorithm, LK_TIER_BEST);
    ASSERT_EQ(o.mode.n_tiers, 0);
    ASSERT_EQ(o.dump_iter, 0);
    ASSERT_FAILS(lk__ddl_options_parse("-dump_iter 1000000001", &o), LK_EINVAL,
                 "from 0 to 1000000000");
    ASSERT_FAILS(lk__ddl_options_parse("-dump_iter 99999999999999999999999", &o), LK_EINVAL,
                 "from 0");
    ASSERT_FAILS(lk__ddl_options_parse("-dev_sync ''", &o), LK_EINVAL, "from 0 to 2");
}

TEST(any_options_are_read_or_refused)
{
    static const char *const words[] = {"-mode",      "-dump_iter", "-dev_sync",   "-rebind_iter",
                                        "-dbg_level", "b:4x3",      "p",           "0",
                                        "1",          "2",          "3",           "77",
                                        "x",          "-",          "\xff\x1b[2J", "r:9999999"};
    uint32_t seed = 1;
    int read = 0, refused = 0;
    for (int k = 0; k < 100000; k++) {
        char text[200] = "";
        seed = seed * 1664525U + 1013904223U;
        for (int n = (int)(seed >> 10) % 7; n > 0; n--) {
            seed = seed * 1664525U + 1013904223U;
            strcat(text, words[(seed >> 10) % (sizeof words / sizeof words[0])]);
            strcat(text, (seed >> 20) % 2 ? " " : "\t ");
        }
        lk__ddl_options o;
        if (lk__ddl_options_parse(text, &o) == LK_OK) {
            ASSERT_TRUE(o.dev_sync >= 0 && o.dev_sync <= 2 && o.dbg_level >= 0 && o.dbg_level <= 2);
            read++;
        } else {
            ASSERT_EQ(lk_error_status(), LK_EINVAL);
            lk_error_clear();
            refused++;
        }
    }
    ASSERT_TRUE(read > 1000 && refused > 1000);
}

static lk_status probe(lk_comm *comm, void *arg)
{
    (void)arg;
    lk_ddl *d;
    float x[100] = {0};
    bool halves = false, direct = false;
    LK_TRY(lk_ddl_init(comm, 0, "-mode p:4x1", &d));
    lk_ddl_tensor t = {"x", NULL, x, 100, LK_F32};
    const lk__ddl_class *c = &d->probe[8]; /* 400 bytes */
    for (int i = 0; i < 2 * LK_DDL_TRIES; i++) {
        ASSERT_TRUE(!c->chosen);
        LK_TRY(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}));
        const char *way = lk_ddl_times_of(d).tier[0].algorithm;
        halves = halves || strcmp(way, "halves") == 0;
        direct = direct || strcmp(way, "direct") == 0;
    }
    ASSERT_TRUE(c->chosen && halves && direct);
    LK_TRY(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}));
    ASSERT_TRUE(strcmp(lk_ddl_times_of(d).tier[0].algorithm, lk__way_name(c->way[0])) == 0);
    ASSERT_EQ(c->n_tried, 2 * LK_DDL_TRIES);
    int64_t way = c->way[0], sum;
    LK_TRY(lk_allreduce(comm, &way, &sum, 1, LK_I64, LK_REDUCE_SUM, "all chose the same"));
    ASSERT_EQ(sum, 4 * way);
    lk_ddl_free(d);
    return LK_OK;
}

TEST(mode_p_tries_all_and_stays_with_one)
{
    setenv("LK_LOCAL_NODES", "4", 1); /* inside a node there is nothing to try */
    ASSERT_OK(lk_run_local(4, probe, NULL));
    unsetenv("LK_LOCAL_NODES");
}

/* Rank 1 is late every time: after three checks it is bound, and nobody else. */
static lk_status late(lk_comm *comm, void *arg)
{
    (void)arg;
    lk_ddl *d;
    float x = 1;
    lk_ddl_tensor t = {"x", NULL, &x, 1, LK_F32};
    LK_TRY(lk_ddl_init(comm, 0, "-mode n:3 -rebind_iter 2", &d));
    for (int i = 1; i <= 7; i++) {
        if (lk_comm_rank(comm) == 1)
            nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        LK_TRY(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}));
        ASSERT_EQ(d->n_rebound, lk_comm_rank(comm) == 1 && i >= 6);
    }
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    if (d->n_rebound)
        ASSERT_TRUE(CPU_EQUAL(&set, &d->cores));
    lk_ddl_free(d);
    return LK_OK;
}

TEST(a_slow_rank_is_bound_to_its_cores)
{
    ASSERT_OK(lk_run_local(3, late, NULL));
}

static lk_status some_calls(lk_comm *comm, void *arg)
{
    (void)arg;
    lk_status st;
    lk_ddl *d = NULL;
    float x[3] = {1, 2, 3}, y[2] = {1, 2};
    LK_TRY(lk_comm_set_deadline(comm, 5));
    LK_TRY_TO(done, lk_ddl_init(comm, 0, "-mode n:2x1 -rebind_iter 1", &d));
    lk_ddl_tensor t[2] = {{"x", NULL, x, 3, LK_F32}, {"y", NULL, y, 2, LK_F32}};
    LK_TRY_TO(done, lk_ddl_allreduce(d, t, &(lk_ddl_allreduce_options){.check = true}));
    LK_TRY_TO(done, lk_ddl_allreduce_n(d, 2, t, &(lk_ddl_allreduce_options){0}));
done:
    lk_ddl_free(d);
    return st;
}

TEST(every_allocation_may_fail)
{
    int64_t before = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_run_local(2, some_calls, NULL));
    int64_t calls = lk_alloc_stats_now().calls - before;
    for (int64_t n = 1; n <= calls; n++) {
        lk_alloc_fail_at(n);
        if (lk_run_local(2, some_calls, NULL) != LK_OK)
            lk_error_clear();
        lk_alloc_fail_at(0);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    }
    ASSERT_TRUE(calls > 20);
}
