/* train.recompute: the bits of keeping all values, on every layout, and less memory, also of U-Nets, which are
 * blocks within blocks.
 */
#include "tiles/tile_nets.h"
#include "train/trainer.h"
#include "trainers.h"

#include <lockstep/extra/trainer_plan.h>

/* ---- bits ---- */

/* Within blocks: windows with and without margins, two lists that read one margin, weights of each position, statistics of both kinds, random
 * draws, whole samples between tiles, a parameter that two layers share, and a block that ends a list. */
static const char nest[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [12, 8, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - type: residual\n"
    "    join: concat\n"
    "    shortcut: [{type: conv, filters: 2, kernel: 3, padding: 1}]\n"
    "    layers:\n"
    "      - tanh\n"
    "      - {type: maxpool, size: 2}\n"
    "      - {type: conv, name: a, filters: 3, kernel: 3, padding: 1}\n"
    "      - {type: batch_norm, statistics: batch}\n"
    "      - relu\n"
    "      - type: residual\n"
    "        layers: [{type: dropout, rate: 0.2}, {type: lcn, size: 3}, batch_norm,\n"
    "          {type: conv, filters: 3, kernel: 3, padding: 1, tie: residual1.a.weight},\n"
    "          {type: residual, layers: [layer_norm, tanh],\n"
    "           shortcut: [{type: conv, filters: 3, kernel: 3, padding: 1}]}]\n"
    "      - {type: local_conv, filters: 3, kernel: 3, padding: 1}\n"
    "      - {type: conv_transpose, filters: 3, kernel: 2, stride: 2}\n"
    "      - {type: residual, layers: [flatten, tanh, {type: reshape, shape: [12, 8, 3]}]}\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - {type: residual, layers: [{type: conv, filters: 3, kernel: 3, padding: 1}, tanh],\n"
    "     shortcut: [{type: conv, filters: 3, kernel: 5, padding: 2}]}\n"
    "  - {type: residual, layers: [{type: conv, filters: 3, kernel: 3, padding: 1}, tanh],\n"
    "     shortcut: [tanh, {type: conv, filters: 3, kernel: 3, padding: 1}]}\n"
    "  - global_avgpool\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static void expect_kept(lk_comm *comm, const char *network, const char *pieces,
                        const struct grid *grids)
{
    static const char *const segments[] = {"train.recompute=5", "train.recompute=1000",
                                           "train.recompute=2", "train.recompute=11"};
    const char *least = "pieces.least_tile=1";
    outcome kept = train_steps(network, NULL, (const char *[MAX_SETTINGS]){pieces, least});
    for (int i = 0; i == 0 || grids[i - 1].ranks > 0; i++) {
        char spatial[64] = "parallel.spatial=1";
        if (i > 0 && lk_comm_size(comm) % grids[i - 1].ranks != 0)
            continue;
        if (i > 0)
            snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i - 1].spatial);
        const char *again = segments[(i + lk_comm_size(comm)) % 4];
        outcome other = train_steps(network, comm,
                                    (const char *[MAX_SETTINGS]){pieces, least, spatial, again});
        if (memcmp(&kept, &other, sizeof kept) != 0)
            TEST_FAIL("%s, %s of %d ranks: state %016llx, kept %016llx; losses %.17g %.17g", again,
                      spatial, lk_comm_size(comm), (unsigned long long)other.state,
                      (unsigned long long)kept.state, other.loss[0], kept.loss[0]);
    }
}

RANKS_TEST(nests_have_the_bits_of_keeping)
{
    expect_kept(comm, nest, "pieces.tiles=4x3", few);
}

RANKS_TEST(unets_have_the_bits_of_keeping)
{
    static const struct grid some[] = {{2, "2x1x1"}, {4, "2x1x2"}, {4, "2x2x1"}, {0, NULL}};
    expect_kept(comm, volumes, "pieces.tiles=2x2x2", some);
}

RANKS_TEST(changes_of_domain_have_the_bits_of_keeping)
{
    expect_kept(comm, images, "pieces.tiles=4x3", few);
    expect_kept(comm, series, "pieces.tiles=4x3", few);
}

/* ---- memory ---- */

/* A U-Net of three levels below the first, which has 8 channels, on a volume of 32^3; with `block` all of it is
 * one block of the model's list. */
static char unet[4096];

static void put(const char *text)
{
    size_t n = strlen(unet);
    ASSERT_TRUE(n + strlen(text) < sizeof unet);
    snprintf(unet + n, sizeof unet - n, "%s", text);
}

static void put_block(int width)
{
    char text[128];
    snprintf(text, sizeof text,
             "{type: conv, filters: %d, kernel: 3, padding: 1}, batch_norm, relu, ", width);
    put(text);
    put(text);
}

static void put_level(int width, int below)
{
    char text[128];
    put_block(width);
    if (below == 0)
        return;
    put("{type: residual, join: concat, layers: [{type: maxpool, size: 2}, ");
    put_level(2 * width, below - 1);
    snprintf(text, sizeof text, "{type: conv_transpose, filters: %d, kernel: 2, stride: 2}]}, ",
             width);
    put(text);
    put_block(width);
}

static void unet_write(bool block)
{
    unet[0] = 0;
    put("data: {type: fractal, count: 4, test_count: 1, shape: [32, 32, 32, 1], batch: 1,\n"
        "       shards: 1, prefetch: 0}\n"
        "model: [");
    put(block ? "{type: residual, join: concat, layers: [" : "");
    put_level(8, 3);
    put(block ? "tanh]}, " : "");
    put("{type: conv, filters: 2, kernel: 1}]\n"
        "loss: softmax_cross_entropy\n"
        "optimizer: sgd\n"
        "train: {epochs: 9}\n");
}

typedef struct need {
    int64_t counted; /* bytes of all ranks of the process, behind the start */
    int64_t values;  /* those of this rank's tape */
    int64_t later;   /* bytes more behind the first step */
    int64_t calls;   /* allocations behind it, those of messages among them */
    uint64_t state;
} need;

static lk_alloc_stats stats_of_all(lk_comm *comm)
{
    if (lk_comm_size(comm) == 1)
        return lk_alloc_stats_now(); /* messages take some, too */
    ASSERT_OK(lk_barrier(comm, "before"));
    lk_alloc_stats now = lk_alloc_stats_now();
    ASSERT_OK(lk_barrier(comm, "behind"));
    return now;
}

/* What three steps of a layout take. */
static need need_of(lk_comm *comm, const char *const *settings)
{
    need n = {0};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(unet, lk_comm_size(comm) > 1 ? comm : NULL, settings, &e, &job));
    int64_t before = stats_of_all(comm).live_bytes;
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    lk_alloc_stats first = stats_of_all(comm);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    lk_alloc_stats now = stats_of_all(comm);
    n.counted = now.live_bytes - before;
    n.later = now.live_bytes - first.live_bytes;
    n.calls = now.calls - first.calls;
    n.values = lk_tape_stats_of(lk_job_trainer(job)->tape).held_bytes;
    n.state = state_of(lk_job_trainer(job));
    ASSERT_OK(lk_barrier(comm, "counted"));
    job_end(job, e);
    return n;
}

/* What rehearsals say that the first step of all ranks takes: passes, samples, and what calls share. */
static int64_t planned_of(const lk_mesh_shape *shape, int ranks, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    int64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        lk_plan *plan = NULL;
        ASSERT_OK(job_of(unet, NULL, settings, &e, &job));
        ASSERT_OK(lk_trainer_plan_of(lk_job_trainer(job), shape, ranks, rank, &plan));
        ASSERT_OK(lk_trainer_rehearse(lk_job_trainer(job), NULL, plan));
        sum += plan->memory.values + plan->memory.samples + plan->memory.exchange;
        lk_plan_free(plan);
        job_end(job, e);
    }
    return sum;
}

/* With recompute passes take at most so many of the bytes without: on the tape, and with what kernels keep,
 * data and messages. */
static void expect_less(lk_comm *comm, const char *pieces, const char *grid, double values,
                        double all)
{
    const char *settings[MAX_SETTINGS] = {"train.recompute=0", pieces, grid};
    need kept = need_of(comm, settings);
    settings[0] = "train.recompute=4";
    need again = need_of(comm, settings);
    ASSERT_TRUE(kept.state == again.state);
    ASSERT_EQ(again.later, 0);
    ASSERT_TRUE(again.calls == 0 ||
                lk_comm_size(comm) > 1); /* messages lie in blocks of their own */
    double tape = (double)again.values / (double)kept.values,
           sum = (double)again.counted / (double)kept.counted;
    if (tape > values || sum > all)
        TEST_FAIL("%s: %.3f of the values, %.3f of all", pieces, tape, sum);
    settings[2] = NULL;
    lk_mesh_shape shape = {.data = 1, .ndim = 3, .space = {1, 1, 1}};
    if (lk_comm_size(comm) == 4)
        shape.space[0] = shape.space[1] = 2;
    if (lk_comm_rank(comm) == 0) {
        double planned = (double)planned_of(&shape, lk_comm_size(comm), settings),
               ratio = (double)again.counted / planned;
        if (ratio < 0.85 || ratio > 1.15)
            TEST_FAIL("%s: %.3f of what was planned", pieces, ratio);
    }
    ASSERT_OK(lk_barrier(comm, "compared"));
}

RANKS_TEST(a_unet_takes_less_memory)
{
    int size = lk_comm_size(comm);
    if ((size != 1 && size != 4) || strcmp(lk_comm_transport(comm), "mpi") == 0)
        return; /* ranks of one process share the counters */
    if (lk_comm_rank(comm) == 0)
        unet_write(size == 1);
    ASSERT_OK(lk_barrier(comm, "written"));
    if (size == 1)
        expect_less(comm, "pieces.tiles=1", NULL, 0.54, 0.63);
    else
        expect_less(comm, "pieces.tiles=2x2x1", "parallel.spatial=2x2x1", 0.83, 0.89);
}
