/* make_parallel: outputs, gradients, statistics and training have the bits of the serial model. */
#include "parallel/devices/replicas.h"
#include "parallel_models.h"

#include <lockstep/extra/alloc.h>

#include <sys/wait.h>
#include <unistd.h>

static void compare(const struct pm_kind *kind, lk_model *m, lk_parallel_model *p, int64_t n,
                    int64_t shard)
{
    struct pm_batch b = pm_batch_new(kind, m, n, shard);
    struct pm_outcome want = pm_serial(m, &b), got = pm_parallel(p, &b);
    if (!pm_same(&want, &got))
        TEST_FAIL("%s, %d replicas, %lld samples in shards of %lld: other bits (y %d, dx %d)",
                  kind->name, lk_parallel_model_devices(p), (long long)n, (long long)shard,
                  lk_tensor_is_equal(want.y, got.y),
                  !want.dx || lk_tensor_is_equal(want.dx, got.dx));
    pm_outcome_free(&want);
    pm_outcome_free(&got);
    pm_batch_free(&b);
}

/* A trainer that is given a parallel model runs its replicas, in steps and in evaluation: equal bits alone would
 * not show it. */
TEST(a_trainer_runs_the_replicas)
{
    lk_model *m;
    lk_dataset *set = NULL;
    lk_loader *loader = NULL;
    lk_trainer *t = NULL;
    lk_parallel_model *p = NULL;
    lk_eval eval;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "flatten", NULL));
    ASSERT_OK(lk_model_add(m, "linear", "units=10"));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(28, 28, 1)}}));
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_OK(lk_dataset_open("glyphs", "count=8 test_count=1", LK_TRAIN, &set));
    ASSERT_OK(lk_loader_new(set, "batch=8 shards=4", 1, &loader));
    ASSERT_OK(lk_trainer_new(
        &(lk_trainer_spec){.model = m, .parallel_model = p, .train = loader, .epochs = 1},
        "loss=softmax_cross_entropy optimizer=sgd", &t));
    ASSERT_TRUE(!p->runs);
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_TRUE(p->runs && p->runs->passed && p->runs->samples == 8);
    for (int r = 0; r < 2; r++)
        ASSERT_EQ(p->runs->replica[r].passage[0].n, 4);
    p->runs->samples = 0;
    ASSERT_OK(lk_trainer_evaluate(t, loader, &eval));
    int64_t samples = 0;
    for (const lk__parallel_run *run = p->runs; run; run = run->next)
        samples += run->samples;
    ASSERT_EQ(samples, 8);
    lk_trainer_free(t);
    lk_loader_free(loader);
    lk_dataset_free(set);
    lk_parallel_model_free(p);
    lk_model_free(m);
}

/* y = model(tanh(2 x)), on one device or several, with much computed behind it before backward comes. */
static void computed_run(lk_parallel_model *p, lk_model *m, const struct pm_batch *b, lk_tensor *dx,
                         lk_accumulator *sums)
{
    lk_tape *tape;
    lk_var x, c, y, loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, b->shard));
    ASSERT_OK(lk_leaf(tape, b->x, dx, &x));
    ASSERT_OK(lk_constant(tape, b->c, &c));
    ASSERT_OK(lk_affine(x, 2, 0, &x));
    ASSERT_OK(lk_tanh(x, &x));
    lk_accumulator_begin(sums);
    const lk_pass pass = {.tape = tape, .accumulator = sums, .training = true};
    if (p)
        ASSERT_OK(lk_parallel_model_forward(p, &pass, x, &y));
    else
        ASSERT_OK(lk_model_forward(m, &pass, x, &y));
    for (int i = 0; i < 8; i++)
        ASSERT_OK(lk_tanh(y, &y));
    ASSERT_OK(lk_mul(y, c, &loss));
    ASSERT_OK(lk_sum(loss, NULL, &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    lk_tape_free(tape);
}

/* x may be a value of the program's tape, in whose memory others are written before backward. */
TEST(gradients_flow_on_to_what_x_was_computed_from)
{
    const struct pm_kind *kind = &pm_kinds[0];
    lk_model *m = pm_model(kind);
    struct pm_batch b = pm_batch_new(kind, m, 13, 3);
    lk_tensor *dx[2];
    lk_accumulator *sums[2];
    lk_parallel_model *p = NULL;
    ASSERT_OK(lk_make_parallel(m, pm_devices(3), NULL, &p));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_tensor_zeros(LK_F32, lk_tensor_shape(b.x), &dx[i]));
        ASSERT_OK(lk_accumulator_new(m, &sums[i]));
        computed_run(i == 0 ? NULL : p, m, &b, dx[i], sums[i]);
    }
    ASSERT_TRUE(lk_tensor_is_equal(dx[0], dx[1]));
    ASSERT_SAME_BITS(lk_slab_data(lk_accumulator_slab(sums[0])),
                     lk_slab_data(lk_accumulator_slab(sums[1])), lk_accumulator_bytes(m));
    for (int i = 0; i < 2; i++) {
        lk_tensor_free(dx[i]);
        lk_accumulator_free(sums[i]);
    }
    lk_parallel_model_free(p);
    pm_batch_free(&b);
    lk_model_free(m);
}

/* Its threads are the parent's: a child is told, and may free it. */
TEST(a_forked_child_is_refused)
{
    const struct pm_kind *kind = &pm_kinds[0];
    lk_model *m = pm_model(kind);
    struct pm_batch b = pm_batch_new(kind, m, 8, 2);
    lk_parallel_model *p = NULL;
    lk_tensor *y = NULL;
    int status;
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_OK(lk_parallel_model_predict(p, b.x, &y));
    lk_tensor_free(y);
    pid_t child = fork();
    ASSERT_TRUE(child >= 0);
    if (child == 0) {
        alarm(20);
        bool told = lk_parallel_model_predict(p, b.x, &y) == LK_ESTATE;
        lk_parallel_model_free(p);
        _exit(told ? 0 : 1);
    }
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ASSERT_OK(lk_parallel_model_predict(p, b.x, &y));
    lk_tensor_free(y);
    lk_parallel_model_free(p);
    pm_batch_free(&b);
    lk_model_free(m);
}

TEST(bits_are_those_of_the_serial_model)
{
    static const int64_t cut[][2] = {{16, 2}, {13, 2}, {7, 1}, {5, 5},
                                     {3, 4},  {23, 3}, {2, 1}, {1, 1}};
    const int most = test_whole() ? PM_MAX_REPLICAS : 4;
    for (int k = 0; k < PM_N_KINDS; k++)
        for (int n = 1; n <= most; n++) {
            lk_model *m = pm_model(&pm_kinds[k]);
            lk_parallel_model *p = NULL;
            ASSERT_OK(lk_make_parallel(m, pm_devices(n), NULL, &p));
            ASSERT_EQ(lk_parallel_model_is_serial(p), n < 2);
            for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
                compare(&pm_kinds[k], m, p, cut[i][0], cut[i][1]);
            for (int64_t shard = 1; shard <= 8 && test_whole(); shard++)
                for (int64_t samples = 1; samples <= 33; samples++)
                    compare(&pm_kinds[k], m, p, samples, shard);
            lk_parallel_model_free(p);
            lk_model_free(m);
        }
}

TEST(an_empty_batch_has_outputs_and_zeros)
{
    const struct pm_kind *kind = &pm_kinds[0];
    lk_model *m = pm_model(kind);
    lk_parallel_model *p = NULL;
    ASSERT_OK(lk_make_parallel(m, pm_devices(3), NULL, &p));
    compare(kind, m, p, 0, 2);
    compare(kind, m, p, 9, 2);
    lk_parallel_model_free(p);
    lk_model_free(m);
}

/* With ps_device a thread of its own puts outputs and gradients together. */
TEST(the_ps_device_gives_the_same_bits)
{
    char options[128];
    int64_t live = lk_alloc_stats_now().live_blocks;
    lk_model *m = pm_model(&pm_kinds[2]);
    lk_parallel_model *p = NULL;
    snprintf(options, sizeof options, "ps_device=%s", pm_devices(1));
    ASSERT_OK(lk_parallel_model_new(m, pm_devices(2), options, &p));
    compare(&pm_kinds[2], m, p, 13, 2);
    lk_parallel_model_free(p);
    lk_model_free(m);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
}

/* Gradients that are long enough for each replica to join a part of them. */
TEST(long_gradients_are_joined_by_all_replicas)
{
    const struct pm_kind wide = {"wide", LK_DIMS(300), 0, LK_F32,
                                 PM_LAYERS("linear", "units=301", "linear", "units=2")};
    lk_model *m = pm_model(&wide);
    lk_parallel_model *p = NULL;
    ASSERT_OK(lk_make_parallel(m, pm_devices(3), NULL, &p));
    compare(&wide, m, p, 11, 2);
    lk_parallel_model_free(p);
    lk_model_free(m);
}

/* ---- a loop of the program's own ---- */

enum { STEPS = 20, BATCH = 13 };

/* Steps of training, by `p` or the model; the last batch is smaller. */
static void train(lk_model *m, lk_parallel_model *p, const struct pm_kind *kind, const char *rule,
                  const char *options, double *last_loss)
{
    lk_tape *tape = NULL;
    lk_accumulator *sums = NULL;
    lk_optimizer *optimizer = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, 2));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_optimizer_new(lk_model_params(m), rule, options, &optimizer));
    if (p)
        ASSERT_OK(lk_parallel_model_check_optimizer(p, optimizer));
    for (int step = 0; step < STEPS; step++) {
        int64_t n = step % 5 == 4 ? 3 : BATCH;
        struct pm_batch b = pm_batch_new(kind, m, n, 2);
        lk_pass pass = {.tape = tape, .accumulator = sums, .training = true, .step = step};
        lk_var x, c, y, loss;
        lk_tape_reset(tape);
        lk_accumulator_begin(sums);
        ASSERT_OK(lk_constant(tape, b.x, &x));
        ASSERT_OK(lk_constant(tape, b.c, &c));
        ASSERT_OK(p ? lk_parallel_model_forward(p, &pass, x, &y)
                    : lk_model_forward(m, &pass, x, &y));
        ASSERT_OK(lk_mean_squared_error(y, c, LK_LOSS_DEFAULT, &loss));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
        ASSERT_OK(lk_accumulator_join_uses(sums));
        lk_optimizer_input input = {.grads = lk_accumulator_slab(sums), .at = {.step = step}};
        ASSERT_OK(lk_optimizer_step(optimizer, &input, NULL));
        ASSERT_OK(lk_model_update_running_stats(m, sums, (n + 1) / 2));
        ASSERT_OK(lk_item(loss, last_loss));
        pm_batch_free(&b);
    }
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_optimizer_free(optimizer);
}

static void assert_same_state(const lk_model *a, const lk_model *b)
{
    ASSERT_SAME_BITS(lk_slab_data(lk_model_params(a)), lk_slab_data(lk_model_params(b)),
                     lk_slab_layout_bytes(lk_model_layout(a)));
    ASSERT_SAME_BITS(lk_slab_data(lk_model_state(a)), lk_slab_data(lk_model_state(b)),
                     lk_slab_layout_bytes(lk_slab_layout_of(lk_model_state(a))));
}

TEST(twenty_steps_of_training_have_the_serial_state)
{
    static const char *const rule[][2] = {{"sgd", "rate=0.1 momentum=0.9"}, {"adam", "rate=0.01"}};
    static const int kinds[] = {0, 2, 3, 5};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int r = 0; r < 2; r++)
            for (int n = 2; n <= 3; n++) {
                const struct pm_kind *kind = &pm_kinds[kinds[k]];
                lk_model *serial = pm_model(kind), *m = pm_model(kind);
                lk_parallel_model *p = NULL;
                double want, got;
                ASSERT_OK(lk_make_parallel(m, pm_devices(n), NULL, &p));
                train(serial, NULL, kind, rule[r][0], rule[r][1], &want);
                train(m, p, kind, rule[r][0], rule[r][1], &got);
                assert_same_state(serial, m);
                ASSERT_SAME_BITS(&want, &got, sizeof want);
                lk_parallel_model_free(p);
                lk_model_free(serial);
                lk_model_free(m);
            }
}

/* ---- prediction, saving, memory ---- */

TEST(prediction_and_evaluation_have_the_serial_bits)
{
    for (int k = 0; k < PM_N_KINDS; k++)
        for (int64_t n = 0; n <= 7; n += 7) {
            lk_model *m = pm_model(&pm_kinds[k]);
            lk_parallel_model *p = NULL;
            struct pm_batch b = pm_batch_new(&pm_kinds[k], m, n, 1);
            lk_tape *tape = NULL;
            lk_tensor *got = NULL;
            const lk_tensor *want = NULL, *evaluated = NULL;
            lk_var x, y, z;
            ASSERT_OK(lk_make_parallel(m, pm_devices(3), NULL, &p));
            ASSERT_OK(lk_tape_new(&tape));
            (void)lk_tape_set_recording(tape, false);
            ASSERT_OK(lk_constant(tape, b.x, &x));
            ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y));
            ASSERT_OK(lk_parallel_model_forward(p, &(lk_pass){.tape = tape}, x, &z));
            ASSERT_OK(lk_value(y, &want));
            ASSERT_OK(lk_value(z, &evaluated));
            ASSERT_OK(lk_parallel_model_predict(p, b.x, &got));
            ASSERT_TRUE(lk_tensor_is_equal(want, evaluated));
            ASSERT_TRUE(lk_tensor_is_equal(want, got));
            lk_tensor_free(got);
            lk_tape_free(tape);
            pm_batch_free(&b);
            lk_parallel_model_free(p);
            lk_model_free(m);
        }
}

TEST(saving_goes_through_the_serial_model)
{
    const struct pm_kind *kind = &pm_kinds[2];
    char path[] = "/tmp/make_parallel_XXXXXX";
    lk_model *m = pm_model(kind), *loaded = pm_model(kind);
    lk_parallel_model *p = NULL;
    double loss;
    int file = mkstemp(path);
    ASSERT_TRUE(file >= 0 && close(file) == 0);
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    train(m, p, kind, "adam", NULL, &loss);
    ASSERT_OK(lk_weights_save(NULL, m, path, NULL, 0));
    ASSERT_OK(lk_weights_load(loaded, path));
    assert_same_state(m, loaded);
    unlink(path);
    lk_parallel_model_free(p);
    lk_model_free(m);
    lk_model_free(loaded);
}

/* Bytes that a parallel model takes for a prediction, beside the serial model. */
static int64_t bytes_with(lk_model *m, lk_tensor *x, int n)
{
    int64_t before = lk_alloc_stats_now().live_bytes;
    lk_parallel_model *p = NULL;
    lk_tensor *y = NULL;
    ASSERT_OK(lk_make_parallel(m, pm_devices(n), NULL, &p));
    ASSERT_OK(lk_parallel_model_predict(p, x, &y));
    int64_t bytes = lk_alloc_stats_now().live_bytes - before;
    lk_tensor_free(y);
    lk_parallel_model_free(p);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, before);
    return bytes;
}

TEST(there_is_one_copy_of_the_weights)
{
    const struct pm_kind wide = {"wide", LK_DIMS(1000), 0, LK_F32,
                                 PM_LAYERS("linear", "units=2000", "linear", "units=2")};
    lk_model *m = pm_model(&wide);
    lk_tensor *x = pm_drawn(LK_F32, 4, wide.sample, "x", 0);
    int64_t weights = lk_slab_layout_bytes(lk_model_layout(m));
    ASSERT_TRUE(weights > 8000000);
    for (int n = 2; n <= 4; n++)
        ASSERT_TRUE(bytes_with(m, x, n) < weights / 2);
    lk_tensor_free(x);
    lk_model_free(m);
}

/* The second forward on a tape does not disturb what the first has left, nor does a second model. */
TEST(several_passes_and_models_live_side_by_side)
{
    const struct pm_kind *kind = &pm_kinds[0];
    lk_model *m = pm_model(kind), *other = pm_model(&pm_kinds[3]);
    lk_parallel_model *p = NULL, *q = NULL;
    struct pm_batch b = pm_batch_new(kind, m, 9, 2), c = pm_batch_new(&pm_kinds[3], other, 8, 2);
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_OK(lk_make_parallel(other, pm_devices(3), NULL, &q));
    for (int parallel = 0; parallel < 2; parallel++) {
        static float want[2048];
        lk_accumulator *sums = NULL;
        lk_tape *tape = NULL;
        lk_var x, y[2], loss;
        lk_pass pass = {.training = true};
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tape_set_shard_size(tape, 2));
        ASSERT_OK(lk_accumulator_new(m, &sums));
        pass.tape = tape;
        pass.accumulator = sums;
        ASSERT_OK(lk_constant(tape, b.x, &x));
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(parallel ? lk_parallel_model_forward(p, &pass, x, &y[i])
                               : lk_model_forward(m, &pass, x, &y[i]));
            struct pm_outcome o = pm_parallel(q, &c), s = pm_serial(other, &c);
            ASSERT_TRUE(pm_same(&o, &s));
            pm_outcome_free(&o);
            pm_outcome_free(&s);
        }
        ASSERT_OK(lk_mul(y[0], y[1], &y[0]));
        ASSERT_OK(lk_sum(y[0], NULL, &loss));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, LK_RETAIN_GRAPH));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
        int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(lk_accumulator_slab(sums)));
        ASSERT_TRUE(bytes <= (int64_t)sizeof want);
        if (parallel)
            ASSERT_SAME_BITS(want, lk_slab_data(lk_accumulator_slab(sums)), bytes);
        memcpy(want, lk_slab_data(lk_accumulator_slab(sums)), (size_t)bytes);
        lk_tape_free(tape);
        lk_accumulator_free(sums);
    }
    pm_batch_free(&b);
    pm_batch_free(&c);
    lk_parallel_model_free(p);
    lk_parallel_model_free(q);
    lk_model_free(m);
    lk_model_free(other);
}

/* From its second step on a loop with fixed shapes allocates a fixed small number of blocks. */
TEST(a_step_allocates_no_more_than_the_one_before)
{
    const struct pm_kind *kind = &pm_kinds[2];
    lk_model *m = pm_model(kind);
    lk_parallel_model *p = NULL;
    lk_tape *tape = NULL;
    struct pm_batch b = pm_batch_new(kind, m, 16, 2);
    struct pm_outcome o = pm_outcome_new(m, &b);
    int64_t live = 0;
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, 2));
    for (int step = 0; step < 5; step++) {
        lk_accumulator_begin(o.sums);
        pm_pass(tape, m, p, &b, (lk_range){0, 16}, o.sums, &o);
        if (step == 1)
            live = lk_alloc_stats_now().live_bytes;
    }
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, live);
    lk_tape_free(tape);
    lk_parallel_model_free(p);
    pm_outcome_free(&o);
    pm_batch_free(&b);
    lk_model_free(m);
}

/* ---- values that the program computes ---- */
