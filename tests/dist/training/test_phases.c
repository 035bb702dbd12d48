/* Phases of a training, and frozen layers: on every layout to the bits of one rank, and to those of trainers
 * that a program makes itself, one after the other. */
#include "trainers.h"

static const char network[] =
    "data: {type: shapes, count: 30, test_count: 8, shape: [8, 9, 2], batch: 8, shards: 8}\n"
    "model: [{type: conv, filters: 3, kernel: 3, padding: 1}, batch_norm, tanh,\n"
    "        {type: dropout, rate: 0.2}, flatten, {type: linear, units: 6}, relu,\n"
    "        {type: linear, units: 2}]\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adamw, rate: 0.01, clip_norm: 1}\n"
    "phases:\n"
    "  - {name: last, epochs: 1, layers: [linear2], optimizer: {type: sgd, momentum: 0.9, decay: "
    "0.1}}\n"
    "  - {name: top, epochs: 1, layers: [linear1, linear2], optimizer: {type: lbfgs, rate: 0.1}}\n"
    "  - {name: all, epochs: 2, optimizer: {type: adam, rate: 0.02, schedule: cosine}}\n"
    "pieces: {tiles: 2x2, least_tile: 1}\n";

static uint64_t run_state(lk_comm *comm, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_run_result end;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_TRUE(strcmp(lk_job_phase(job)->name, "last") == 0);
    ASSERT_OK(lk_job_run(job, NULL, &end));
    ASSERT_TRUE(strcmp(lk_job_phase(job)->name, "all") == 0);
    ASSERT_EQ(end.steps, 16);
    job_end(job, e);
    return end.state;
}

RANKS_TEST(phases_have_the_bits_of_one_rank)
{
    uint64_t alone = run_state(NULL, (const char *[MAX_SETTINGS]){NULL});
    static const char *const layout[] = {"parallel.update=auto", "parallel.update=shared",
                                         "parallel.overlap=yes", "parallel.spatial=2x1"};
    for (int i = 0; i < 4; i++)
        if (i < 3 || lk_comm_size(comm) % 2 == 0)
            ASSERT_EQ(run_state(comm, (const char *[MAX_SETTINGS]){layout[i]}), alone);
}

/* The model of an experiment, of its own. */
static lk_model *model_like(const lk_experiment *e, const lk_loader *loader)
{
    lk_model *model = NULL;
    lk_field x = lk_loader_field(loader, lk_dataset_find(lk_loader_dataset(loader), "x"));
    ASSERT_OK(lk_model_new(&model));
    for (int64_t i = 0; i < e->model.n; i++)
        ASSERT_OK(lk_model_add_config(model, &e->model.item[i]));
    lk_model_spec spec = {.in = {x.dtype, x.shape}, .dtype = e->dtype, .seed = e->seed};
    ASSERT_OK(lk_model_build(model, &spec));
    return model;
}

/* The run of the file by hand: three trainers, one after the other, on one model. */
RANKS_TEST(phases_are_trainers_one_after_the_other)
{
    static const char *const options[] = {
        "loss=softmax_cross_entropy optimizer=sgd(momentum=0.9 decay=0.1) layers=linear2",
        "loss=softmax_cross_entropy optimizer=lbfgs(rate=0.1) layers=linear1,linear2",
        "loss=softmax_cross_entropy optimizer=adam(rate=0.02 schedule=cosine)"};
    const int64_t epochs[] = {1, 1, 2};
    const double rates[] = {0.01, 0.1, 0.02};
    if (lk_comm_size(comm) > 1)
        return;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    uint64_t state = 0;
    ASSERT_OK(job_of(network, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    lk_model *model = model_like(e, lk_job_loader(job, LK_TRAIN));
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        lk_trainer *t = NULL;
        lk_trainer_spec spec = {.model = model,
                                .train = lk_job_loader(job, LK_TRAIN),
                                .epochs = epochs[i],
                                .first = first,
                                .pieces = e->pieces.cut,
                                .parallel = {.update = LK_UPDATE_EACH}};
        ASSERT_OK(lk_trainer_new(&spec, options[i], &t));
        ASSERT_EQ(lk_trainer_position(t).step, first);
        ASSERT_FAILS(lk_trainer_seek(t, first - 1), LK_EINVAL, "of a training that begins");
        for (int64_t k = 0; k < 4 * epochs[i]; k++) {
            lk_step_report did;
            ASSERT_OK(lk_trainer_step(t, &did));
            ASSERT_TRUE(k > 0 || did.rate == rates[i]); /* a schedule counts from there */
        }
        first += 4 * epochs[i];
        ASSERT_OK(lk_trainer_hash(t, &state));
        lk_trainer_free(t);
    }
    ASSERT_EQ(run_state(NULL, (const char *[MAX_SETTINGS]){NULL}), state);
    lk_model_free(model);
    job_end(job, e);
}

/* The bytes of a slice of a slab, and whether it is of a layer. */
static const char *slice_of(const lk_slab *slab, int64_t i, const char *layer, int64_t *bytes,
                            bool *is_of)
{
    lk_slab_slice slice;
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
    *bytes = slice.bytes;
    *is_of = strncmp(slice.name, layer, strlen(layer)) == 0;
    return (const char *)lk_slab_data(slab) + slice.offset;
}

/* Of all layers but one, parameters and running statistics stay to the bit. */
RANKS_TEST(frozen_layers_stay)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    lk_model *model = lk_trainer_model(lk_job_trainer(job));
    const lk_slab *slab[] = {lk_model_params(model), lk_model_state(model)};
    for (int s = 0; s < 2; s++) {
        lk_slab *before = NULL;
        ASSERT_OK(lk_slab_new_like(slab[s], &before));
        memcpy(lk_slab_data(before), lk_slab_data(slab[s]),
               (size_t)lk_slab_layout_bytes(lk_slab_layout_of(slab[s])));
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
        ASSERT_TRUE(lk_slab_layout_slices(lk_slab_layout_of(slab[s])) > 0);
        for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab[s])); i++) {
            int64_t bytes;
            bool moves;
            const char *was = slice_of(before, i, "linear2", &bytes, &moves);
            const char *is = slice_of(slab[s], i, "linear2", &bytes, &moves);
            ASSERT_EQ(memcmp(was, is, (size_t)bytes) != 0, moves);
        }
        lk_slab_free(before);
    }
    job_end(job, e);
}

/* What runs for no loss that counts stays, whatever the decay: layers that decode, or that come behind. */
RANKS_TEST(layers_that_do_not_run_stay)
{
    static const char *const settings[][MAX_SETTINGS] = {
        {"model.0={type: autoencoder, name: a, encode: [{type: conv, filters: 2, kernel: 3}], "
         "decode: "
         "[{type: conv_transpose, filters: 2, kernel: 3}]}",
         "phases=[{name: one, epochs: 1, losses: [loss], optimizer: {type: sgd, decay: 0.1}}]"},
        {"model.0={type: autoencoder, name: a, encode: [{type: conv, filters: 2, kernel: 3}], "
         "decode: "
         "[{type: conv_transpose, filters: 2, kernel: 3}]}",
         "phases=[{name: one, epochs: 1, losses: [a], optimizer: {type: sgd, decay: 0.1}}]"}};
    for (int k = 0; k < 2; k++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        ASSERT_OK(job_of(network, comm, settings[k], &e, &job));
        lk_model *model = lk_trainer_model(lk_job_trainer(job));
        lk_slab *params = lk_model_params(model), *before = NULL;
        ASSERT_OK(lk_slab_new_like(params, &before));
        memcpy(lk_slab_data(before), lk_slab_data(params),
               (size_t)lk_slab_layout_bytes(lk_slab_layout_of(params)));
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
        for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(params)); i++) {
            int64_t bytes;
            bool is_decode, is_within;
            const char *was = slice_of(before, i, "a.decode", &bytes, &is_decode);
            const char *is = slice_of(params, i, "a.", &bytes, &is_within);
            bool moves = k == 0 ? !is_decode : is_within;
            ASSERT_EQ(memcmp(was, is, (size_t)bytes) != 0, moves);
        }
        lk_slab_free(before);
        job_end(job, e);
    }
}

/* ---- against a model without the frozen layer ---- */

enum { HIDDEN = 3, STEPS_ALONE = 7 };

/* What the frozen layer makes of the samples becomes the data of the other model. */
static void features_take(small_trainer *from, float out[SMALL_SAMPLES][HIDDEN])
{
    lk_tape *tape = NULL;
    lk_model *layer = NULL;
    lk_var x, y;
    const lk_tensor *value = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_model_new(&layer));
    ASSERT_OK(lk_model_add(layer, "linear", "units=3"));
    ASSERT_OK(lk_model_build(layer, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}}));
    ASSERT_OK(lk_model_hold(layer, NULL));
    ASSERT_OK(lk_constant(tape, from->tensor[0], &x));
    ASSERT_OK(lk_model_forward(layer, &(lk_pass){.tape = tape}, x, &y));
    ASSERT_OK(lk_value(y, &value));
    memcpy(out, lk_tensor_data(value), sizeof(float) * SMALL_SAMPLES * HIDDEN);
    lk_tape_free(tape);
    lk_model_free(layer);
}

/* Train the second of two layers, the first being frozen; or alone, on what the first makes. */
static void second_train(lk_comm *comm, bool alone, float out[HIDDEN * 2 + 2])
{
    small_trainer s;
    memset(&s, 0, sizeof s);
    small_begin(&s, comm);
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(alone ? HIDDEN : SMALL_FEATURES)}};
    if (alone) {
        float made[SMALL_SAMPLES][HIDDEN];
        lk_dataset_info info = {
            .name = "t", .classes = 2, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
        features_take(&s, made);
        lk_tensor *tensor[2] = {NULL, s.tensor[1]};
        ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(SMALL_SAMPLES, HIDDEN), &tensor[0]));
        void *data = NULL;
        ASSERT_OK(lk_tensor_writable_data(tensor[0], &data));
        memcpy(data, made, sizeof made);
        lk_loader_free(s.loader);
        lk_dataset_free(s.set);
        ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &s.set));
        ASSERT_OK(lk_loader_new_options(
            s.set, &(lk_loader_options){.batch = 8, .shards = 8, .scale = 1}, 1, &s.loader));
        s.spec.train = s.loader;
        lk_tensor_free(tensor[0]);
    } else {
        ASSERT_OK(lk_model_add(s.model, "linear", "units=3"));
    }
    lk_config second;
    ASSERT_OK(lk_config_parse(&lk_registry_layer, "linear", "units=2", s.arena, &second));
    second.name = "linear2";
    ASSERT_OK(lk_model_add_config(s.model, &second));
    ASSERT_OK(lk_model_build(s.model, &spec));
    ASSERT_OK(lk_trainer_new(&s.spec,
                             alone ? "loss=softmax_cross_entropy optimizer=adam(decay=0.1)"
                                   : "loss=softmax_cross_entropy optimizer=adam(decay=0.1) "
                                     "layers=linear2",
                             &s.trainer));
    for (int i = 0; i < STEPS_ALONE; i++)
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    int64_t n = 0;
    const lk_slab *params = lk_model_params(s.model);
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(params)); i++) {
        int64_t bytes;
        bool is_second;
        const char *data = slice_of(params, i, "linear2", &bytes, &is_second);
        if (is_second) {
            memcpy((char *)out + n, data, (size_t)bytes);
            n += bytes;
        }
    }
    ASSERT_EQ(n, (int64_t)sizeof(float) * (HIDDEN * 2 + 2));
    small_free(&s);
}

RANKS_TEST(a_layer_learns_as_if_the_frozen_one_were_data)
{
    float behind[HIDDEN * 2 + 2], alone[HIDDEN * 2 + 2];
    second_train(comm, false, behind);
    second_train(comm, true, alone);
    ASSERT_EQ(memcmp(behind, alone, sizeof behind), 0);
}

/* ---- what is refused ---- */

static void expect_refused(lk_comm *comm, const char *setting, const char *why)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_FAILS(job_of(network, comm, (const char *[MAX_SETTINGS]){setting}, &e, &job), LK_EINVAL,
                 why);
    lk_experiment_free(e);
}

RANKS_TEST(wrong_phases_are_refused)
{
    expect_refused(comm, "phases.0.layers=[linear3]",
                   "phase last: no layer is called \"linear3\"; did you mean \"linear");
    expect_refused(comm, "phases.2.layers=[conv2]", "phase all: no layer is called \"conv2\"");
    expect_refused(comm, "phases.1.losses=[los]",
                   "phase top: losses: \"los\" is none of this model");
    expect_refused(comm, "phases.0.layers=[tanh1]",
                   "phase last: none of the layers that are to move has parameters and runs");
}

/* Layers are frozen for one trainer at a time, whose end brings back what the program had said. */
RANKS_TEST(trainers_freeze_one_at_a_time)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_trainer *other = NULL;
    if (lk_comm_size(comm) > 1)
        return;
    ASSERT_OK(job_of(network, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    lk_trainer_spec spec = {.model = lk_trainer_model(lk_job_trainer(job)),
                            .train = lk_job_loader(job, LK_TRAIN),
                            .epochs = 1,
                            .pieces = e->pieces.cut,
                            .parallel = {.update = LK_UPDATE_EACH}};
    ASSERT_FAILS(
        lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=sgd layers=linear1", &other),
        LK_ESTATE, "layers are frozen for one at a time");
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_model_layout(spec.model)); i++) {
        int64_t bytes;
        bool moves;
        (void)slice_of(lk_model_params(spec.model), i, "linear2", &bytes, &moves);
        ASSERT_EQ(lk_model_param_moves(spec.model, i), moves);
    }
    job_end(job, e);
}

static void phase_change(void *arg, const lk_job *job, const lk_step_report *report)
{
    (void)job;
    (void)report;
    ASSERT_FAILS(lk_job_set_phase(arg, 1), LK_ESTATE, "goes through its phases by itself");
}

RANKS_TEST(a_job_that_runs_goes_through_its_phases)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){"train.steps=2"}, &e, &job));
    ASSERT_OK(lk_job_run(job, &(lk_run_callbacks){.arg = job, .step = phase_change}, NULL));
    job_end(job, e);
}

/* A rank that moves other layers is found. */
RANKS_TEST(ranks_move_the_same_layers)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    if (lk_comm_size(comm) == 1)
        return;
    bool last = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    const char *setting = last ? "phases.0.layers=[linear1]" : "phases.0.layers=[linear2]";
    ASSERT_FAILS(job_of(network, comm, (const char *[MAX_SETTINGS]){setting}, &e, &job), LK_ESTATE,
                 "another experiment");
    lk_experiment_free(e);
}
