/* Tiers: the bits of the fixed tree for any dimensions, pieces, runs and counts. */
#include "coll/tiers/tiers.h"
#include "faults.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/half.h>

static float value_of(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(rank * 7919 + i) * 2654435761U;
    x ^= x >> 15;
    return (float)((double)x / 4294967296.0 - 0.5) * (float)(1 << x % 13);
}

static lk_collective call_of(const float *in, float *out, int64_t count, int64_t pieces)
{
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = "x",
                           .in = in,
                           .out = out,
                           .count = count,
                           .dtype = LK_F32,
                           .op = LK_REDUCE_AVG,
                           .pieces = pieces};
}

/* The same call by `tiers` and by `tree`. */
static lk_status compare(lk_comm *comm, int64_t count, int64_t pieces, const int64_t *first)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_range range = lk_range_split(pieces ? pieces : size, rank, size);
    if (first)
        range = (lk_range){first[rank], first[rank + 1] - first[rank]};
    int n = lk_range_subtrees(pieces ? pieces : size, range, NULL);
    lk_status st;
    float *in = NULL, *out = NULL, *want = NULL;
    LK_TRY_TO(done, lk_alloc(&in, n * count, sizeof *in));
    LK_TRY_TO(done, lk_alloc(&out, count, sizeof *out));
    LK_TRY_TO(done, lk_alloc(&want, count, sizeof *want));
    for (int64_t i = 0; i < n * count; i++)
        in[i] = value_of(rank, i);
    lk_collective c = call_of(in, want, count, pieces);
    c.first = first;
    c.algorithm = "tree";
    LK_TRY_TO(done, lk_coll_run(comm, &c));
    c.algorithm = "tiers";
    c.out = out;
    LK_TRY_TO(done, lk_coll_run(comm, &c));
    ASSERT_SAME_BITS(out, want, count * 4);
    if (n == 1 && !pieces && count > 0) {
        c.in = NULL;
        c.out = in;
        LK_TRY_TO(done, lk_coll_run(comm, &c));
        ASSERT_SAME_BITS(in, want, count * 4);
    }
done:
    lk_free(in);
    lk_free(out);
    lk_free(want);
    return st;
}

static uint16_t half_of(lk_dtype dtype, float x)
{
    return dtype == LK_F16 ? lk_f16_encode(x) : lk_bf16_encode(x);
}

/* The sum of what ranks [first, first + n) give at i, by the definition of the tree. */
static float half_sum(lk_dtype dtype, int first, int n, int64_t i)
{
    int lower = n > 1 ? (int)lk_tree_half(n) : 0;
    uint16_t h = half_of(dtype, value_of(first, i));
    if (n == 1)
        return dtype == LK_F16 ? lk_f16_decode(h) : lk_bf16_decode(h);
    return half_sum(dtype, first, lower, i) + half_sum(dtype, first + lower, n - lower, i);
}

/* f16 and bf16 by `tiers`: sums in f32, rounded once. */
static lk_status compare_halves(lk_comm *comm, int64_t count, lk_dtype dtype)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_status st;
    uint16_t *in = NULL, *out = NULL, *want = NULL;
    LK_TRY_TO(done, lk_alloc(&in, count, sizeof *in));
    LK_TRY_TO(done, lk_alloc(&out, count, sizeof *out));
    LK_TRY_TO(done, lk_alloc(&want, count, sizeof *want));
    for (int64_t i = 0; i < count; i++) {
        in[i] = half_of(dtype, value_of(rank, i));
        want[i] = half_of(dtype, half_sum(dtype, 0, size, i) / (float)size);
    }
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = "halves",
                       .algorithm = "tiers",
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = dtype,
                       .op = LK_REDUCE_AVG};
    LK_TRY_TO(done, lk_coll_run(comm, &c));
    ASSERT_SAME_BITS(out, want, count * 2);
    c.in = NULL;
    c.out = in;
    LK_TRY_TO(done, lk_coll_run(comm, &c));
    ASSERT_SAME_BITS(in, want, count * 2);
done:
    lk_free(in);
    lk_free(out);
    lk_free(want);
    return st;
}

static lk_status compare_all(lk_comm *comm, void *arg)
{
    (void)arg;
    int size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size - 1, size, size + 1, 1009, 4100};
    static const int64_t pieces[] = {0, 1, 5, 13, 64};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t p = test_whole() ? 0 : c % 2; p < sizeof pieces / sizeof pieces[0];
             p += test_whole() ? 1 : 2)
            LK_TRY(compare(comm, counts[c], pieces[p], NULL));
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        LK_TRY(compare_halves(comm, counts[c], c % 2 ? LK_F16 : LK_BF16));
    int64_t first[65] = {0}; /* the last rank but one has nearly all pieces */
    for (int r = 1; r <= size; r++)
        first[r] = r == size ? 21 : r == size - 1 ? 20 : 0;
    return LK_TRACE(compare(comm, 333, 21, first));
}

TEST(any_tiers_give_the_bits_of_the_tree)
{
    static const struct {
        int ranks;
        const char *tiers;
    } cases[] = {{4, "2x2"},      {8, "4x2"},    {8, "2x4"},  {8, "2x2x2"}, {6, "3x2"}, {6, "2x3"},
                 {12, "4x3"},     {12, "3x4"},   {5, "1x5"},  {7, "7x1"},   {9, "3x3"}, {16, "16"},
                 {16, "2x2x2x2"}, {12, "3x2x2"}, {15, "5x3"}, {1, "1x1"}};
    const size_t step = TEST_SLOWNESS > 1 ? 5 : 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i += step) {
        setenv("LK_TIERS", cases[i].tiers, 1);
        ASSERT_OK(lk_run_local(cases[i].ranks, compare_all, NULL)); /* all in shared memory */
        setenv("LK_LOCAL_NODES", "16", 1);
        ASSERT_OK(lk_run_local(cases[i].ranks, compare_all, NULL)); /* all by messages */
        setenv("LK_LOCAL_NODES", "2", 1);
        ASSERT_OK(lk_run_local(cases[i].ranks, compare_all, NULL));
        unsetenv("LK_LOCAL_NODES");
    }
    unsetenv("LK_TIERS");
}

/* As if a link had been measured on which messages are cut: to 1 KB, in which parts of ranks end unevenly. */
static lk_status compare_cut(lk_comm *comm, void *arg)
{
    static const int64_t counts[] = {512, 513, 4096, 15007, 40000};
    lk__coll_state *state;
    (void)arg;
    LK_TRY(lk__coll_state_get(comm, &state));
    LK_TRY(lk_alloc_zero(&state->tiers, 1, sizeof *state->tiers));
    LK_TRY(lk__tiers_of(comm, false, state->tiers));
    for (int t = 0; t < state->tiers->n; t++)
        state->tiers->piece[t] = 1024;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        LK_TRY(compare(comm, counts[c], 0, NULL));
        LK_TRY(compare_halves(comm, counts[c], c % 2 ? LK_F16 : LK_BF16));
    }
    return LK_OK;
}

TEST(messages_that_are_cut_give_the_bits_of_whole_ones)
{
    setenv("LK_LOCAL_NODES", "16", 1);
    for (int ranks = 1; ranks <= 6; ranks++)
        ASSERT_OK(lk_run_local(ranks, compare_cut, NULL));
    unsetenv("LK_LOCAL_NODES");
}

TEST(nodes_are_found)
{
    static const char *const nodes[] = {"1", "2", "3", "4"};
    for (int i = 0; i < 4; i++) {
        setenv("LK_LOCAL_NODES", nodes[i], 1);
        for (int ranks = 2; ranks <= 8; ranks += TEST_SLOWNESS > 1 ? 3 : 1)
            ASSERT_OK(lk_run_local(ranks, compare_all, NULL));
    }
    unsetenv("LK_LOCAL_NODES");
}

static lk_status choose(lk_comm *comm, void *arg)
{
    static float x[1 << 20];
    lk_collective c = call_of(x, x + (1 << 19), 1 << 19, 0);
    const char *name;
    LK_TRY(lk_coll_selected(comm, &c, &name));
    ASSERT_TRUE(strcmp(name, arg) == 0);
    return LK_OK;
}

TEST(large_vectors_between_nodes_take_tiers)
{
    setenv("LK_LOCAL_NODES", "2", 1);
    ASSERT_OK(lk_run_local(4, choose, (void *)(uintptr_t) "tiers"));
    unsetenv("LK_LOCAL_NODES");
}

/* The first large call measures the links; it and those after it keep their bits and numbers. */
static lk_status measured(lk_comm *comm, void *arg)
{
    (void)arg;
    float x[4] = {0};
    LK_TRY(compare(comm, 20011, 0, NULL));
    LK_TRY(compare(comm, 20011, 0, NULL));
    return lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM,
                        lk_comm_rank(comm) == 0 ? "this" : "that");
}

static lk_status counts_differ(lk_comm *comm, void *arg)
{
    (void)arg;
    static float x[4][20012];
    int rank = lk_comm_rank(comm);
    return lk_allreduce(comm, NULL, x[rank], rank == 3 ? 20012 : 20011, LK_F32, LK_REDUCE_SUM, "x");
}

TEST(links_are_measured_without_being_counted)
{
    setenv("LK_LOCAL_NODES", "2", 1);
    ASSERT_FAILS(lk_run_local(4, measured, NULL), LK_EMISMATCH,
                 "allreduce(\"that\", f32 x 4, sum) #7");
    ASSERT_FAILS(lk_run_local(4, counts_differ, NULL), LK_EMISMATCH,
                 "allreduce(\"x\", f32 x 20012, sum) #1");
    unsetenv("LK_LOCAL_NODES");
}

static lk_status one_call(lk_comm *comm, void *arg)
{
    (void)arg;
    return compare(comm, 40, 0, NULL);
}

TEST(tiers_that_cannot_be_read_end_the_call)
{
    setenv("LK_TIERS", "2y2", 1);
    ASSERT_FAILS(lk_run_local(2, one_call, NULL), LK_EINVAL, "\"y\" at character 2");
    setenv("LK_TIERS", "3x3", 1); /* of another communicator: not used */
    ASSERT_OK(lk_run_local(2, one_call, NULL));
    unsetenv("LK_TIERS");
}

static lk_status scenario(void)
{
    setenv("LK_TIERS", "2x1x2", 1);
    return lk_run_local(4, one_call, NULL);
}

/* Nodes of two ranks and of one. */
static lk_status uneven(void)
{
    unsetenv("LK_TIERS");
    setenv("LK_LOCAL_NODES", "2", 1);
    lk_status st = lk_run_local(3, one_call, NULL);
    unsetenv("LK_LOCAL_NODES");
    return st;
}

static lk_status large_call(lk_comm *comm, void *arg)
{
    (void)arg;
    return compare(comm, 16384, 0, NULL);
}

static lk_status measuring(void)
{
    setenv("LK_LOCAL_NODES", "2", 1);
    lk_status st = lk_run_local(2, large_call, NULL);
    unsetenv("LK_LOCAL_NODES");
    return st;
}

/* Whichever rank runs out of memory, all end, and nothing is left: every so many-th allocation. */
static void allocations_may_fail(lk_status (*run)(void), int64_t every)
{
    ASSERT_OK(run());
    int64_t before = lk_alloc_stats_now().calls;
    ASSERT_OK(run());
    int64_t calls = lk_alloc_stats_now().calls - before;
    for (int64_t n = 1; n <= calls; n += every) {
        lk_alloc_fail_at(n);
        if (run() != LK_OK)
            lk_error_clear();
        lk_alloc_fail_at(0);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    }
}

TEST(every_allocation_may_fail)
{
    allocations_may_fail(measuring, 5); /* each measures the links, which takes its time */
    allocations_may_fail(scenario, 1);
    allocations_may_fail(uneven, 1);
    unsetenv("LK_TIERS");
}
