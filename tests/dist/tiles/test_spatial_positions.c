/* Training by tiles of nets whose parameters belong to positions (local filtering, layer norm over all of a
 * sample): a rank holds, updates,
 * hashes and saves those of its tile alone, and losses, metrics, evaluation, state and files have the bits
 * of one rank, also where another layout goes on from them.
 */
#include "rank_folders.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <math.h>

/* Windows across the cuts, with strides and without, and back with the same weights; the second net is along one axis, and behind a layer
 * that needs whole samples; the third is of volumes.  8 shards; the last batch of an epoch has 5 samples. */
static const char planes[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: local_conv, filters: 3, kernel: 3, padding: 1, unit_norm: true}\n"
    "  - {type: layer_norm, axes: 3}\n"
    "  - relu\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1, algorithm: winograd}\n"
    "  - {type: residual, layers: [tanh, {type: local_conv, filters: 3, kernel: [4, 3], pad: "
    "same}]}\n"
    "  - {type: local_conv, filters: 2, kernel: [4, 3], stride: [2, 3], name: code,"
    " unit_norm: true}\n"
    "  - tanh\n"
    "  - {type: local_conv_transpose, filters: 3, kernel: [4, 3], stride: [2, 3], size: [13, 11],"
    " tie: code.weight}\n"
    "  - {type: l2pool, size: 3, stride: 2}\n"
    "  - {type: local_conv, filters: 4, kernel: 3, stride: 2, padding: 1}\n"
    "  - {type: linear, units: 5}\n"
    "  - tanh\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 2, checkpoint: {every: 1 epoch, keep: 5}}\n";

static const char rows[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - flatten\n"
    "  - {type: reshape, shape: [143, 2]}\n"
    "  - {type: local_conv, filters: 2, kernel: 7, stride: 3, padding: 2}\n"
    "  - {type: layer_norm, axes: 2}\n"
    "  - {type: local_conv, filters: 3, kernel: 3}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - {type: local_conv, filters: 2, kernel: 20, stride: 25}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: sgd, rate: 0.01, momentum: 0.9}\n"
    "train: {epochs: 3}\n";

static const char volumes[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [6, 4, 5, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 2, kernel: 3, padding: 1}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, padding: 1}\n"
    "  - {type: layer_norm, axes: 4}\n"
    "  - relu\n"
    "  - {type: local_conv, filters: 2, kernel: 2, pad: same}\n"
    "  - {type: local_conv_transpose, filters: 2, kernel: 2, pad: same, tie: local_conv2.weight}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* A scale that is one of all positions here and of some there, and a shift that another layer has, too: all
 * three need whole samples, the fourth does not. */
static const char ties[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [8, 8, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 2, kernel: 2, stride: 2}\n"
    "  - {type: layer_norm, axes: 3}\n"
    "  - {type: residual, layers: [{type: layer_norm, axes: 3, tie: layer_norm1.beta}, tanh]}\n"
    "  - {type: linear, units: 4}\n"
    "  - {type: layer_norm, axes: 3}\n"
    "  - {type: reshape, shape: [2, 4, 4, 2]}\n"
    "  - {type: layer_norm, axes: 3, tie: residual1.layer_norm1.gamma}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

struct grid {
    int ranks;
    const char *spatial;
};

static const struct grid grids_2d[] = {{1, "1x1"}, {2, "2x1"}, {2, "1x2"}, {3, "1x3"},
                                       {4, "2x2"}, {6, "3x2"}, {8, "4x2"}, {0, NULL}};
static const struct grid grids_1d[] = {{2, "2"}, {3, "3"}, {4, "4"}, {0, NULL}};
static const struct grid grids_3d[] = {
    {2, "1x1x2"}, {3, "3x1x1"}, {4, "2x2x1"}, {8, "2x2x2"}, {0, NULL}};

static void expect_same(lk_comm *comm, const char *network, const char *pieces,
                        const struct grid *grids)
{
    const char *least = "pieces.least_tile=0";
    outcome alone = train_steps(network, NULL, (const char *[MAX_SETTINGS]){pieces, least});
    ASSERT_TRUE(isfinite(alone.loss[STEPS - 1]) && alone.loss[STEPS - 1] != alone.loss[0]);
    for (int i = 0; grids[i].ranks > 0; i++) {
        char spatial[64];
        if (lk_comm_size(comm) % grids[i].ranks != 0 || lk_comm_size(comm) > 8 * grids[i].ranks)
            continue;
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i].spatial);
        outcome together = train_steps(network, comm,
                                       (const char *[MAX_SETTINGS]){pieces, least, spatial});
        const void *one = &alone, *other = &together;
        if (memcmp(one, other, sizeof alone) != 0)
            TEST_FAIL("%s of %d ranks: state %016llx, alone %016llx; losses %.17g %.17g", spatial,
                      lk_comm_size(comm), (unsigned long long)together.state,
                      (unsigned long long)alone.state, together.loss[0], alone.loss[0]);
    }
}

RANKS_TEST(planes_have_the_bits_of_one_rank)
{
    expect_same(comm, planes, "pieces.tiles=4x3", grids_2d);
}

RANKS_TEST(rows_have_the_bits_of_one_rank)
{
    expect_same(comm, rows, "pieces.tiles=5", grids_1d);
}

RANKS_TEST(volumes_have_the_bits_of_one_rank)
{
    expect_same(comm, volumes, "pieces.tiles=3x2x2", grids_3d);
}

RANKS_TEST(ties_have_the_bits_of_one_rank)
{
    expect_same(comm, ties, "pieces.tiles=4x3", grids_2d);
}

/* Norms and dot products over all parameters; and nothing is shared that ranks hold parts of. */
RANKS_TEST(updates_have_the_bits_of_one_rank)
{
    static const char *const setting[] = {"optimizer={type: sgd, rate: 0.5, clip_norm: 0.1}",
                                          "optimizer={type: lbfgs, rate: 0.1}",
                                          "parallel.update=shared"};
    const char *pieces = "pieces.tiles=4x3", *least = "pieces.least_tile=0";
    char spatial[64];
    for (int k = 0; k < 3; k++) {
        outcome alone = train_steps(planes, NULL,
                                    (const char *[MAX_SETTINGS]){pieces, least, setting[k]});
        for (int i = 0; grids_2d[i].ranks > 0; i++) {
            bool all = lk_comm_size(comm) == grids_2d[i].ranks;
            if (!all && (lk_comm_size(comm) % grids_2d[i].ranks != 0 || !test_whole()))
                continue;
            snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids_2d[i].spatial);
            outcome together = train_steps(
                planes, comm, (const char *[MAX_SETTINGS]){pieces, least, setting[k], spatial});
            ASSERT_SAME_BITS(&alone, &together, sizeof alone);
        }
    }
}

/* ---- what is held ---- */

/* A grid of the ranks of a communicator. */
static const char *grid_of(int ranks)
{
    static const char *const word[] = {"", "1x1", "2x1", "3x1", "2x2", "", "3x2", "", "4x2"};
    return ranks < 9 ? word[ranks] : "";
}

static const char wide[] =
    "data: {type: shapes, count: 16, test_count: 6, shape: [12, 8, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: local_conv, filters: 3, kernel: 3, pad: same}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, pad: same}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, pad: same}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, pad: same, tie: local_conv3.weight}\n"
    "  - {type: layer_norm, axes: 3}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {tiles: 12x2, least_tile: 4}\n"
    "train: {epochs: 1}\n";

enum { BY_POSITION = 12 * 8 * (9 * (3 + 6 + 4) + 2 * 2) }; /* elements of all ranks together */

/* Elements of slices by position, and of others, that are held. */
static void count_held(const lk_slab *slab, int64_t *local, int64_t *other)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    *local = *other = 0;
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        *(strncmp(slice.name, "linear", 6) == 0 ? other : local) += slice.count;
    }
}

/* What a rank would hold. */
static lk_plan_memory memory_of(const lk_trainer *t, int ranks, int rank)
{
    lk_mesh_shape shape;
    lk_plan *plan = NULL;
    ASSERT_OK(lk_mesh_shape_read(grid_of(ranks), &shape));
    ASSERT_OK(lk_trainer_plan_of(t, &shape, ranks, rank, &plan));
    lk_plan_memory memory = plan->memory;
    lk_plan_free(plan);
    return memory;
}

RANKS_TEST(a_rank_holds_what_belongs_to_its_positions)
{
    int n = lk_comm_size(comm);
    char spatial[64];
    lk_plan_memory planned = {0};
    if (!grid_of(n)[0])
        return;
    snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grid_of(n));
    for (int together = 0; together < 2; together++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        const char *name, *settings[MAX_SETTINGS] = {together ? spatial : NULL};
        const lk_slab *slab;
        int64_t ranks = together ? n : 1, local, other;
        ASSERT_OK(job_of(wide, together ? comm : NULL, settings, &e, &job));
        lk_trainer *t = lk_job_trainer(job);
        count_held(lk_model_params(lk_trainer_model(t)), &local, &other);
        ASSERT_EQ(local * ranks, BY_POSITION); /* tiles that all ranks have evenly */
        ASSERT_EQ(other, 12 * 8 * 2 * 2 + 2);
        for (int i = 0; (slab = lk_optimizer_slab(lk_trainer_optimizer(t), i, &name)); i++) {
            count_held(slab, &local, &other);
            ASSERT_EQ(local * ranks, BY_POSITION);
        }
        const lk_plan_memory *memory = &lk_trainer_plan(t)->memory;
        ASSERT_TRUE(memory->gradients < 4 * (local + other + 3456 / ranks) + 448);
        if (together) /* as one rank has planned it */
            ASSERT_TRUE(memory->gradients == planned.gradients &&
                        memory->parameters == planned.parameters &&
                        memory->optimizer == planned.optimizer);
        else
            planned = memory_of(t, n, lk_comm_rank(comm));
        job_end(job, e);
    }
}

/* A model that holds something else is refused, and the message says what to do. */
RANKS_TEST(a_model_that_holds_something_else_is_refused)
{
    lk_experiment *e = NULL;
    lk_job *alone = NULL;
    lk_trainer *t = NULL;
    int ranks = lk_comm_size(comm);
    ASSERT_OK(job_of(wide, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &alone));
    lk_trainer_spec spec = {.model = lk_trainer_model(lk_job_trainer(alone)),
                            .train = lk_job_loader(alone, LK_TRAIN),
                            .epochs = 1,
                            .comm = comm,
                            .pieces = {.tile = {12, 2}},
                            .parallel = {.spatial = {.n = 2, .item = {ranks, 1}}}};
    static const char options[] = "loss=softmax_cross_entropy optimizer=sgd";
    if (ranks > 1)
        ASSERT_FAILS(lk_trainer_new(&spec, options, &t), LK_ESTATE,
                     "leave lk_model_hold() to the trainer");
    else
        ASSERT_OK(lk_trainer_new(&spec, options, &t));
    lk_trainer_free(t);
    job_end(alone, e);
}

/* ---- files ---- */

/* Stops after some steps. */
static void count_step(void *arg, const lk_job *job, const lk_step_report *report)
{
    int *left = arg;
    (void)job, (void)report;
    --*left;
}

static bool is_enough(void *arg)
{
    return *(int *)arg <= 0;
}

static lk_run_result run(lk_comm *comm, const char *folder, const char *name, const char *spatial,
                         int steps)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_run_result result;
    char output[300], grid[64];
    const char *settings[] = {"pieces={tiles: 4x3, least_tile: 1}", "train.resume=true", output,
                              grid};
    snprintf(output, sizeof output, "train.output=%s/%s", folder, name);
    snprintf(grid, sizeof grid, "parallel.spatial=%s", spatial);
    ASSERT_OK(job_of(planes, comm, settings, &e, &job));
    ASSERT_OK(lk_job_run(
        job, &(lk_run_callbacks){.arg = &steps, .step = count_step, .stop = is_enough}, &result));
    job_end(job, e);
    return result;
}

static size_t file_read(const char *folder, const char *name, const char *file, char *out,
                        size_t room)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *f = fopen(path, "rb");
    ASSERT_TRUE(f);
    size_t n = fread(out, 1, room, f);
    ASSERT_TRUE(n > 0 && n < room);
    ASSERT_EQ(fclose(f), 0);
    return n;
}

static void expect_same_file(const char *folder, const char *a, const char *b, const char *file)
{
    enum { ROOM = 1 << 18 };
    static _Thread_local char one[ROOM], other[ROOM];
    size_t n = file_read(folder, a, file, one, ROOM);
    ASSERT_EQ(file_read(folder, b, file, other, ROOM), n);
    ASSERT_SAME_BITS(one, other, n);
}

/* Saved by all ranks, gone on with by fewer on another grid, then by one. */
RANKS_TEST(another_layout_goes_on_and_files_are_the_same)
{
    char folder[200];
    int n = lk_comm_size(comm);
    bool first = lk_comm_rank(comm) == 0;
    lk_comm *fewer = NULL;
    uint64_t state = 0;
    if (!grid_of(n)[0])
        return;
    folder_share(comm, folder, sizeof folder);
    if (first)
        state = run(NULL, folder, "alone", "1", 1000).state;
    lk_run_result whole = run(comm, folder, "together", grid_of(n), 1000);
    ASSERT_TRUE(whole.saved && (!first || whole.state == state));
    lk_run_result part = run(comm, folder, "parts", grid_of(n), 1);
    ASSERT_TRUE(part.stopped && part.saved);
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm) < 3 ? 0 : -1, 0, &fewer));
    if (fewer && lk_comm_size(fewer) == 3) {
        part = run(fewer, folder, "parts", "3x1", 1);
        ASSERT_TRUE(part.stopped && part.saved && part.resumed > 0);
    }
    lk_comm_close(fewer);
    ASSERT_OK(lk_barrier(comm, "parts"));
    if (first) {
        part = run(NULL, folder, "parts", "1", 1000);
        ASSERT_TRUE(part.resumed > 0 && part.steps > 0 && part.state == state);
        expect_same_file(folder, "alone", "together", "weights.safetensors");
        expect_same_file(folder, "alone", "together", "best.safetensors");
        expect_same_file(folder, "alone", "parts", "weights.safetensors");
    }
    folder_remove(comm, folder);
}
