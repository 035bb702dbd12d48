/* Ranks on two simulated hosts: the tiered allreduce against MPI_Allreduce, the cost model against
 * the clock, and what a cut link looks like.
 *
 *     link race BYTES      lk_ddl_allreduce(), lk_allreduce() and MPI's in turn; rank 0 prints
 *                          medians, and fails unless ours are 1.5 times as fast, and took between
 *                          half and twice the time predicted
 *     link stall           allreduces for ever, with a deadline of 2 s; prints the error
 */
#include "harness.h"

#include <lockstep/ddl.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

enum { ROUNDS = 5 };

typedef enum side { TIERS, CHOSEN, MPI, N_SIDES } side;

/* Others may use the machine; the link is the same in every round. */
static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, ascending);
    return x[ROUNDS / 2];
}

/* Seconds of one allreduce, on the slowest rank. */
static double seconds_of(lk_comm *comm, lk_ddl *d, float *x, int64_t n, side who)
{
    lk_ddl_tensor t = {"x", NULL, x, n, LK_F32};
    double seconds;
    ASSERT_OK(lk_barrier(comm, "ready"));
    int64_t start = lk_clock_ns();
    if (who == CHOSEN)
        ASSERT_OK(lk_allreduce(comm, NULL, x, n, LK_F32, LK_REDUCE_AVG, "x"));
    else
        ASSERT_OK(lk_ddl_allreduce(
            d, &t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_AVG, .mpi = who == MPI}));
    seconds = 1e-9 * (double)(lk_clock_ns() - start);
    ASSERT_OK(lk_allreduce(comm, NULL, &seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
    return seconds;
}

static void race(lk_comm *comm, int64_t bytes)
{
    int64_t n = bytes / 4;
    float *x;
    lk_ddl *d;
    double took[N_SIDES][ROUNDS];
    ASSERT_OK(lk_alloc(&x, n, sizeof *x));
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 100);
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    lk_tier_spec mode = lk_ddl_mode(d);
    ASSERT_EQ(mode.n_tiers, 2);
    ASSERT_EQ(mode.size[1], 2);
    for (int who = 0; who < N_SIDES; who++) /* the first of each finds its pace */
        seconds_of(comm, d, x, n, (side)who);
    for (int i = 0; i < ROUNDS; i++)
        for (int who = 0; who < N_SIDES; who++)
            took[who][i] = seconds_of(comm, d, x, n, (side)who);
    const char *choice = NULL;
    ASSERT_OK(lk_coll_selected(
        comm,
        &(lk_collective){
            .call = LK_CALL_ALLREDUCE, .out = x, .count = n, .dtype = LK_F32, .op = LK_REDUCE_AVG},
        &choice));
    ASSERT_TRUE(strcmp(choice, "tiers") == 0);
    ASSERT_TRUE(x[n - 1] == (float)((n - 1) % 100)); /* averages of equal values */
    double predicted = 0, ours = median(took[TIERS]), chosen = median(took[CHOSEN]);
    double peer = median(took[MPI]);
    seconds_of(comm, d, x, n, TIERS);
    lk_ddl_times times = lk_ddl_times_of(d);
    predicted = times.predicted;
    if (lk_comm_rank(comm) == 0) {
        printf("%lld KiB: tiers %.1f ms, lk_allreduce %.1f ms, MPI_Allreduce %.1f ms, ratios %.2f "
               "%.2f, predicted %.1f ms\n",
               (long long)bytes / 1024, 1e3 * ours, 1e3 * chosen, 1e3 * peer, peer / ours,
               peer / chosen, 1e3 * predicted);
        for (int t = 0; t < times.n_tiers; t++)
            printf("tier of %d: %s %.1f ms, predicted %.1f ms\n", times.tier[t].size,
                   times.tier[t].algorithm, 1e3 * times.tier[t].seconds,
                   1e3 * times.tier[t].predicted);
        ASSERT_TRUE(peer / ours >= 1.5 && peer / chosen >= 1.5);
        ASSERT_TRUE(predicted >= ours / 2 && predicted <= ours * 2);
        ASSERT_TRUE(predicted >= chosen / 2 && predicted <= chosen * 2);
    }
    lk_ddl_free(d);
    lk_free(x);
}

/* Until something fails: every rank prints what. */
static int stall(lk_comm *comm)
{
    float x[1024] = {0};
    ASSERT_OK(lk_comm_set_deadline(comm, 2));
    for (int64_t i = 0;; i++) {
        if (i == 100 && lk_comm_rank(comm) == 0) {
            printf("running\n");
            fflush(stdout);
        }
        if (lk_allreduce(comm, NULL, x, 1024, LK_F32, LK_REDUCE_SUM, "gradients") != LK_OK)
            break;
    }
    printf("rank %d: %s\n", lk_comm_rank(comm), lk_error_message());
    fflush(stdout);
    sleep(1); /* the launcher ends the others when the first one leaves */
    _exit(3); /* MPI cannot be left in order any more */
}

int main(int argc, char **argv)
{
    lk_comm *comm;
    signal(SIGALRM, test_on_alarm);
    alarm(120);
    ASSERT_TRUE(argc >= 2);
    ASSERT_OK(lk_comm_open("mpi", &comm));
    if (strcmp(argv[1], "stall") == 0)
        return stall(comm);
    race(comm, atoll(argv[2]));
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
