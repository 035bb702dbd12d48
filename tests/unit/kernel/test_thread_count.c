/* The number of threads: a setting, LK_THREADS, or a fair share of the cores. */
#include "harness.h"
#include "kernel/parallel.h"

#include <sched.h>
#include <string.h>

static const char *const launcher[] = {
    "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",       "PMI_LOCAL_SIZE",
    "SLURM_STEP_TASKS_PER_NODE",  "SLURM_NTASKS_PER_NODE", "SLURM_NODEID"};

/* As if started without a launcher, LK_THREADS or a setting. */
static void start_plain(void)
{
    for (size_t i = 0; i < sizeof launcher / sizeof launcher[0]; i++)
        unsetenv(launcher[i]);
    unsetenv("LK_THREADS");
    ASSERT_OK(lk_threads_set(0));
}

static int threads(void)
{
    int n = -1;
    ASSERT_OK(lk_threads_get(&n));
    return n;
}

static int expected_share(int ranks)
{
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    int n = CPU_COUNT(&mask) / ranks;
    return n < 1 ? 1 : n > LK_MAX_THREADS ? LK_MAX_THREADS : n;
}

static void the_default_is_the_affinity_mask(void)
{
    start_plain();
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    ASSERT_EQ(lk__cores(), CPU_COUNT(&all));
    int share = expected_share(1);
    ASSERT_EQ(threads(), share);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    ASSERT_EQ(lk__cores(), 1);
    ASSERT_EQ(threads(), share); /* decided once */
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

static void a_setting_wins_over_the_environment(void)
{
    start_plain();
    setenv("LK_THREADS", "3", 1);
    ASSERT_EQ(threads(), 3);
    ASSERT_OK(lk_threads_set(5));
    ASSERT_EQ(threads(), 5);
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), 3);
    setenv("LK_THREADS", "256", 1);
    ASSERT_EQ(threads(), 3);
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), 256);
    setenv("LK_THREADS", "", 1);
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), expected_share(1));
}

static void touch(void *arg, int64_t first, int64_t last)
{
    *(int64_t *)arg += last - first;
}

static void a_wrong_LK_THREADS_is_an_error_that_quotes_it(void)
{
    static const char *const wrong[] = {"0",
                                        "257",
                                        "-1",
                                        "abc",
                                        " 2",
                                        "2 ",
                                        "2.5",
                                        "+2",
                                        "0x2",
                                        "two",
                                        "1,2",
                                        "1e2",
                                        "99999999999999999999999999"};
    start_plain();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char quoted[64];
        int n = -1;
        int64_t touched = 0;
        setenv("LK_THREADS", wrong[i], 1);
        ASSERT_EQ(lk_threads_get(&n), LK_EINVAL);
        snprintf(quoted, sizeof quoted, "LK_THREADS is \"%s\"", wrong[i]);
        ASSERT_TRUE(strstr(lk_error_message(), quoted));
        ASSERT_TRUE(strstr(lk_error_message(), "from 1 to 256"));
        ASSERT_EQ(lk__parallel(10, 1, touch, &touched), LK_EINVAL);
        ASSERT_EQ(touched, 0);
    }
    setenv("LK_THREADS", "2", 1);
    ASSERT_EQ(threads(), 2);
}

static void a_setting_out_of_range_is_refused(void)
{
    start_plain();
    ASSERT_OK(lk_threads_set(2));
    ASSERT_EQ(lk_threads_set(-1), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "-1 threads"));
    ASSERT_EQ(lk_threads_set(LK_MAX_THREADS + 1), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "257 threads"));
    ASSERT_EQ(threads(), 2);
}

static void ranks_of_the_node_share_its_cores(void)
{
    static const struct {
        const char *variable, *value, *node;
        int ranks;
    } row[] = {
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL, 2},
        {"MPI_LOCALNRANKS", "3", NULL, 3},
        {"PMI_LOCAL_SIZE", "1000000", NULL, 1000000},
        {"SLURM_NTASKS_PER_NODE", "4", "7", 4},
        {"SLURM_STEP_TASKS_PER_NODE", "4", "0", 4},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", NULL, 4},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "1", 4},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "2", 3},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "3", 3},
        {"SLURM_STEP_TASKS_PER_NODE", "1,2(x3),16(x2),5", "3", 2},
        {"SLURM_STEP_TASKS_PER_NODE", "1,2(x3),16(x2),5", "5", 16},
        {"SLURM_STEP_TASKS_PER_NODE", "1,2(x3),16(x2),5", "6", 5},
        /* What cannot be read is not ours to complain about. */
        {"SLURM_STEP_TASKS_PER_NODE", "4(x", "0", 1},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2", "0", 1},
        {"SLURM_STEP_TASKS_PER_NODE", "4;3", "0", 1},
        {"SLURM_STEP_TASKS_PER_NODE", "4,", "1", 1},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "", NULL, 1},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "0", NULL, 1},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "-2", NULL, 1},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "many", NULL, 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        start_plain();
        setenv(row[i].variable, row[i].value, 1);
        if (row[i].node)
            setenv("SLURM_NODEID", row[i].node, 1);
        ASSERT_EQ(lk__ranks_on_node(), row[i].ranks);
        ASSERT_EQ(threads(), expected_share(row[i].ranks));
    }
}

static void the_launcher_that_started_us_wins_over_the_one_around_it(void)
{
    start_plain();
    setenv("SLURM_NTASKS_PER_NODE", "8", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "4", 1);
    ASSERT_EQ(lk__ranks_on_node(), 4);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    ASSERT_EQ(lk__ranks_on_node(), 2);
    start_plain();
}

TEST_MAIN(TEST(the_default_is_the_affinity_mask), TEST(a_setting_wins_over_the_environment),
          TEST(a_wrong_LK_THREADS_is_an_error_that_quotes_it),
          TEST(a_setting_out_of_range_is_refused), TEST(ranks_of_the_node_share_its_cores),
          TEST(the_launcher_that_started_us_wins_over_the_one_around_it))
