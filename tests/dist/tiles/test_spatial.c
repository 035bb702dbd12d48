/* Training by tiles: on every layout that the pieces allow, losses, metrics, evaluation and state have the
 * bits of one rank.
 */
#include "tile_nets.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <math.h>

/* Two branches read one value: one all of its positions at once, one in windows, whose margin it fetches. */
static const char branches[] =
    "data: {type: fractal, shape: [8, 8, 1], count: 9, test_count: 4, batch: 4, shards: 4}\n"
    "model:\n"
    "  - {type: conv, filters: 2, kernel: 1}\n"
    "  - {type: residual, layers: [tanh]}\n"
    "  - type: residual\n"
    "    layers: [{type: layer_norm, axes: 3}]\n"
    "    shortcut: [{type: conv, filters: 2, kernel: [1, 5], padding: [0, 2]}]\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: sgd\n"
    "train: {epochs: 3}\n";

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

RANKS_TEST(classes_have_the_bits_of_one_rank)
{
    expect_same(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes);
}

RANKS_TEST(changes_of_domain_have_the_bits_of_one_rank)
{
    expect_same(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes);
}

RANKS_TEST(volumes_have_the_bits_of_one_rank)
{
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes);
    expect_same(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=8", cubes);
}

/* Values that backward computes again: margins are fetched again, statistics are taken once. */
RANKS_TEST(recomputing_has_the_bits_of_keeping)
{
    static const char *const nets[] = {classes, volumes};
    for (int i = 0; i < 2; i++) {
        const char *pieces = i == 0 ? "pieces.tiles=4x3" : "pieces.tiles=3x2x2",
                   *least = "pieces.least_tile=1";
        const char *grid = lk_comm_size(comm) % 2 ? "parallel.spatial=1x1" : "parallel.spatial=2x1";
        outcome kept = train_steps(nets[i], NULL, (const char *[MAX_SETTINGS]){pieces, least});
        outcome again = train_steps(
            nets[i], comm,
            (const char *[MAX_SETTINGS]){pieces, least, grid,
                                         i ? "train.recompute=2" : "train.recompute=4"});
        ASSERT_EQ(memcmp(&kept, &again, sizeof kept), 0);
    }
}

/* The peak of three steps of one rank above what is there before. */
static int64_t peak_of(const char *recompute)
{
    static const char deep[] =
        "data: {type: shapes, count: 16, test_count: 4, shape: [48, 48, 2], batch: 8, shards: 2,\n"
        "       prefetch: 0}\n"
        "model: [{type: conv, filters: 8, kernel: 3, padding: 1}, softplus,\n"
        "        {type: conv, filters: 8, kernel: 3, padding: 1}, softplus,\n"
        "        {type: conv, filters: 8, kernel: 3, padding: 1}, softplus,\n"
        "        {type: conv, filters: 8, kernel: 3, padding: 1}, softplus,\n"
        "        global_avgpool, {type: linear, units: 2}]\n"
        "loss: softmax_cross_entropy\n"
        "optimizer: sgd\n"
        "train: {epochs: 1}\n";
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(deep, NULL, (const char *[MAX_SETTINGS]){recompute}, &e, &job));
    lk_alloc_stats before = lk_alloc_stats_now();
    int64_t most = 0;
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
        int64_t now = lk_alloc_stats_now().live_bytes - before.live_bytes;
        most = now > most ? now : most;
    }
    job_end(job, e);
    return most;
}

RANKS_TEST(recomputing_takes_less_memory)
{
    if (lk_comm_size(comm) > 1)
        return; /* ranks of one process share the counters */
    int64_t kept = peak_of("train.recompute=0"), again = peak_of("train.recompute=3");
    ASSERT_TRUE(again < kept - kept / 4);
}

RANKS_TEST(branches_have_the_bits_of_one_rank)
{
    expect_same(comm, branches, "pieces.tiles=2x4", "pieces.least_tile=4", few);
}

/* Shard by shard, and layers that carry something from one time to the next on whole samples. */
RANKS_TEST(times_behind_tiles_have_the_bits_of_one_rank)
{
    expect_same(comm, series, "pieces.tiles=4x3", "pieces.least_tile=1", few);
}

/* Sums in any order, statistics of the whole batch among them: the numbers are nearly the same. */
RANKS_TEST(fast_mode_trains_on_grids_of_replicas)
{
    const char *const grid[] = {"pieces.tiles=2x2", "model.4={type: batch_norm, statistics: batch}",
                                "parallel.spatial=2x1", "parallel.mode=fast"};
    if (lk_comm_size(comm) % 2 != 0)
        return;
    outcome alone = train_steps(classes, NULL, (const char *[MAX_SETTINGS]){grid[0], grid[1]});
    outcome fast = train_steps(classes, comm, grid);
    ASSERT_TRUE(fabs(fast.loss[0] - alone.loss[0]) < 1e-4);
    ASSERT_TRUE(fabs(fast.loss[STEPS - 1] - alone.loss[STEPS - 1]) < 0.05);
}

/* ---- failures ---- */

/* Images of 9x7, of which sample 17 cannot be read while *context says so. */
static lk_status broken_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->n[d];
    if (field == 1)
        *(int64_t *)out = index % 2;
    for (int64_t i = 0; field == 0 && i < n; i++)
        ((float *)out)[i] = (float)((index + i) % 7);
    if (field == 0 && index == 17 && *(const bool *)context)
        return LK_RAISE(LK_EIO, "sample 17 is not there");
    return LK_OK;
}

/* The last rank cannot read its tile: all stop in that step, or evaluation, which can be tried again. */
RANKS_TEST(a_tile_that_cannot_be_read_stops_all_in_that_step)
{
    bool fails = false;
    int64_t ranks = lk_comm_size(comm);
    lk_dataset_info info = {.name = "t",
                            .count = 30,
                            .classes = 2,
                            .n_fields = 2,
                            .field = {{"x", LK_F32, LK_SHAPE(9, 7, 1)}, {"y", LK_I64, LK_SCALAR}}};
    lk_model_spec in = {.in = {LK_F32, LK_SHAPE(9, 7, 1)}};
    lk_dataset *set = NULL;
    lk_loader *loader = NULL;
    lk_model *model = NULL;
    lk_trainer *t = NULL;
    lk_eval score;
    ASSERT_OK(lk_dataset_new_boxes(&info, NULL, broken_box, NULL, &fails, &set));
    ASSERT_OK(lk_loader_new_options(set, &(lk_loader_options){.batch = 8, .shards = 2, .scale = 1},
                                    1, &loader));
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, "conv", "filters=3 kernel=3"));
    ASSERT_OK(lk_model_add(model, "flatten", NULL));
    ASSERT_OK(lk_model_add(model, "linear", "units=2"));
    ASSERT_OK(lk_model_build(model, &in));
    ASSERT_OK(lk_model_hold(model, NULL));
    lk_trainer_spec spec = {.comm = comm,
                            .epochs = 1,
                            .model = model,
                            .train = loader,
                            .pieces = {.tile = {ranks, 1, 1}},
                            .parallel.spatial = {.item = {ranks}, .n = 1}};
    spec.parallel.spatial.item[1] = 0;
    spec.parallel.spatial.n = 2;
    ASSERT_FAILS(lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=sgd", &t), LK_EINVAL,
                 "parallel.spatial: 0 parts along axis 1");
    spec.parallel.spatial.n = 1;
    ASSERT_OK(lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=sgd", &t));
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_OK(lk_trainer_evaluate(t, loader, &score));
    double loss = score.loss;
    uint64_t before = state_of(t);
    fails = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    ASSERT_EQ(lk_trainer_step(t, NULL), LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "sample 17 is not there"));
    ASSERT_FAILS(lk_trainer_evaluate(t, loader, &score), LK_EIO, "sample 17 is not there");
    ASSERT_TRUE(state_of(t) == before);
    fails = false;
    ASSERT_OK(lk_trainer_evaluate(t, loader, &score));
    ASSERT_TRUE(loss == score.loss);
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_TRUE(state_of(t) != before);
    lk_trainer_free(t);
    lk_model_free(model);
    lk_loader_free(loader);
    lk_dataset_free(set);
}
