/* Training by tiles: on every layout that the pieces allow, losses, metrics, evaluation and state have the
 * bits of one rank.
 */
#include "tile_nets.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <math.h>

static void expect_same(lk_comm *comm, const char *network, const char *pieces, const char *least,
                        const struct grid *grids)
{
    outcome alone = train_steps(network, NULL, (const char *[MAX_SETTINGS]){pieces, least});
    ASSERT_TRUE(isfinite(alone.loss[STEPS - 1]) && alone.loss[STEPS - 1] != alone.loss[0]);
    for (int i = 0; grids[i].ranks > 0; i++) {
        char spatial[64];
        if (lk_comm_size(comm) % grids[i].ranks != 0 || lk_comm_size(comm) > 8 * grids[i].ranks)
            continue; /* 8 shards */
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i].spatial);
        outcome together = train_steps(network, comm,
                                       (const char *[MAX_SETTINGS]){pieces, least, spatial});
        if (memcmp(&alone, &together, sizeof alone) != 0)
            TEST_FAIL("%s of %d ranks: state %016llx, alone %016llx; losses %.17g %.17g", spatial,
                      lk_comm_size(comm), (unsigned long long)together.state,
                      (unsigned long long)alone.state, together.loss[0], alone.loss[0]);
    }
}

static void classes_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes);
}

static void changes_of_domain_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes);
}

static void volumes_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes);
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=8", cubes);
}

/* Shard by shard, and layers that carry something from one time to the next on whole samples. */
static void times_behind_tiles_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, series, "pieces.tiles=4x3", "pieces.least_tile=1", few);
}

#define TEST_OF(name) \
    {                 \
#        name, name   \
    }
RANKS_MAIN(TEST_OF(classes_have_the_bits_of_one_rank),
           TEST_OF(changes_of_domain_have_the_bits_of_one_rank),
           TEST_OF(volumes_have_the_bits_of_one_rank),
           TEST_OF(times_behind_tiles_have_the_bits_of_one_rank))
