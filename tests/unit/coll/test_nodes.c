/* Ranks that pretend to be on several nodes: every allreduce gives the same bits, also when the ranks
 * of a node do not follow each other. */
#include "dist/coll/collectives.h"

static void check(lk_comm *comm, int64_t pieces, int64_t count)
{
    float *in = input_of(comm, LK_REDUCE_SUM, LK_F32, pieces, count), *out, *want;
    ASSERT_OK(lk_alloc(&out, count, sizeof *out));
    ASSERT_OK(lk_alloc(&want, count, sizeof *want));
    fold_put(LK_REDUCE_SUM, LK_F32, pieces, 0, count, want);
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = LK_F32,
                       .pieces = pieces};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        memset(out, 0xee, (size_t)count * sizeof *out);
        ASSERT_OK(lk_coll_run(comm, &c));
        ASSERT_SAME_BITS(out, want, count * 4);
    }
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

static lk_status program(lk_comm *comm, void *arg)
{
    (void)arg;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_comm *turned; /* 0 3 6 1 4 7 2 5: the nodes' ranks in turn */
    ASSERT_OK(lk_comm_split(comm, 0, rank % 3 * size + rank, &turned));
    for (int64_t pieces = 1; pieces < 40; pieces += 6) {
        check(comm, pieces, 33);
        check(turned, pieces, 33);
    }
    lk_comm_close(turned);
    return LK_OK;
}

TEST(any_nodes_give_the_same_bits)
{
    static const char *const nodes[] = {"2", "3", "8"};
    static const int sizes[] = {2, 4, 6, 7, 8};
    for (size_t n = 0; n < sizeof nodes / sizeof nodes[0]; n++) {
        setenv("LK_LOCAL_NODES", nodes[n], 1);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            ASSERT_OK(lk_run_local(sizes[i], program, NULL));
    }
    unsetenv("LK_LOCAL_NODES");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status single_node(lk_comm *comm, void *arg)
{
    (void)arg;
    float x = 1;
    ASSERT_FAILS(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                                    .algorithm = "single_node",
                                                    .out = &x,
                                                    .count = 1}),
                 LK_ENOTSUP, "the ranks are on 2 nodes");
    return LK_OK;
}

TEST(single_node_refuses_several)
{
    setenv("LK_LOCAL_NODES", "2", 1);
    ASSERT_OK(lk_run_local(4, single_node, NULL));
    unsetenv("LK_LOCAL_NODES");
}

/* The environment names an algorithm; an unknown one is refused by the call. */
static lk_status named(lk_comm *comm, void *arg)
{
    const char *choice = NULL, *want = arg;
    float x = 1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .out = &x, .count = 1};
    lk_status st = lk_coll_selected(comm, &c, &choice);
    ASSERT_TRUE(st == LK_OK ? strcmp(choice, want) == 0 : want == NULL);
    if (st != LK_OK)
        ASSERT_FAILS(lk_coll_run(comm, &c), LK_EINVAL,
                     "LK_ALLREDUCE: no allreduce algorithm named \"nope\"");
    lk_error_clear();
    return LK_OK;
}

TEST(the_environment_names_algorithms)
{
    static char ring[] = "ring";
    setenv("LK_ALLREDUCE", "ring", 1);
    ASSERT_OK(lk_run_local(2, named, ring));
    setenv("LK_ALLREDUCE", "nope", 1);
    ASSERT_OK(lk_run_local(2, named, NULL));
    unsetenv("LK_ALLREDUCE");
}
