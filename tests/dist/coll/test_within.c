/* Ranks of one node among several join and copy in shared memory; between the nodes go messages.
 * Started with LK_LOCAL_NODES, so that some ranks have company. */
#include "coll/shm/area.h"
#include "collectives.h"

enum { COUNT = 140009 }; /* parts of more than one stage */

/* The shared area of this rank's node, once a call has made it. */
static const lk__shm_area *arena_of(lk_comm *comm)
{
    const lk__coll_state *state = comm->coll;
    return state ? state->area : NULL;
}

/* Whether there is a node with two ranks, which alone makes a shared area. */
static bool some_have_company(lk_comm *comm)
{
    int32_t most = lk_comm_node_size(comm);
    lk_comm *own;
    ASSERT_OK(lk_comm_dup(comm, &own));
    ASSERT_OK(lk_allreduce(own, NULL, &most, 1, LK_I32, LK_REDUCE_MAX, "most"));
    lk_comm_close(own);
    return most > 1;
}

static lk_collective call_of(const char *algorithm, float *in, float *out)
{
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = "x",
                           .algorithm = algorithm,
                           .in = in,
                           .out = out,
                           .count = COUNT,
                           .dtype = LK_F32};
}

static const char *const algorithms[] = {"tiers", "two_dimensional", "hierarchical",
                                         "non_cuda_aware"};

/* Every call has two parts in the shared area; vectors that the ranks share need no stages. */
static void check_memory(lk_comm *comm, bool shared_vectors)
{
    lk_shm *shared = NULL;
    float *want, *input = input_of(comm, LK_REDUCE_SUM, LK_F32, lk_comm_size(comm), COUNT), *in;
    ASSERT_OK(lk_shm_open(comm, COUNT * (int64_t)sizeof *in, "x", &shared));
    in = lk_shm_data(shared, lk_comm_node_rank(comm));
    ASSERT_OK(lk_alloc(&want, COUNT, sizeof *want));
    fold_put(LK_REDUCE_SUM, LK_F32, lk_comm_size(comm), 0, COUNT, want);
    float *mine = shared_vectors ? in : input;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        memcpy(in, input, COUNT * sizeof *in);
        const lk__shm_area *a = arena_of(comm);
        uint64_t last_call = a ? a->last_call : 0, stages = a ? a->stages : 0;
        lk_collective c = call_of(algorithms[i], NULL, mine);
        ASSERT_OK(lk_coll_run(comm, &c));
        a = arena_of(comm);
        ASSERT_TRUE(a != NULL);
        ASSERT_EQ((int64_t)(a->last_call - last_call), 2);
        ASSERT_EQ(a->stages == stages, shared_vectors);
        ASSERT_SAME_BITS(mine, want, COUNT * 4);
        if (!shared_vectors)
            memcpy(input, in, COUNT * sizeof *in); /* in has kept it */
    }
    ASSERT_OK(lk_barrier(comm, "all have ended"));
    lk_shm_close(shared);
    lk_free(input);
    lk_free(want);
}

RANKS_TEST(nodes_join_in_shared_memory)
{
    if (!some_have_company(comm))
        return;
    check_memory(comm, true);
    check_memory(comm, false);
}

/* Calls that are begun take turns in the shared area, whoever is waited for first. */
RANKS_TEST(several_may_be_under_way)
{
    enum { N = 4, SMALL = 5003 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float *in = input_of(comm, LK_REDUCE_SUM, LK_F32, size, SMALL), *out[N], *want;
    lk_request *r[N];
    warm(comm);
    ASSERT_OK(lk_alloc(&want, SMALL, sizeof *want));
    fold_put(LK_REDUCE_SUM, LK_F32, size, 0, SMALL, want);
    for (int i = 0; i < N; i++) {
        ASSERT_OK(lk_alloc(&out[i], SMALL, sizeof *want));
        lk_collective c = call_of(algorithms[i], in, out[i]);
        c.count = SMALL;
        ASSERT_OK(lk_coll_start(comm, &c, &r[i]));
    }
    for (int i = 0; i < N; i++) {
        int k = rank % 2 ? i : N - 1 - i;
        ASSERT_OK(lk_wait(&r[k], NULL));
        ASSERT_SAME_BITS(out[k], want, SMALL * 4);
        lk_free(out[k]);
    }
    lk_free(in);
    lk_free(want);
}

/* The ranks of a node see each other's digest, and the report names both calls. */
static lk_status other_names(lk_comm *comm, void *arg)
{
    static const char *const names[] = {"this", "that"};
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    float x[4] = {0};
    (void)arg;
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warm"));
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = names[rank == last],
                       .algorithm = "tiers",
                       .out = x,
                       .count = 4,
                       .dtype = LK_F32};
    return lk_coll_run(comm, &c);
}

RANKS_TEST(other_calls_on_a_node_are_named)
{
    if (lk_comm_size(comm) != 4 || strcmp(lk_comm_transport(comm), "local") != 0)
        return;
    lk_comm *own; /* one rank starts ranks of its own: the others wait for it */
    ASSERT_OK(lk_comm_dup(comm, &own));
    if (lk_comm_rank(comm) == 0)
        ASSERT_FAILS(lk_run_local(4, other_names, NULL), LK_EMISMATCH,
                     "allreduce(\"that\", f32 x 4, sum) #3");
    ASSERT_OK(lk_barrier(own, "others"));
    lk_comm_close(own);
}
