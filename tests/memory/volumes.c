/* Large volumes, for tests of what ranks take.
 *
 *     volumes make FILE SIDE SIDE SIDE SAMPLES       so many samples of f32, between 0 and 1
 *     volumes train FILE.yaml [SETTING...]           as `lockstep train`, a rank of an MPI; prints for each
 *                                                    rank the most bytes that the library had allocated
 *                                                    at a time, and that were resident beyond those
 *                                                    before, the step it resumed from, and the state
 */
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/train.h>

#include <sys/resource.h>

enum { BLOCK = 1 << 14 };

static int make(char **argv)
{
    static float x[BLOCK];
    int64_t n = 1;
    FILE *f = fopen(argv[0], "wb");
    ASSERT_TRUE(f != NULL);
    for (int i = 1; i <= 4; i++)
        n *= atoll(argv[i]);
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t most = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < most; i++)
            x[i] = (float)((uint32_t)(at + i) * 2654435761U >> 16) / 65536.0F;
        ASSERT_EQ(fwrite(x, sizeof *x, (size_t)most, f), most);
    }
    ASSERT_EQ(fclose(f), 0);
    return 0;
}

/* The most bytes of this process that were in memory at a time. */
static int64_t resident(void)
{
    struct rusage usage;
    ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

/* An error is printed by who has it; the others get the same. */
static int train(int argc, char **argv)
{
    lk_comm *comm = NULL;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_run_result result = {.state = 0};
    ASSERT_OK(lk_comm_open("mpi", &comm));
    int64_t before = lk_alloc_stats_now().live_bytes, there = resident();
    ASSERT_OK(lk_experiment_read(argv[0], (const char *const *)argv + 1, argc - 1, &e));
    ASSERT_OK(lk_job_new(e, comm, &job));
    ASSERT_OK(lk_job_run(job, NULL, &result));
    printf("rank %d: peak %lld, resident %lld, resumed %lld, state %016llx\n", lk_comm_rank(comm),
           (long long)(lk_alloc_stats_now().peak_bytes - before), (long long)(resident() - there),
           (long long)result.resumed, (unsigned long long)result.state);
    fflush(stdout);
    lk_job_free(job);
    lk_experiment_free(e);
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGALRM, test_on_alarm);
    alarm(600);
    ASSERT_TRUE(argc >= 3);
    if (strcmp(argv[1], "make") == 0) {
        ASSERT_EQ(argc, 7);
        return make(argv + 2);
    }
    return train(argc - 2, argv + 2);
}
