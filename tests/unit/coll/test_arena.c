/* Calls in shared memory: ranks that make different ones are told so. */
#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

struct difference {
    lk_collective of[2];
    const char *message; /* a part of it */
};

/* Two ranks agree once, so that the shared area is there, and then do not. */
static lk_status differ(lk_comm *comm, void *arg)
{
    const struct difference *d = arg;
    lk_collective c = d->of[lk_comm_rank(comm)];
    float x = 1, *out;
    LK_TRY(lk_comm_set_deadline(comm, 2));
    LK_TRY(lk_allreduce(comm, NULL, &x, 1, LK_F32, LK_REDUCE_SUM, "warm"));
    ASSERT_TRUE(x == 2.0F);
    LK_TRY(lk_alloc_zero(&out, 2 * c.count, 8));
    c.out = out;
    ASSERT_FAILS(lk_coll_run(comm, &c), LK_EMISMATCH, d->message);
    lk_free(out);
    return LK_OK;
}

#define CALL(code, text, n, ...)                                      \
    {                                                                 \
        .call = LK_CALL_##code, .name = text, .count = n, __VA_ARGS__ \
    }

TEST(different_calls_are_named)
{
    static const int64_t counts[2][2] = {{3, 7}, {4, 6}};
    static struct difference d[] = {
        {{CALL(ALLREDUCE, "a", 10, .dtype = LK_F32), CALL(ALLREDUCE, "b", 10, .dtype = LK_F32)},
         "rank 0 calls allreduce(\"a\", f32 x 10, sum) #2 but rank 1 calls allreduce(\"b\", f32 x "
         "10, "
         "sum) #2"},
        {{CALL(ALLREDUCE, "x", 10, .dtype = LK_F32), CALL(ALLREDUCE, "x", 10, .dtype = LK_I32)},
         "f32 x 10, sum) #2 but rank 1 calls allreduce(\"x\", i32 x 10"},
        {{CALL(ALLREDUCE, "x", 10, .op = LK_REDUCE_MAX),
          CALL(ALLREDUCE, "x", 10, .op = LK_REDUCE_SUM)},
         "max) #2 but rank 1 calls allreduce(\"x\", f32 x 10, sum"},
        {{CALL(ALLREDUCE, "x", 30000, .dtype = LK_F32),
          CALL(ALLREDUCE, "x", 30001, .dtype = LK_F32)},
         "f32 x 30000, sum) #2 but rank 1 calls allreduce(\"x\", f32 x 30001"},
        {{CALL(ALLREDUCE, "x", 10, .dtype = LK_F32), CALL(BCAST, "x", 10, .root = 0)},
         "rank 0 calls allreduce(\"x\", f32 x 10, sum) #2 but rank 1 calls bcast("},
        {{CALL(REDUCE_SCATTER, "x", 10, .dtype = LK_F32),
          CALL(REDUCE_SCATTER, "y", 10, .dtype = LK_F32)},
         "rank 0 calls reduce_scatter(\"x\", f32 x 10, sum) #2 but rank 1 calls "
         "reduce_scatter(\"y"},
        {{CALL(REDUCE_SCATTER, "x", 10, .counts = counts[0]),
          CALL(REDUCE_SCATTER, "x", 10, .counts = counts[1])},
         "x 10, sum) #2 but rank 1 calls reduce_scatter(\"x\", f32 x 10, sum) #2 (their counts by "
         "rank, or runs of pieces, differ)"},
    };
    for (size_t i = 0; i < sizeof d / sizeof d[0]; i++)
        ASSERT_OK(lk_run_local(2, differ, &d[i]));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* The very first call on the communicator, before there is a shared area. */
static lk_status differ_at_once(lk_comm *comm, void *arg)
{
    (void)arg;
    float x = 1;
    LK_TRY(lk_comm_set_deadline(comm, 2));
    ASSERT_FAILS(
        lk_allreduce(comm, NULL, &x, 1, LK_F32, LK_REDUCE_SUM, lk_comm_rank(comm) ? "b" : "a"),
        LK_EMISMATCH, "calls allreduce(\"a\", f32 x 1, sum) #1 but rank 1 calls allreduce(\"b\"");
    return LK_OK;
}

TEST(the_first_call_is_named_too)
{
    ASSERT_OK(lk_run_local(2, differ_at_once, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 0 says where the runs begin, which is where they begin without it; strides are each rank's own. */
static lk_status runs_are_even(lk_comm *comm, void *arg)
{
    static const int64_t first[] = {0, 3, 6};
    const char *const *algorithm = arg;
    bool says = lk_comm_rank(comm) == 0;
    float in[2][4] = {{1, 2}, {3, 4}}, out[2];
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = "x",
                       .algorithm = *algorithm,
                       .in = in,
                       .out = out,
                       .count = 2,
                       .pieces = 6,
                       .first = says ? first : NULL,
                       .stride = 4};
    float packed[4] = {1, 2, 3, 4};
    if (!says) {
        c.in = packed;
        c.stride = 0;
    }
    LK_TRY(lk_coll_run(comm, &c));
    ASSERT_TRUE(out[0] == 8 && out[1] == 12);
    return LK_OK;
}

TEST(even_runs_need_not_be_said)
{
    static const char *const algorithms[] = {NULL, "slots", "tree", "direct"};
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
        ASSERT_OK(lk_run_local(2, runs_are_even, (void *)(uintptr_t)&algorithms[i]));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
