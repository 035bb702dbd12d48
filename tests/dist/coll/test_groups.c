/* Gradient groups: the slab is joined, whether its gradients travel early or not. */
#include "parallel/groups_internal.h"
#include "ranks.h"

#include <lockstep/extra/plan.h>

enum { PIECES = 8 };

/* Small whole numbers, whose sums are exact in any order. */
static float value_of(int rank, int64_t i)
{
    return (float)((rank + 1) * (i % 5 + 1));
}

/* Fill this rank's sums, join, and look whether every element is the sum over all ranks. */
static void expect_sums(lk__groups *g, int rank, int size)
{
    lk_range block[LK_MAX_SUBTREES];
    (void)lk__groups_begin(g, PIECES, PIECES);
    ASSERT_EQ(lk__groups_microbatches(g, block), 1);
    float *own = lk_slab_data(lk_accumulator_slab(lk__groups_accumulator(g, 0)));
    for (int64_t i = 0; i < g->joined; i++)
        own[i] = value_of(rank, i);
    ASSERT_OK(lk__groups_finish_overlap(g));
    ASSERT_OK(lk__groups_allreduce(g));
    const float *total = lk_slab_data(lk_accumulator_slab(lk__groups_result(g)));
    for (int64_t i = 0; i < g->joined; i++) {
        float want = 0;
        for (int r = 0; r < size; r++)
            want += value_of(r, i);
        ASSERT_TRUE(total[i] == want);
    }
}

RANKS_TEST(every_element_is_joined)
{
    int size = lk_comm_size(comm);
    lk_model *model = NULL;
    if (size != 4 && size != 8)
        return;
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, "linear", "units=7"));
    ASSERT_OK(lk_model_add(model, "batch_norm", NULL));
    ASSERT_OK(lk_model_add(model, "linear", "units=3"));
    ASSERT_OK(lk_model_build(model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(20)}}));
    ASSERT_OK(lk_model_hold(model, NULL));
    int64_t elements[] = {20 * 7, 7, 7, 7, 7 * 3, 3};
    lk_plan plan = {.ranks = size,
                    .param_elements = elements,
                    .rank = lk_comm_rank(comm),
                    .most_microbatches = 1,
                    .spec = {.shards = PIECES, .shard_size = 1, .batch = PIECES}};
    for (int64_t bucket = 0; bucket <= 128; bucket += 128) {
        lk_mesh *mesh = NULL;
        lk__groups *g = NULL;
        ASSERT_OK(lk_mesh_new(comm, &(lk_mesh_shape){.data = 0}, &mesh));
        plan.spec.bucket_bytes = bucket;
        ASSERT_OK(lk__groups_new(&plan, mesh, model, &g));
        ASSERT_TRUE(g->joined > g->params && g->n_groups == 1);
        ASSERT_TRUE(bucket == 0 || g->n_buckets > 2);
        for (int step = 0; step < 2; step++)
            expect_sums(g, lk_comm_rank(comm), size);
        lk__groups_free(g);
        lk_mesh_free(mesh);
    }
    lk_model_free(model);
}
