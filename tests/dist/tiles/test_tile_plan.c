/* Plans of runs that are cut into tiles: what a step was planned to fetch, to change and to join is what it
 * sends, rank by rank; what is by tiles; and the memory that it takes.
 */
#include "dist/common/tiles.h"
#include "job_memory.h"
#include "planned_calls.h"
#include "tile_nets.h"
#include "trainers.h"

#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <string.h>

/* ---- memory: first, as what a process had at most is counted ---- */

static const struct {
    const char *file, *data;
} preset[] = {
    {"experiments/mnist-lenet.yaml", "data={type: glyphs, count: 32, test_count: 32, batch: 32,"
                                     " shape: [28, 28, 1], shards: 8, one_hot: true}"},
    {"experiments/cifar10-cnn.yaml", "data={type: glyphs, count: 32, test_count: 32, batch: 32,"
                                     " shape: [32, 32, 3], shards: 8, one_hot: true}"}};

/* What all ranks of a layout are planned to hold, or with rank >= 0 one of them. */
static int64_t memory_planned(const lk_experiment *e, const lk_mesh_shape *shape, int ranks,
                              int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < ranks; r++) {
        lk_job *job = NULL;
        lk_plan *plan = NULL;
        if (rank >= 0 && r != rank)
            continue;
        ASSERT_OK(lk_job_new(e, NULL, &job));
        ASSERT_OK(lk_job_plan(job, shape, ranks, r, &plan));
        sum += lk_plan_memory_sum(&plan->memory);
        lk_plan_free(plan);
        lk_job_free(job);
    }
    return sum;
}

/* What the ranks of this process hold after some steps and an evaluation, without their sets; of a rank that is
 * alone in its process, at most. */
static int64_t memory_counted(lk_comm *comm, const lk_experiment *e, bool alone)
{
    lk_job *job = NULL;
    int64_t sets = 0;
    ASSERT_OK(lk_allreduce(comm, NULL, &sets, 1, LK_I64, LK_REDUCE_SUM, "begin"));
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_barrier(comm, "known"));
    ASSERT_OK(lk_job_new(e, comm, &job));
    job_use(job, 3);
    sets = sets_bytes(job);
    if (!alone)
        ASSERT_OK(lk_allreduce(comm, NULL, &sets, 1, LK_I64, LK_REDUCE_SUM, "sets"));
    ASSERT_OK(lk_barrier(comm, "trained"));
    lk_alloc_stats now = lk_alloc_stats_now();
    ASSERT_OK(lk_barrier(comm, "counted"));
    lk_job_free(job);
    return (alone ? now.peak_bytes : now.live_bytes) - before - sets;
}

static void memory_compare(lk_comm *comm, const lk_experiment *e, const lk_mesh_shape *shape,
                           int64_t counted, bool alone)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    if (!alone && rank > 0)
        return;
    int64_t of = memory_planned(e, shape, size, alone ? rank : -1);
    double ratio = (double)counted / (double)of;
    if (ratio < (alone ? 0.6 : 0.85) || ratio > 1.15) /* of a process, without what nodes share */
        TEST_FAIL("rank %d of %d: %lld bytes, %.3f of what was planned", rank, size,
                  (long long)counted, ratio);
}

/* First all that is counted, the larger behind the smaller: a peak is that of the process. */
RANKS_TEST(steps_and_evaluations_take_what_was_planned)
{
    enum { N = sizeof preset / sizeof preset[0] };
    int size = lk_comm_size(comm);
    bool alone = strcmp(lk_comm_transport(comm), "mpi") == 0; /* in its process */
    lk_mesh_shape shape = {.data = 1, .ndim = 2, .space = {2, size / 2}};
    int64_t counted[N];
    lk_experiment *e = NULL;
    char spatial[64];
    if (size != 2 && size != 4)
        return;
    snprintf(spatial, sizeof spatial, "parallel.spatial=2x%d", size / 2);
    for (int plans = 0; plans < 2; plans++)
        for (int i = 0; i < N; i++) {
            const char *settings[] = {preset[i].data, "pieces.tiles=4x4", "pieces.least_tile=1",
                                      spatial};
            ASSERT_OK(lk_experiment_read(preset[i].file, settings, plans ? 3 : 4, &e));
            if (plans)
                memory_compare(comm, e, &shape, counted[i], alone);
            else
                counted[i] = memory_counted(comm, e, alone);
            lk_experiment_free(e);
            ASSERT_OK(lk_barrier(comm, "next")); /* nobody else allocates while one counts */
        }
}

/* ---- what is sent ---- */

/* Train a step in a layout, and count. */
static void expect_sent(lk_comm *comm, const char *network, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    planned_expect(comm, lk_job_trainer(job), settings[2]);
    job_end(job, e);
}

static void expect_planned(lk_comm *comm, const char *network, const char *pieces,
                           const char *least, const struct grid *grids, const char *further)
{
    for (int i = 0; grids[i].ranks > 0; i++) {
        char spatial[64];
        if (lk_comm_size(comm) % grids[i].ranks != 0 || lk_comm_size(comm) > 8 * grids[i].ranks)
            continue; /* 8 shards */
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i].spatial);
        expect_sent(comm, network, (const char *[MAX_SETTINGS]){pieces, least, spatial, further});
    }
}

RANKS_TEST(a_step_of_tiles_sends_what_was_planned)
{
    static const char by_batch[] = "model.4={type: batch_norm, statistics: batch}",
                      by_sample[] = "model.4={type: layer_norm, axes: 3}";
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, NULL);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, by_batch);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, "dtype=f64");
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, by_sample);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=20", planes, by_sample);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=20", planes, by_batch);
    if (lk_comm_size(comm) <= 4) /* shards are as many as ranks, of whole samples */
        expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes,
                       "parallel.mode=fast");
    expect_planned(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes, NULL);
    expect_planned(comm, filters, "pieces.tiles=4x3", "pieces.least_tile=0", planes, NULL);
    expect_planned(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes, NULL);
    expect_planned(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=8", cubes,
                   "parallel.update=shared");
}

/* A model that uses a parameter more than once passes shard by shard. */
RANKS_TEST(passes_of_shards_send_what_was_planned)
{
    expect_planned(comm, series, "pieces.tiles=4x3", "pieces.least_tile=1", few, NULL);
}

/* Filters of positions: the first layer, whose x has no gradient, reads none of others; then windows of which
 * some see padding alone, windows across the cuts, and such that no tile shares. */
#define POSITIONS                                                                               \
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n" \
    "loss: softmax_cross_entropy\n"                                                             \
    "optimizer: {type: adam, rate: 0.01}\n"                                                     \
    "model:\n"                                                                                  \
    "  - {type: local_conv, filters: 3, kernel: 3, padding: 1}\n"                               \
    "  - relu\n"                                                                                \
    "  - {type: local_conv, filters: 3, kernel: 1, padding: [2, 0]}\n"                          \
    "  - {type: residual, layers: [tanh, {type: local_conv, filters: 3, kernel: [4, 3], pad: "  \
    "same}]}\n"                                                                                 \
    "  - {type: l2pool, size: 3, stride: 2}\n"                                                  \
    "  - {type: local_conv, filters: 4, kernel: 3, stride: 2, padding: 1}\n"                    \
    "  - {type: local_conv, filters: 2, kernel: 1}\n"                                           \
    "  - flatten\n"
static const char positions[] = POSITIONS "  - {type: linear, units: 2}\n";
static const char positions_of_times[] = POSITIONS "  - {type: reshape, shape: [12, 2]}\n"
                                                   "  - {type: gru, units: 3}\n"
                                                   "  - flatten\n"
                                                   "  - {type: linear, units: 2}\n";

/* What a rank holds of the filters of others, with its own beside them, after some steps. */
static void expect_filters(lk_comm *comm, const char *spatial)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    const char *settings[MAX_SETTINGS] = {"pieces.tiles=4x3", "pieces.least_tile=0", spatial};
    int64_t held = 0, listed = 0;
    ASSERT_OK(job_of(positions, comm, settings, &e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    const lk_plan *p = lk_trainer_plan(lk_job_trainer(job));
    for (int64_t i = 0; i < p->n_tiles; i++)
        held += p->tile[i]->weights ? p->tile[i]->weights->bytes : 0;
    for (int64_t i = 0; i < p->n_layers; i++)
        listed += p->layer[i].filter_bytes;
    ASSERT_EQ(p->memory.filters, held);
    ASSERT_EQ(listed, held);
    ASSERT_TRUE(lk_comm_size(comm) == 1 || held > 0);
    job_end(job, e);
}

/* The margin of filters travels once a step, however many passes it has. */
RANKS_TEST(filters_of_positions_are_in_the_plan)
{
    expect_planned(comm, positions, "pieces.tiles=4x3", "pieces.least_tile=0", planes, NULL);
    expect_planned(comm, positions, "pieces.tiles=4x3", "pieces.least_tile=0", planes, "dtype=f64");
    expect_planned(comm, positions_of_times, "pieces.tiles=4x3", "pieces.least_tile=0", few, NULL);
    for (int i = 0; planes[i].ranks > 0; i++) {
        char spatial[64];
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", planes[i].spatial);
        if (lk_comm_size(comm) == planes[i].ranks)
            expect_filters(comm, spatial);
    }
}

/* Of layers that do not move, the first ones: backward ends above them, and nothing is fetched for it. */
static const char still[] =
    "data: {type: shapes, count: 21, test_count: 0, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 3, kernel: 3, padding: 1}]}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1, name: last}\n"
    "  - relu\n"
    "  - {type: conv, filters: 2, kernel: 3}\n"
    "  - global_avgpool\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: sgd\n"
    "phases: [{name: last, epochs: 1, layers: [last]}]\n";

/* In segments, those of lists within a layer among them; filters are fetched once all the same. */
RANKS_TEST(what_is_computed_again_is_sent_again_as_planned)
{
    static const char less[] = "train.recompute=3", least[] = "train.recompute=20";
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, less);
    expect_planned(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes, least);
    expect_planned(comm, filters, "pieces.tiles=4x3", "pieces.least_tile=0", planes, least);
    expect_planned(comm, positions, "pieces.tiles=4x3", "pieces.least_tile=0", planes, less);
    expect_planned(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes, less);
    expect_planned(comm, series, "pieces.tiles=4x3", "pieces.least_tile=1", few, least);
    expect_planned(comm, still, "pieces.tiles=4x3", "pieces.least_tile=0", planes, least);
}

RANKS_TEST(backward_ends_above_what_does_not_move)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    expect_planned(comm, still, "pieces.tiles=4x3", "pieces.least_tile=0", planes, NULL);
    expect_planned(comm, still, "pieces.tiles=4x3", "pieces.least_tile=0", planes,
                   "train.recompute=2");
    if (lk_comm_size(comm) != 4)
        return;
    const char *settings[MAX_SETTINGS] = {"pieces.tiles=4x3", "pieces.least_tile=0",
                                          "parallel.spatial=2x2"};
    ASSERT_OK(job_of(still, comm, settings, &e, &job));
    const lk_plan *p = lk_trainer_plan(lk_job_trainer(job));
    int fetches = 0;
    for (int64_t i = 0; i < p->n_transfers; i++)
        fetches += p->transfer[i].when == LK_IN_BACKWARD && p->transfer[i].kind == LK_FETCHED;
    ASSERT_EQ(fetches, 1); /* of the convolution behind the last */
    job_end(job, e);
}

/* ---- by tiles in fact ---- */

/* Of a model whose tiles are all large enough, what is before the first layer that needs whole samples runs
 * by tiles, and nothing changes before it. */
RANKS_TEST(layers_before_whole_samples_run_by_tiles)
{
    static const int64_t sides[] = {2, 4};
    if (lk_comm_size(comm) != 1)
        return;
    for (int i = 0; i < 4; i++) {
        int64_t side = sides[i / 2];
        lk_mesh_shape shape = {.data = 1, .ndim = 2, .space = {side, side}};
        const char *settings[] = {preset[i % 2].data, "pieces.tiles=4x4", "pieces.least_tile=1"};
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        lk_plan *p = NULL;
        ASSERT_OK(lk_experiment_read(preset[i % 2].file, settings, 3, &e));
        ASSERT_OK(lk_job_new(e, NULL, &job));
        for (int rank = 0; rank < side * side; rank++) {
            ASSERT_OK(
                lk_trainer_plan_of(lk_job_trainer(job), &shape, (int)(side * side), rank, &p));
            int64_t first = 0, seen = 0;
            while (p->layer[first].reach != LK_REACH_SAMPLE)
                ASSERT_EQ(p->layer[first++].domain, LK_BY_TILE);
            ASSERT_TRUE(first >= 4 && p->layer[first].domain == LK_BY_SAMPLE);
            for (int64_t k = 0; k < p->n_transfers; k++)
                if (p->transfer[k].kind == LK_CHANGED) {
                    ASSERT_TRUE(strcmp(p->transfer[k].what, p->layer[first].name) == 0);
                    seen++;
                }
            ASSERT_EQ(seen, 2); /* there and back */
            lk_plan_free(p);
        }
        job_end(job, e);
    }
}

/* ---- evaluations ---- */

/* Ten layers of values of the same size. */
static const char deep[] =
    "data: {type: glyphs, count: 32, test_count: 32, batch: 32, shards: 8, shape: [24, 24, 1]}\n"
    "model: [{type: conv, filters: 8, kernel: 3, padding: 1}, tanh,"
    " {type: residual, layers: [{type: conv, filters: 8, kernel: 3, padding: 1}, tanh,"
    " {type: conv, filters: 8, kernel: 3, padding: 1}, tanh]},"
    " {type: conv, filters: 8, kernel: 3, padding: 1}, tanh,"
    " {type: conv, filters: 8, kernel: 3, padding: 1}, tanh, flatten, {type: linear, units: 10}]\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: sgd\n"
    "train: {epochs: 1, evaluate: never}\n";

/* Evaluation keeps nothing, so it takes a small part of what a step does; and its loader has samples of its
 * own. */
RANKS_TEST(an_evaluation_takes_less_than_a_step)
{
    static const lk_mesh_shape one = {.data = 1};
    const char *name;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL, *both = NULL;
    if (lk_comm_size(comm) != 1)
        return;
    ASSERT_OK(job_of(deep, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    ASSERT_OK(lk_job_plan(job, &one, 1, 0, &plan));
    ASSERT_OK(lk_trainer_plan_of(t, &one, 1, 0, &both));
    ASSERT_OK(lk_trainer_rehearse(t, lk_job_evaluation(job, &name), both));
    ASSERT_TRUE(both->memory.values <= plan->memory.values);
    ASSERT_EQ(both->memory.samples, 2 * plan->memory.samples);
    int64_t before = lk_alloc_stats_now().live_bytes;
    job_use(job, 0);
    int64_t took = lk_alloc_stats_now().live_bytes - before - plan->memory.samples;
    if (took > plan->memory.values / 3)
        TEST_FAIL("an evaluation takes %lld bytes, a step %lld", (long long)took,
                  (long long)plan->memory.values);
    lk_plan_free(plan);
    lk_plan_free(both);
    job_end(job, e);
}

/* A step of one rank; before it, rehearse all ranks of a layout if there is one. */
static uint64_t step_after(const char *network, const char *pieces, const lk_mesh_shape *shape,
                           int ranks)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    const char *settings[MAX_SETTINGS] = {pieces, "pieces.least_tile=1"};
    ASSERT_OK(job_of(network, NULL, settings, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    for (int r = 0; r < ranks; r++) {
        lk_plan *plan = NULL;
        ASSERT_OK(lk_job_plan(job, shape, ranks, r, &plan));
        ASSERT_TRUE(r > 0 || plan->memory.values > 0);
        lk_plan_free(plan);
    }
    ASSERT_OK(lk_trainer_step(t, NULL));
    uint64_t state = state_of(t);
    job_end(job, e);
    return state;
}

/* Changes of domain, means, losses of tiles, passes of shards: a trainer that has stood in for the ranks of
 * a layout trains as one that has not. */
RANKS_TEST(a_rehearsal_leaves_no_trace)
{
    static const lk_mesh_shape plane = {.data = 2, .ndim = 2, .space = {2, 2}},
                               cube = {.data = 2, .ndim = 3, .space = {2, 1, 2}};
    static const struct {
        const char *network, *pieces;
        const lk_mesh_shape *shape;
    } nets[] = {{images, "pieces.tiles=4x3", &plane},
                {classes, "pieces.tiles=4x3", &plane},
                {series, "pieces.tiles=4x3", &plane},
                {volumes, "pieces.tiles=3x2x2", &cube}};
    if (lk_comm_size(comm) != 1)
        return;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        ASSERT_EQ(step_after(nets[i].network, nets[i].pieces, nets[i].shape, 8),
                  step_after(nets[i].network, nets[i].pieces, NULL, 0));
}
