/* Plans: what a step was planned to send is what it sends, call by call and byte by byte; who has what
 * covers the batch; and what is not there yet is refused. */
#include "comm/comm.h"
#include "job_memory.h"
#include "train/trainer.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

/* 8 shards; an epoch is four whole batches and one of 13 samples, which have 4 pieces. */
static const char network[] =
    "data: {type: glyphs, count: 141, test_count: 70, shape: [12, 12, 1], batch: 32, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 4, kernel: 3, stride: 2}\n"
    "  - batch_norm\n"
    "  - relu\n"
    "  - {type: residual, layers: [{type: conv, filters: 4, kernel: 3, padding: 1}, layer_norm]}\n"
    "  - flatten\n"
    "  - {type: linear, units: 10}\n"
    "  - softmax\n"
    "loss: mean_squared_error\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static const char one_hot[] = "data.one_hot=true";

static void expect_planned(lk_comm *comm, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    const lk_plan *plan = lk_trainer_plan(t);
    const lk_comm *world = lk_trainer_mesh(t)->world;
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_EQ(plan->ranks, lk_comm_size(comm));
    ASSERT_TRUE(world || lk_plan_calls(plan) == 0);
    int64_t calls = world ? world->n_calls : 0, bytes = world ? world->n_bytes : 0;
    ASSERT_OK(lk_trainer_step(t, NULL));
    if (world) {
        ASSERT_EQ(world->n_calls - calls, lk_plan_calls(plan));
        ASSERT_EQ(world->n_bytes - bytes, lk_plan_bytes(plan));
    }
    job_end(job, e);
}

RANKS_TEST(a_step_sends_what_was_planned)
{
    static const char *const settings[][MAX_SETTINGS - 1] = {
        {"parallel.update=each"},
        {"parallel.update=shared"},
        {"parallel.update=each", "dtype=f64"},
        {"parallel.overlap=yes", "parallel.bucket_mib=0.0005"},
        {"parallel.overlap=yes", "parallel.update=shared"},
        {"parallel.mode=fast"},
        {"parallel.mode=fast", "parallel.wire=bf16"},
        {"parallel.mode=fast", "parallel.wire=f16", "model.1=batch_norm"},
        {"parallel={mode: fast, wire: bf16, overlap: yes}", "model.1=batch_norm"},
        {"parallel.double_buffering=true", "model.1=batch_norm"},
        {"parallel={mode: fast, wire: f16, double_buffering: true}", "model.1=batch_norm"},
        {"model.1={type: batch_norm, statistics: batch}", "parallel.update=each"},
        {"model.1={type: batch_norm, statistics: batch}", "data.shards=11"},
        {"model=[{type: reshape, shape: [12, 12]}, {type: gru, units: 5}, flatten,"
         " {type: linear, units: 10}]"}};
    size_t n = ranks_brief() ? 2 : sizeof settings / sizeof settings[0];
    for (size_t i = 0; i < n; i++)
        expect_planned(comm, (const char *[MAX_SETTINGS]){one_hot, settings[i][0], settings[i][1],
                                                          settings[i][2]});
}

/* A plan that is made of numbers alone is that of the trainer. */
RANKS_TEST(arithmetic_gives_the_trainers_plan)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_mesh mesh;
    lk_plan *plan = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){one_hot}, &e, &job));
    const lk_plan *own = lk_trainer_plan(lk_job_trainer(job));
    ASSERT_OK(
        lk_mesh_at(&(lk_mesh_shape){.data = 0}, lk_comm_size(comm), lk_comm_rank(comm), &mesh));
    ASSERT_OK(lk_plan_new(&mesh, lk_trainer_model(lk_job_trainer(job)), &own->spec, &plan));
    ASSERT_EQ(plan->n_transfers, own->n_transfers);
    ASSERT_TRUE(memcmp(&plan->memory, &own->memory, sizeof own->memory) == 0);
    for (int64_t i = 0; i < own->n_transfers; i++) {
        ASSERT_TRUE(strcmp(plan->transfer[i].what, own->transfer[i].what) == 0);
        ASSERT_EQ(plan->transfer[i].bytes, own->transfer[i].bytes);
    }
    lk_plan_free(plan);
    job_end(job, e);
}

static const lk_layer_plan *layer_of(const lk_plan *plan, const char *name)
{
    for (int64_t i = 0; i < plan->n_layers; i++)
        if (strcmp(plan->layer[i].name, name) == 0)
            return &plan->layer[i];
    TEST_FAIL("there is no layer %s", name);
}

/* Ranks have all samples of the batch, each whole; layers say what they reach. */
RANKS_TEST(every_sample_is_planned_once)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){one_hot}, &e, &job));
    const lk_plan *plan = lk_trainer_plan(lk_job_trainer(job));
    int64_t samples = plan->samples.n, pieces = plan->shards.n;
    ASSERT_OK(lk_allreduce(comm, NULL, &samples, 1, LK_I64, LK_REDUCE_SUM, "samples"));
    ASSERT_OK(lk_allreduce(comm, NULL, &pieces, 1, LK_I64, LK_REDUCE_SUM, "pieces"));
    ASSERT_TRUE(samples == 32 && pieces == 8);
    ASSERT_EQ(plan->n_layers, 9);
    const lk_layer_plan *conv = layer_of(plan, "conv1");
    ASSERT_EQ(conv->reach, LK_REACH_WINDOW);
    ASSERT_EQ(conv->domain, LK_BY_SAMPLE);
    ASSERT_TRUE(conv->samples.first == plan->samples.first && conv->samples.n == plan->samples.n);
    ASSERT_EQ(lk_box_count(&conv->box), 5 * 5 * 4);
    ASSERT_EQ(conv->param_bytes, (9 * 4 + 4) * 4);
    ASSERT_EQ(layer_of(plan, "batch_norm1")->reach, LK_REACH_BATCH);
    ASSERT_EQ(layer_of(plan, "relu1")->reach, LK_REACH_ELEMENT);
    ASSERT_EQ(layer_of(plan, "residual1.layer_norm1")->reach, LK_REACH_POSITION);
    ASSERT_EQ(layer_of(plan, "residual1.conv1")->depth, 1);
    ASSERT_EQ(layer_of(plan, "linear1")->reach, LK_REACH_SAMPLE);
    ASSERT_EQ(layer_of(plan, "softmax1")->reach, LK_REACH_POSITION);
    int64_t shared = plan->spec.shared ? plan->spec.ranks_of_node : 1;
    lk_slab_layout *layout = lk_slab_layout_of(
        lk_model_params(lk_trainer_model(lk_job_trainer(job))));
    int64_t bytes = lk_slab_layout_bytes(layout);
    ASSERT_EQ(plan->memory.parameters, bytes / shared + (plan->spec.shared ? bytes : 0));
    ASSERT_EQ(plan->memory.optimizer, 2 * lk_slab_layout_bytes(layout) / shared);
    job_end(job, e);
}

RANKS_TEST(what_the_pieces_do_not_allow_is_refused)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_mesh mesh;
    lk_plan *plan = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){one_hot}, &e, &job));
    const lk_plan *own = lk_trainer_plan(lk_job_trainer(job));
    lk_model *model = lk_trainer_model(lk_job_trainer(job));
    ASSERT_OK(lk_mesh_at(&(lk_mesh_shape){.data = 1, .features = 4}, 4, 0, &mesh));
    ASSERT_FAILS(
        lk_plan_new(&mesh, model, &own->spec, &plan), LK_EINVAL,
        "parallel.features 4 is more than pieces.blocks, 1: the line `pieces: {blocks: 4}`");
    ASSERT_OK(lk_mesh_at(&(lk_mesh_shape){.data = 1, .ndim = 2, .space = {2, 2}}, 4, 0, &mesh));
    ASSERT_FAILS(
        lk_plan_new(&mesh, model, &own->spec, &plan), LK_EINVAL,
        "spatial 2x2 is more than the tiles of pieces, 1x1; the line `pieces: {tiles: 2x2}`");
    ASSERT_OK(lk_mesh_at(&(lk_mesh_shape){.data = 9}, 9, 0, &mesh));
    ASSERT_FAILS(lk_plan_new(&mesh, model, &own->spec, &plan), LK_EINVAL,
                 "9 ranks for a batch of 8 shards");
    job_end(job, e);
}

/* ---- memory ---- */

/* What all ranks of `ranks` are planned to hold. */
static int64_t memory_planned(const lk_experiment *e, int ranks)
{
    int64_t sum = 0;
    for (int r = 0; r < ranks; r++) {
        lk_job *job = NULL;
        lk_plan *plan = NULL;
        ASSERT_OK(lk_job_new(e, NULL, &job));
        ASSERT_OK(lk_job_plan(job, &(lk_mesh_shape){.data = 0}, ranks, r, &plan));
        sum += lk_plan_memory_sum(&plan->memory);
        lk_plan_free(plan);
        lk_job_free(job);
    }
    return sum;
}

struct memory_case {
    const lk_experiment *experiment;
    int64_t counted;
};

/* What the ranks of this process hold after some steps and an evaluation, without their sets; and send in a
 * step. */
static lk_status memory_count(lk_comm *comm, void *arg)
{
    struct memory_case *c = arg;
    lk_job *job = NULL;
    ASSERT_OK(lk_job_new(c->experiment, comm, &job));
    lk_trainer *t = lk_job_trainer(job);
    const lk_comm *world = lk_trainer_mesh(t)->world;
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_OK(lk_trainer_step(t, NULL));
    int64_t before = world ? world->n_bytes : 0;
    ASSERT_OK(lk_trainer_step(t, NULL));
    if (world)
        ASSERT_EQ(world->n_bytes - before, lk_plan_bytes(lk_trainer_plan(t)));
    job_use(job, 0);
    int64_t sets = sets_bytes(job);
    ASSERT_OK(lk_allreduce(comm, NULL, &sets, 1, LK_I64, LK_REDUCE_SUM, "sets"));
    if (lk_comm_rank(comm) == 0)
        c->counted = lk_alloc_stats_now().live_bytes - sets;
    ASSERT_OK(lk_barrier(comm, "counted"));
    lk_job_free(job);
    return LK_OK;
}

/* On 1 to 4 ranks that are threads of this process. */
RANKS_TEST(presets_take_what_was_planned)
{
    static const struct {
        const char *file, *data, *parallel;
    } preset[] = {
        {"experiments/mnist-mlp-1000.yaml",
         "data={type: glyphs, count: 64, test_count: 64, shape: [28, 28, 1], batch: 64, shards: 4}",
         "parallel={double_buffering: true}"},
        {"experiments/mnist-mlp-1000.yaml",
         "data={type: glyphs, count: 64, test_count: 64, shape: [28, 28, 1], batch: 64, shards: 4}",
         "parallel={}"},
        {"experiments/mnist-cnn.yaml",
         "data={type: glyphs, count: 64, test_count: 64, shape: [28, 28, 1], batch: 64, shards: 4}",
         "parallel={}"},
        {"experiments/cifar10-cnn.yaml",
         "data={type: glyphs, count: 64, test_count: 64, shape: "
         "[32, 32, 3], batch: 64, shards: 4}",
         "parallel={}"}};
    if (strcmp(lk_comm_transport(comm), "mpi") == 0 || lk_comm_size(comm) != 1)
        return;
    size_t n = ranks_brief() ? 1 : sizeof preset / sizeof preset[0];
    for (size_t i = 0; i < n; i++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            struct memory_case c = {NULL, 0};
            lk_experiment *e = NULL;
            const char *settings[] = {preset[i].data, preset[i].parallel};
            ASSERT_OK(lk_experiment_read(preset[i].file, settings, 2, &e));
            int64_t planned = memory_planned(e, ranks), before = lk_alloc_stats_now().live_bytes;
            c.experiment = e;
            ASSERT_OK(lk_run_local(ranks, memory_count, &c));
            double ratio = (double)planned / (double)(c.counted - before);
            if (ratio < 0.85 || ratio > 1.15)
                TEST_FAIL("%s on %d ranks: %.3f of what is counted", preset[i].file, ranks, ratio);
            lk_experiment_free(e);
        }
}
