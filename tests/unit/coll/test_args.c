/* The arguments of collective calls, as they are checked and derived. */
#include "coll/program.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static lk_status refused_call(lk_comm *comm, void *arg)
{
    (void)arg;
    lk__coll_args k;
    memset(&k, 0xee, sizeof k);
    ASSERT_FAILS(lk__coll_args_make(comm, &(lk_collective){.call = LK_CALL_SPLIT}, &k), LK_EINVAL,
                 "no collective call");
    lk__coll_args_free(&k);
    return LK_OK;
}

TEST(arguments_that_are_refused_at_once_can_be_freed)
{
    ASSERT_OK(lk_run_local(1, refused_call, NULL));
}

static lk_status rank_without_pieces(lk_comm *comm, void *arg)
{
    (void)arg;
    float x[2] = {0};
    static const int64_t first[] = {0, 1, 1};
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .in = x,
                       .out = x + 1,
                       .count = 1,
                       .dtype = LK_F32,
                       .pieces = 1,
                       .first = first};
    lk__coll_args k;
    k.wait = true;
    ASSERT_OK(lk__coll_args_make(comm, &c, &k));
    lk_range out = {7, 7};
    ASSERT_EQ(lk__coll_args_subtrees(&k, 1, &out, 0), 0);
    ASSERT_TRUE(out.first == 7 && out.n == 7);
    ASSERT_EQ(lk__coll_args_subtrees(&k, 0, &out, 0), 1);
    ASSERT_TRUE(out.first == 7 && out.n == 7);
    ASSERT_EQ(lk__coll_args_subtrees(&k, 0, &out, 1), 1);
    ASSERT_TRUE(out.first == 0 && out.n == 1);
    lk__coll_args_free(&k);
    return LK_OK;
}

TEST(nothing_is_written_beyond_the_capacity)
{
    ASSERT_OK(lk_run_local(2, rank_without_pieces, NULL));
}

/* Vectors whose sum of bytes does not fit in 64 bits, and one that no memory holds. */
static lk_status many_vectors(lk_comm *comm, void *arg)
{
    (void)arg;
    uint16_t x;
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .in = &x,
                       .out = &x,
                       .count = INT64_C(1) << 40,
                       .dtype = LK_F16,
                       .pieces = INT64_C(1) << 30};
    lk__coll_args k;
    for (int shift = 10; shift <= 30; shift += 20) {
        c.pieces = INT64_C(1) << shift;
        ASSERT_FAILS(lk__coll_args_make(comm, &c, &k), LK_EOVERFLOW, "allreduce: ");
        lk__coll_args_free(&k);
    }
    return LK_OK;
}

TEST(more_vectors_than_memory_could_hold_are_refused)
{
    ASSERT_OK(lk_run_local(1, many_vectors, NULL));
}

static lk_status wrong_arrays(lk_comm *comm, void *arg)
{
    (void)arg;
    int64_t x[8] = {0};
    const int64_t one[] = {1}, negative[] = {-2}, most[] = {INT64_MAX};
    lk_collective good = {
        .call = LK_CALL_ALLTOALL, .in = x, .out = x + 4, .count = 1, .dtype = LK_I64};
    lk_collective c = good;
    lk__coll_args k;
    c.counts = one, c.in_counts = negative;
    ASSERT_FAILS(lk__coll_args_make(comm, &c, &k), LK_EINVAL, "alltoall: in_counts[0] is -2");
    lk__coll_args_free(&k);
    c = good, c.in_offsets = negative;
    ASSERT_FAILS(lk__coll_args_make(comm, &c, &k), LK_EINVAL, "alltoall: in_offsets[0] is -2");
    lk__coll_args_free(&k);
    c = good, c.in_offsets = most;
    ASSERT_FAILS(lk__coll_args_make(comm, &c, &k), LK_EOVERFLOW,
                 "alltoall: the parts of in_counts");
    lk__coll_args_free(&k);
    return LK_OK;
}

TEST(messages_name_the_call_and_the_array)
{
    ASSERT_OK(lk_run_local(1, wrong_arrays, NULL));
}

/* Ranks may say the same in two ways. */
static lk_status equal_counts(lk_comm *comm, void *arg)
{
    (void)arg;
    int rank = lk_comm_rank(comm);
    int32_t mine[2] = {rank, 10 + rank}, all[6];
    const int64_t counts[] = {2, 2, 2};
    lk_collective c = {
        .call = LK_CALL_ALLGATHER, .in = mine, .out = all, .count = 2, .dtype = LK_I32};
    if (rank == 1) {
        c.count = 0;
        c.counts = counts;
    }
    ASSERT_OK(lk_coll_run(comm, &c));
    for (int r = 0; r < 3; r++)
        ASSERT_TRUE(all[2 * r] == r && all[2 * r + 1] == 10 + r);
    return LK_OK;
}

TEST(equal_counts_are_the_same_call_as_none)
{
    ASSERT_OK(lk_run_local(3, equal_counts, NULL));
}

/* In place, the part of rank 1 has nothing, inside the part of rank 0. */
static lk_status empty_part(lk_comm *comm, void *arg)
{
    (void)arg;
    int32_t x[4] = {1, 2, 3, 4};
    const int64_t counts[] = {4, 0}, offsets[] = {0, 3};
    lk_collective c = {.call = LK_CALL_REDUCE_SCATTER,
                       .out = x,
                       .counts = counts,
                       .offsets = offsets,
                       .dtype = LK_I32,
                       .op = LK_REDUCE_SUM};
    ASSERT_OK(lk_coll_run(comm, &c));
    for (int i = 0; i < 4 && lk_comm_rank(comm) == 0; i++)
        ASSERT_EQ(x[i], 2 * (i + 1));
    return LK_OK;
}

TEST(an_empty_part_overlaps_nothing)
{
    ASSERT_OK(lk_run_local(2, empty_part, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
