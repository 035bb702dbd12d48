/* Training by tiles: on every layout that the pieces allow, losses, metrics, evaluation and state have the
 * bits of one rank.  The nets have each kind of layer, batches whose last is short, and sizes that tiles and
 * strides do not divide.
 */
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <math.h>

/* Images, then whole samples: 8 shards; an epoch is two whole batches and one of 5 samples. */
static const char images[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [4, 9, 7, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: reshape, shape: [12, 21, 1]}\n"
    "  - {type: conv, filters: 3, kernel: 5, padding: 2}\n"
    "  - relu\n"
    "  - {type: maxpool, size: 3, stride: 2}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1, stride: 2}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 4, kernel: 3, padding: 1}]}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 252}\n"
    "  - {type: reshape, shape: [4, 9, 7, 1]}\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static const char classes[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8,\n"
    "       shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 5, padding: 2}\n"
    "  - relu\n"
    "  - {type: maxpool, size: 3, stride: 2}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1, stride: 2}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 4, kernel: 3, padding: 1}]}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - {type: avgpool, size: 2, stride: 1}\n"
    "  - global_avgpool\n"
    "  - {type: linear, units: 5}\n"
    "  - tanh\n"
    "  - {type: dropout, rate: 0.1}\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static const char volumes[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [8, 4, 8, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - type: residual\n"
    "    join: concat\n"
    "    layers:\n"
    "      - {type: maxpool, size: 2}\n"
    "      - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "      - batch_norm\n"
    "      - relu\n"
    "      - type: residual\n"
    "        join: concat\n"
    "        layers:\n"
    "          - {type: avgpool, size: 2}\n"
    "          - {type: conv, filters: 5, kernel: 1}\n"
    "          - {type: dropout, rate: 0.1}\n"
    "          - {type: conv_transpose, filters: 4, kernel: 2, stride: 2}\n"
    "      - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "      - relu\n"
    "      - {type: conv_transpose, filters: 3, kernel: 2, stride: 2}\n"
    "  - {type: conv, filters: 2, kernel: 3, padding: 1}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* Grids that as many ranks can be, "" if none. */
struct grid {
    int ranks;
    const char *spatial;
};

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

static const struct grid planes[] = {{1, "1x1"}, {2, "2x1"}, {2, "1x2"}, {3, "3x1"}, {3, "1x3"},
                                     {4, "2x2"}, {4, "4x1"}, {6, "3x2"}, {9, "3x3"}, {0, NULL}};

static void classes_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes);
}

static void changes_of_domain_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes);
}

static const struct grid cubes[] = {{2, "2x1x1"}, {2, "1x1x2"}, {3, "3x1x1"}, {4, "2x1x2"},
                                    {4, "2x2x1"}, {8, "2x2x2"}, {0, NULL}};

static void volumes_have_the_bits_of_one_rank(lk_comm *comm)
{
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes);
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=8", cubes);
}

#define TEST_OF(name) \
    {                 \
#        name, name   \
    }
RANKS_MAIN(TEST_OF(classes_have_the_bits_of_one_rank),
           TEST_OF(changes_of_domain_have_the_bits_of_one_rank),
           TEST_OF(volumes_have_the_bits_of_one_rank))
