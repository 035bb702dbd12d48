/* What goes wrong between ranks is named, told to all of them, and nothing hangs or leaks. */
#include "faults.h"

#include <lockstep/clock.h>
#include <lockstep/coll.h>

#include <stdatomic.h>

/* One rank's mistake; `failed` counts the ranks that returned an error. */
struct mistake {
    const char *kind;
    atomic_int failed;
};

static lk_status make_calls(lk_comm *comm, const char *kind)
{
    int rank = lk_comm_rank(comm);
    bool odd = rank == 1;
    float x[16] = {0}, y[16];
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = "fc1.bias.grad",
                       .in = x,
                       .out = y,
                       .count = 10,
                       .dtype = LK_F32};
    LK_TRY(lk_comm_deadline_set(comm, 0.3));
    for (int i = 0; i < 3; i++)
        LK_TRY(lk_allreduce(comm, x, y, 4, LK_F32, LK_FOLD_SUM, "warmup"));
    if (strcmp(kind, "name") == 0 && odd)
        c.name = "fc2.bias.grad";
    if (strcmp(kind, "count") == 0 && odd)
        c.count = 12;
    if (strcmp(kind, "dtype") == 0 && odd)
        c.dtype = LK_I32;
    if (strcmp(kind, "operator") == 0 && odd)
        c.fold = LK_FOLD_MAX;
    if (strcmp(kind, "skip") == 0 && odd)
        return LK_OK;
    LK_TRY(lk_coll_run(comm, &c));
    return LK_OK;
}

static lk_status rank_errs(lk_comm *comm, void *arg)
{
    struct mistake *m = arg;
    lk_status st = make_calls(comm, m->kind);
    atomic_fetch_add(&m->failed, st != LK_OK);
    return st;
}

/* Both texts must be in the message; all ranks but `well` must have failed, in time. */
static void expect(const char *kind, lk_status status, const char *one, const char *other, int well)
{
    for (int n = 2; n <= 4; n++) {
        struct mistake m = {.kind = kind};
        int64_t start = lk_clock_ns();
        lk_status st = lk_run_local(n, rank_errs, &m);
        if (st != status || !strstr(lk_error_message(), one) || !strstr(lk_error_message(), other))
            TEST_FAIL("%s on %d ranks: %s: %s", kind, n, lk_status_text(st), lk_error_message());
        ASSERT_EQ(atomic_load(&m.failed), n - well);
        ASSERT_TRUE(lk_clock_ns() - start < INT64_C(2000000000) * TEST_SLOWNESS);
        lk_error_clear();
        ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
    }
}

static void different_calls_are_named_with_both_ranks(void)
{
    expect("name", LK_EMISMATCH,
           "mismatch: rank 0 calls allreduce(\"fc1.bias.grad\", f32 x 10, sum) #4",
           "but rank 1 calls allreduce(\"fc2.bias.grad\", f32 x 10, sum) #4", 0);
    expect("count", LK_EMISMATCH, "f32 x 10, sum) #4", "f32 x 12, sum) #4", 0);
    expect("dtype", LK_EMISMATCH, "f32 x 10, sum) #4", "i32 x 10, sum) #4", 0);
    expect("operator", LK_EMISMATCH, "f32 x 10, sum) #4", "f32 x 10, max) #4", 0);
}

static void a_skipped_call_names_who_left(void)
{
    expect("skip", LK_ESTALL, "in allreduce(\"fc1.bias.grad\", f32 x 10, sum) #4 for rank",
           "rank 1, which left after allreduce(\"warmup\", f32 x 4, sum) #3", 1);
}

static lk_status rank_two_refuses(lk_comm *comm, void *arg)
{
    (void)arg;
    if (lk_comm_rank(comm) == 2)
        return LK_RAISE(LK_ESHAPE, "the image has no pixels");
    LK_TRY(lk_barrier(comm, "b"));
    return LK_OK;
}

static void a_rank_that_fails_ends_the_others(void)
{
    ASSERT_FAILS(lk_run_local(4, rank_two_refuses, NULL), LK_ESHAPE,
                 "rank 2: the image has no pixels");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static lk_status rank_works(lk_comm *comm, void *arg)
{
    (void)arg;
    enum { LARGE = 5000 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static float zeros[LARGE];
    float got[LARGE], sum[10];
    lk_comm *twin = NULL;
    lk_status st;
    LK_TRY(lk_comm_dup(comm, &twin));
    lk_part send = {zeros, LARGE, (rank + 1) % size, 0}, recv = {got, LARGE, (rank + 1) % size, 0};
    recv.rank = (rank + size - 1) % size;
    LK_TRY_TO(done, lk_sendrecv(twin, LK_F32, &send, &recv, "halo", NULL));
    LK_TRY_TO(done, lk_allreduce(twin, zeros, sum, 10, LK_F32, LK_FOLD_SUM, "g"));
    lk_shared *s = NULL;
    LK_TRY_TO(done, lk_shared_new(twin, 1000, "part", &s));
    lk_shared_free(s);
    lk_request *r;
    LK_TRY_TO(done, lk_irecv(comm, got, 1, LK_F32, rank, 1, "self", &r));
    st = lk_send(comm, zeros, 1, LK_F32, rank, 1, "self");
    lk_status waited = lk_wait(&r, NULL);
    st = st == LK_OK ? waited : st;
done:
    lk_comm_free(twin);
    return st;
}

static lk_status three_ranks_work(void)
{
    return lk_run_local(3, rank_works, NULL);
}

static void every_allocation_may_fail(void)
{
    ASSERT_TRUE(test_every_allocation_fails(three_ranks_work) > 30);
}

TEST_MAIN(TEST(different_calls_are_named_with_both_ranks), TEST(a_skipped_call_names_who_left),
          TEST(a_rank_that_fails_ends_the_others), TEST(every_allocation_may_fail))
