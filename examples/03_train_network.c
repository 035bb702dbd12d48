/* Training without an experiment file: generated images, a small network, Adam.
 *
 * The same run with one thread and with two ends in the same state, bit for bit.
 */
#include <lockstep/lockstep.h>

/* What the training is made of; all of it is freed at the end. */
struct training {
    lk_dataset *train_set, *test_set;
    lk_loader *train, *test;
    lk_model *model;
    lk_trainer *trainer;
};

/* Images of ten kinds of strokes, in batches of 50 that are cut into 4 shards. */
static lk_status data_open(struct training *t)
{
    const char *const glyphs = "count=4000 test_count=500 noise=0";
    LK_TRY(lk_dataset_open("glyphs", glyphs, LK_TRAIN, &t->train_set));
    LK_TRY(lk_dataset_open("glyphs", glyphs, LK_TEST, &t->test_set));
    LK_TRY(lk_loader_new(t->train_set, "batch=50 shards=4", 1, &t->train));
    return LK_TRACE(lk_loader_new_like(t->train, t->test_set, &t->test));
}

static lk_status model_make(struct training *t)
{
    lk_field x = lk_loader_field(t->train, 0);
    LK_TRY(lk_model_new(&t->model));
    LK_TRY(lk_model_add(t->model, "conv", "filters=8 kernel=5 stride=2"));
    LK_TRY(lk_model_add(t->model, "relu", NULL));
    LK_TRY(lk_model_add(t->model, "flatten", NULL));
    LK_TRY(lk_model_add(t->model, "linear", "units=64"));
    LK_TRY(lk_model_add(t->model, "relu", NULL));
    LK_TRY(lk_model_add(t->model, "linear", "units=10"));
    LK_TRY(lk_model_build(t->model, &(lk_model_spec){.in = {x.dtype, x.shape}, .seed = 1}));
    return LK_TRACE(lk_model_hold(t->model, NULL));
}

static lk_status trainer_make(struct training *t)
{
    lk_trainer_spec spec = {.model = t->model, .train = t->train, .epochs = 5};
    return LK_TRACE(lk_trainer_new(
        &spec, "loss=softmax_cross_entropy metrics=accuracy optimizer=adam(rate=0.003)",
        &t->trainer));
}

static lk_status train(struct training *t, int threads)
{
    lk_eval score;
    char hash[LK_HASH_TEXT];
    uint64_t state;
    LK_TRY(lk_threads_set(threads));
    LK_TRY(data_open(t));
    LK_TRY(model_make(t));
    LK_TRY(trainer_make(t));
    while (lk_trainer_position(t->trainer).epoch < 5)
        LK_TRY(lk_trainer_step(t->trainer, NULL));
    LK_TRY(lk_trainer_evaluate(t->trainer, t->test, &score));
    LK_TRY(lk_trainer_hash(t->trainer, &state));
    printf("%d thread%s: %.1f %% of %lld test images are right, state %s\n", threads,
           threads > 1 ? "s" : "", 100 * score.value[0], (long long)score.samples,
           lk_hash_text(state, hash));
    return LK_OK;
}

int main(void)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct training t = {.trainer = NULL};
        lk_status st = train(&t, threads);
        lk_trainer_free(t.trainer);
        lk_model_free(t.model);
        lk_loader_free(t.train);
        lk_loader_free(t.test);
        lk_dataset_free(t.train_set);
        lk_dataset_free(t.test_set);
        if (st != LK_OK) {
            lk_error_print(stderr);
            return 1;
        }
    }
    return 0;
}
