/* U-Nets of residual blocks that concatenate, with a loss at each position: the bits of one rank, and
 * the output in the plan. */
#include "trainers.h"
#include "unet_net.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

#define REST                                \
    "loss: softmax_cross_entropy\n"         \
    "metrics: [accuracy]\n"                 \
    "optimizer: {type: adam, rate: 0.01}\n" \
    "train: {epochs: 3}\n"

/* The planes of a volume below each other, as one image; its shortcut has a layer. */
static const char images[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [4, 8, 8, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: reshape, shape: [32, 8, 1]}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "  - type: residual\n"
    "    join: concat\n"
    "    shortcut: [{type: conv, filters: 2, kernel: 1}]\n"
    "    layers:\n"
    "      - relu\n"
    "      - {type: maxpool, size: 2}\n"
    "      - {type: residual, join: concat, layers: [{type: maxpool, size: 2},\n"
    "         {type: conv, filters: 6, kernel: 3, padding: 1}, relu,\n"
    "         {type: conv_transpose, filters: 4, kernel: 2, stride: 2}]}\n"
    "      - {type: batch_norm, statistics: batch}\n"
    "      - {type: conv_transpose, filters: 4, kernel: 4, stride: 2, padding: 1}\n"
    "  - {type: conv, filters: 2, kernel: 1}\n"
    "  - {type: reshape, shape: [4, 8, 8, 2]}\n" REST;

static void expect_same(lk_comm *comm, const char *network, const char *const *settings)
{
    outcome alone = train_steps(network, NULL, settings),
            together = train_steps(network, comm, settings);
    ASSERT_EQ(memcmp(&alone, &together, sizeof alone), 0);
    ASSERT_TRUE(alone.loss[STEPS - 1] < alone.loss[0]);
}

RANKS_TEST(volumes_have_the_bits_of_one_rank)
{
    expect_same(comm, volumes, (const char *[MAX_SETTINGS]){"parallel.update=each"});
    expect_same(comm, volumes, (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "dtype=f64"});
}

RANKS_TEST(images_have_the_bits_of_one_rank)
{
    expect_same(comm, images, (const char *[MAX_SETTINGS]){"parallel.update=shared"});
}

/* A loss with weights of classes, and what overlaps of each, counted tile by tile. */
RANKS_TEST(weights_and_overlaps_have_the_bits_of_one_rank)
{
    static const char *const grid[] = {"1", "1x1x2", "1", "2x1x2", "1", "1", "1", "2x2x2"},
                             *const metric[] = {"metrics=[dice]",
                                                "metrics=[{type: iou, ignore: 0}]"};
    int n = lk_comm_size(comm);
    char spatial[64];
    ASSERT_TRUE(n <= 8);
    snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grid[n - 1]);
    for (int i = 0; i < 2; i++) {
        const char *settings[MAX_SETTINGS] = {
            "loss={type: softmax_cross_entropy, weights: [0.4, 1.5]}", metric[i],
            "pieces={tiles: 2x2x2, least_tile: 1}"};
        outcome alone = train_steps(volumes, NULL, settings);
        outcome plain = train_steps(volumes, NULL, (const char *[MAX_SETTINGS]){settings[2]});
        settings[3] = spatial;
        outcome together = train_steps(volumes, comm, settings);
        ASSERT_EQ(memcmp(&alone, &together, sizeof alone), 0);
        ASSERT_TRUE(alone.test_accuracy > 0 && alone.test_accuracy < 1);
        ASSERT_TRUE(alone.state != plain.state && alone.loss[0] != plain.loss[0]);
    }
}

static const lk_layer_plan *layer_of(const lk_plan *plan, const char *name)
{
    for (int64_t i = 0; i < plan->n_layers; i++)
        if (strcmp(plan->layer[i].name, name) == 0)
            return &plan->layer[i];
    TEST_FAIL("there is no layer %s", name);
}

/* x has 3 channels and the layers give 3; within, 4 and 4. */
RANKS_TEST(the_plan_has_the_channels_of_both)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(volumes, comm, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    const lk_plan *plan = lk_trainer_plan(lk_job_trainer(job));
    const lk_layer_plan *outer = layer_of(plan, "residual1"),
                        *inner = layer_of(plan, "residual1.residual1");
    ASSERT_TRUE(outer->box.n[3] == 3 + 3 && lk_box_count(&outer->box) == 8 * 4 * 8 * 6);
    ASSERT_TRUE(inner->box.n[3] == 4 + 4 && lk_box_count(&inner->box) == 4 * 2 * 4 * 8);
    ASSERT_EQ(outer->value_bytes, lk_box_count(&outer->box) * plan->pass_samples * 4);
    ASSERT_TRUE(outer->reach == LK_REACH_POSITION && inner->reach == LK_REACH_POSITION);
    job_end(job, e);
}
