/* The number of threads: a setting, LK_THREADS, or a fair share of the cores. */
#include "harness.h"
#include "kernel/runtime/parallel.h"

#include <sched.h>
#include <string.h>

static const char *const launcher[] = {
    "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",       "PMI_LOCAL_SIZE",
    "SLURM_STEP_TASKS_PER_NODE",  "SLURM_NTASKS_PER_NODE", "SLURM_NODEID",
    "SLURM_CPUS_ON_NODE"};

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
    ASSERT_OK(lk_threads_now(&n));
    return n;
}

static int expected_share(int ranks)
{
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    return lk__threads_share(CPU_COUNT(&mask), lk__cores_of_node(), ranks);
}

/* Bind the calling thread to `n` of the cores of `all`. */
static void bind_to(const cpu_set_t *all, int n)
{
    cpu_set_t some;
    CPU_ZERO(&some);
    for (size_t cpu = 0; CPU_COUNT(&some) < n; cpu++)
        if (CPU_ISSET(cpu, all))
            CPU_SET(cpu, &some);
    ASSERT_EQ(sched_setaffinity(0, sizeof some, &some), 0);
}

TEST(a_share_is_the_mask_or_a_part_of_the_node)
{
    static const struct {
        int mask, node, ranks, share;
    } row[] = {
        {64, 64, 1, 64},    /* alone */
        {16, 64, 1, 16},    /* alone in taskset */
        {64, 64, 4, 16},    /* nobody bound */
        {16, 64, 4, 16},    /* bound to cores of their own */
        {8, 64, 4, 8},      /* the same, on half of the node */
        {1, 64, 4, 1},      /* bound to one core each */
        {32, 64, 8, 8},     /* bound to one of two sockets, by four */
        {32, 64, 2, 32},    /* a socket each */
        {32, 32, 4, 8},     /* a container of half the machine */
        {21, 64, 3, 21},    /* what does not divide */
        {64, 64, 3, 21},    /* the same, not bound */
        {2, 2, 4, 1},       /* more ranks than cores */
        {1, 1, 1000000, 1}, /* many more */
        {1024, 1024, 1, LK_MAX_THREADS},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        ASSERT_EQ(lk__threads_share(row[i].mask, row[i].node, row[i].ranks), row[i].share);
}

TEST(the_default_is_the_affinity_mask)
{
    start_plain();
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    ASSERT_EQ(lk__cores(), CPU_COUNT(&all));
    int share = CPU_COUNT(&all) < LK_MAX_THREADS ? CPU_COUNT(&all) : LK_MAX_THREADS;
    ASSERT_EQ(threads(), share);
    bind_to(&all, 1);
    ASSERT_EQ(lk__cores(), 1);
    ASSERT_EQ(threads(), share); /* decided once */
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(binding_does_not_narrow_the_node)
{
    start_plain();
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int node = lk__cores_of_node(), half = CPU_COUNT(&all) / 2;
    ASSERT_TRUE(node >= CPU_COUNT(&all));
    if (half == 0 || node > CPU_COUNT(&all)) /* already bound: a test cannot widen the mask again */
        return;
    /* As two ranks that a launcher bound to a half each: nothing is left to divide. */
    bind_to(&all, half);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    ASSERT_EQ(lk__cores_of_node(), node);
    ASSERT_EQ(threads(), half < LK_MAX_THREADS ? half : LK_MAX_THREADS);
    /* Two ranks in a job that has no more than this half, and did not bind them. */
    char cores[16];
    snprintf(cores, sizeof cores, "%d", half);
    setenv("SLURM_CPUS_ON_NODE", cores, 1);
    ASSERT_EQ(lk__cores_of_node(), half);
    ASSERT_OK(lk_threads_set(0));
    ASSERT_EQ(threads(), expected_share(2));
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(a_job_has_the_cores_that_slurm_gave_it)
{
    start_plain();
    int node = lk__cores_of_node();
    setenv("SLURM_CPUS_ON_NODE", "1", 1);
    ASSERT_EQ(lk__cores_of_node(), 1);
    ASSERT_EQ(threads(), 1);
    static const char *const ignored[] = {"", "0", "many", "-1", "1000000"};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        setenv("SLURM_CPUS_ON_NODE", ignored[i], 1);
        ASSERT_EQ(lk__cores_of_node(), node);
    }
    start_plain();
}

TEST(a_setting_wins_over_the_environment)
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

TEST(a_wrong_LK_THREADS_is_an_error_that_quotes_it)
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
        ASSERT_EQ(lk_threads_now(&n), LK_EINVAL);
        snprintf(quoted, sizeof quoted, "LK_THREADS is \"%s\"", wrong[i]);
        ASSERT_TRUE(strstr(lk_error_message(), quoted));
        ASSERT_TRUE(strstr(lk_error_message(), "from 1 to 256"));
        ASSERT_EQ(lk__parallel(lk__tasks_long(10), touch, &touched), LK_EINVAL);
        ASSERT_EQ(touched, 0);
    }
    setenv("LK_THREADS", "2", 1);
    ASSERT_EQ(threads(), 2);
}

TEST(a_setting_out_of_range_is_refused)
{
    start_plain();
    ASSERT_OK(lk_threads_set(2));
    ASSERT_EQ(lk_threads_set(-1), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "-1 threads"));
    ASSERT_EQ(lk_threads_set(LK_MAX_THREADS + 1), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "257 threads"));
    ASSERT_EQ(threads(), 2);
}

TEST(ranks_of_the_node_share_its_cores)
{
    static const struct {
        const char *variable, *value, *node;
        int ranks;
    } row[] = {
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL, 2},
        {"MPI_LOCALNRANKS", "3", NULL, 3},
        {"PMI_LOCAL_SIZE", "1000000", NULL, 1000000},
        {"SLURM_NTASKS_PER_NODE", "4", "0", 1}, /* what sbatch asked for: srun has not started it */
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

TEST(the_launcher_that_started_us_wins_over_the_one_around_it)
{
    start_plain();
    setenv("SLURM_STEP_TASKS_PER_NODE", "4", 1);
    ASSERT_EQ(lk__ranks_on_node(), 4);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    ASSERT_EQ(lk__ranks_on_node(), 2);
    start_plain();
}
