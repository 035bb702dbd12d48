/* Topology: tiers as found on pretended nodes, and as declared. */
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/topology.h>

struct want {
    const char *mode; /* NULL: find */
    int n_tiers, size[LK_MAX_TIERS];
    bool flat;
};

static lk_status find(lk_comm *comm, void *arg)
{
    const struct want *want = arg;
    lk_topology *t = NULL;
    LK_TRY(lk_topology_new(comm, want->mode, &t));
    ASSERT_EQ(t->size, lk_comm_size(comm));
    ASSERT_EQ(t->rank, lk_comm_rank(comm));
    ASSERT_EQ(t->n_nodes, lk_comm_nodes(comm));
    ASSERT_EQ(t->n_tiers, want->n_tiers);
    ASSERT_EQ(t->declared, want->mode && strchr(want->mode, 'x'));
    ASSERT_EQ(t->flat_reason != NULL, want->flat);
    for (int i = 0; i < t->n_tiers; i++)
        ASSERT_EQ(t->tier[i].size, want->size[i]);
    ASSERT_EQ(t->location[t->rank].node, lk_comm_node(comm));
    ASSERT_TRUE(t->location[t->rank].n_cores >= 1);
    ASSERT_TRUE(t->location[0].host[0] && t->location[t->size - 1].cores[0]);
    lk_topology_free(t);
    return LK_OK;
}

static void run(int ranks, const char *nodes, struct want want)
{
    setenv("LK_LOCAL_NODES", nodes, 1);
    ASSERT_OK(lk_run_local(ranks, find, &want));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(equal_nodes_become_tiers)
{
    run(1, "1", (struct want){.n_tiers = 1, .size = {1}});
    run(4, "1", (struct want){.n_tiers = 1, .size = {4}});
    run(4, "2", (struct want){.n_tiers = 2, .size = {2, 2}});
    run(12, "3", (struct want){.n_tiers = 2, .size = {4, 3}});
    run(3, "3", (struct want){.n_tiers = 2, .size = {1, 3}});
}

TEST(unequal_nodes_become_one_tier)
{
    run(5, "2", (struct want){.n_tiers = 1, .size = {5}, .flat = true});
}

static lk_status find_strided(lk_comm *comm, void *arg)
{
    lk_comm *other;
    int rank = lk_comm_rank(comm);
    LK_TRY(lk_comm_split(comm, 0, rank % 2 * 2 + rank / 2, &other)); /* 0 2 1 3 */
    lk_status st = find(other, arg);
    lk_comm_close(other);
    return st;
}

TEST(ranks_that_alternate_between_nodes_become_one_tier)
{
    struct want want = {.n_tiers = 1, .size = {4}, .flat = true};
    setenv("LK_LOCAL_NODES", "2", 1);
    ASSERT_OK(lk_run_local(4, find_strided, &want));
}

TEST(declared_tiers_stand)
{
    run(12, "1", (struct want){.mode = "c:2x3x2", .n_tiers = 3, .size = {2, 3, 2}});
    run(5, "2", (struct want){.mode = "5x1", .n_tiers = 2, .size = {5, 1}});
    run(4, "2", (struct want){.mode = "p", .n_tiers = 2, .size = {2, 2}});
    struct want wrong = {.mode = "b:4x3"};
    ASSERT_FAILS(lk_run_local(8, find, &wrong), LK_ESHAPE, "4x3 hold 12 ranks, but there are 8");
    wrong.mode = "b:4x3y2";
    ASSERT_FAILS(lk_run_local(4, find, &wrong), LK_EINVAL, "b:4x3y2");
}
