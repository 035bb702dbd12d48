/* The CIFAR-10 network of keras_experiments on several devices of this process: its cifar10_cnn_mgpu.py.
 *
 *     cifar10_cnn [--devices N] [--scale N] [--epochs N] [--checkpoint[=FOLDER]] [--augment] [--data PATH]
 *                 [--experiment FILE]
 *
 * --help explains them.  Network and optimizer are those of experiments/cifar10-cnn.yaml, which it reads;
 * at the top of that file are the same trainings without a program.  As in the original N devices have
 * batches of 32 N images and a rate of 1e-4 N.  With the same batch, as --scale says it, the state has the
 * same bits on any number of devices, dropout and augmentation included.
 */
#include "cifar10.h"

enum { DEVICES, SCALE, EPOCHS, CHECKPOINT, AUGMENT, DATA, EXPERIMENT, HELP, OPTIONS, MOST = 64 };

static const char help[] =
    "Train the CIFAR-10 network of keras_experiments on several devices of this process.\n\n"
    "  --devices N    cores that share each batch: the first N that `lockstep topo --devices`\n"
    "                 lists, taken again where there are fewer (default 1)\n"
    "  --scale N      batches of 32 N images, a rate of 1e-4 N (default: as --devices)\n"
    "  --epochs N     how often each image is seen, in all (default 200)\n"
    "  --checkpoint[=FOLDER]  save all of the training after each epoch, and go on from there if\n"
    "                 it was begun (default: the folder cifar10_cnn.checkpoints)\n"
    "  --augment      move images by up to 3 positions, and mirror half of them\n"
    "  --data PATH    a folder with CIFAR-10's binary files, or with records, train*.tfrecord and\n"
    "                 test*.tfrecord; or a pattern, scored by itself (default: generated)\n";

/* The options as they were given. */
static const char *given[OPTIONS] = {"1", NULL, "200", [EXPERIMENT] = CIFAR10_EXPERIMENT};

struct training {
    lk_experiment *experiment;
    lk_dataset *set[LK_N_SPLITS];
    lk_loader *train, *test;
    lk_model *model;
    lk_parallel_model *parallel;
    lk_trainer *trainer;
    lk_checkpoint_dir *folder;
    lk_state_tensors *tensors;
    lk_state state; /* what is saved there */
};

/* The experiment of the options, and its data.  A shard has four images, whatever the batch. */
static lk_status data_open(struct training *t, long scale)
{
    static struct cifar10 c;
    LK_TRY(cifar10_data(&c, given[DATA]));
    LK_TRY(cifar10_set(&c, "data.batch=%ld", 32 * scale));
    LK_TRY(cifar10_set(&c, "data.shards=%ld", 8 * scale));
    LK_TRY(cifar10_set(&c, "optimizer.rate=%lde-4", scale));
    if (given[AUGMENT]) {
        LK_TRY(cifar10_set(&c, "data.crop=3"));
        LK_TRY(cifar10_set(&c, "data.flip=true"));
    }
    LK_TRY(cifar10_read(&c, given[EXPERIMENT], &t->experiment));
    const lk_experiment *e = t->experiment;
    LK_TRY(lk_dataset_open_config(&e->data, LK_TRAIN, &t->set[LK_TRAIN]));
    LK_TRY(lk_dataset_open_config(&e->data, LK_TEST, &t->set[LK_TEST]));
    LK_TRY(lk_loader_new_options(t->set[LK_TRAIN], &e->loader, e->seed, &t->train));
    return LK_TRACE(
        lk_loader_new_like(t->train, t->set[t->set[LK_TEST] ? LK_TEST : LK_TRAIN], &t->test));
}

/* The model on its devices, and what trains it. */
static lk_status trainer_make(struct training *t, int devices, long epochs)
{
    static lk_device all[MOST];
    const lk_experiment *e = t->experiment;
    int there;
    LK_TRY(lk_devices_available(all, devices, &there));
    for (int i = there; i < devices; i++)
        all[i] = all[i - there];
    LK_TRY(cifar10_model(e, &t->model));
    LK_TRY(lk_make_parallel_options(t->model, all, devices, NULL, &t->parallel));
    return LK_TRACE(lk_trainer_new_options(
        &(lk_trainer_spec){
            .model = t->model, .parallel_model = t->parallel, .train = t->train, .epochs = epochs},
        &(lk_trainer_options){.loss = e->loss, .metrics = e->metrics, .optimizer = e->optimizer},
        &t->trainer));
}

/* Go on from the folder of checkpoints if there is one, with the state that was saved. */
static lk_status folder_open(struct training *t)
{
    const char *path = *given[CHECKPOINT] ? given[CHECKPOINT] : "cifar10_cnn.checkpoints", *name;
    lk_checkpoint_dir_options options = {.keep = 3};
    lk_slab *slab;
    char prefix[64];
    uint64_t data, state;
    bool found;
    LK_TRY(lk_dataset_hash(t->set[LK_TRAIN], &data));
    LK_TRY(lk_experiment_identity(t->experiment, data, &options.identity));
    LK_TRY(lk_state_tensors_new(&t->tensors));
    LK_TRY(lk_state_tensors_add_model(t->tensors, t->model));
    for (int i = 0; (slab = lk_optimizer_slab(lk_trainer_optimizer(t->trainer), i, &name)); i++) {
        snprintf(prefix, sizeof prefix, "optimizer.%s.", name);
        LK_TRY(lk_state_tensors_add_slab(t->tensors, prefix, slab));
    }
    LK_TRY(lk_checkpoint_dir_open(NULL, path, &options, &t->folder));
    t->state = (lk_state){.tensor = t->tensors->tensor, .n_tensors = t->tensors->n};
    LK_TRY(lk_checkpoint_dir_load(t->folder, &t->state, &found));
    if (found) {
        LK_TRY(lk_trainer_seek(t->trainer, t->state.step));
        LK_TRY(lk_trainer_hash(t->trainer, &state));
        LK_CHECK(state == t->state.hash, LK_ESTATE, "%s: another state than was saved", path);
    }
    return LK_OK;
}

/* An epoch is over: say how good it was, and save. */
static lk_status epoch_end(struct training *t)
{
    const lk_position at = lk_trainer_position(t->trainer);
    lk_eval seen, score;
    char hash[LK_HASH_TEXT];
    LK_TRY(lk_trainer_train_metrics(t->trainer, &seen));
    LK_TRY(lk_trainer_evaluate(t->trainer, t->test, &score));
    LK_TRY(lk_trainer_hash(t->trainer, &t->state.hash));
    lk_hash_text(t->state.hash, hash);
    printf("epoch %3lld  loss %.6f  %s loss %.6f  accuracy %.4f  state %s\n", (long long)at.epoch,
           seen.loss, t->set[LK_TEST] ? "test" : "train", score.loss, score.value[0], hash);
    t->state.step = at.step;
    if (t->folder)
        LK_TRY(lk_checkpoint_dir_save(t->folder, &t->state));
    return LK_OK;
}

static lk_status train(struct training *t)
{
    long devices, scale, epochs;
    LK_TRY(cifar10_number("--devices", given[DEVICES], MOST, &devices));
    LK_TRY(cifar10_number("--scale", given[given[SCALE] ? SCALE : DEVICES], MOST, &scale));
    LK_TRY(cifar10_number("--epochs", given[EPOCHS], 1000000, &epochs));
    LK_TRY(data_open(t, scale));
    LK_TRY(trainer_make(t, (int)devices, epochs));
    if (given[CHECKPOINT])
        LK_TRY(folder_open(t));
    while (lk_trainer_position(t->trainer).epoch < epochs) {
        LK_TRY(lk_trainer_step(t->trainer, NULL));
        if (lk_trainer_position(t->trainer).batch == 0)
            LK_TRY(epoch_end(t));
    }
    return LK_OK;
}

int main(int argc, char **argv)
{
    static const struct option all[] = {{"devices", 1, NULL, DEVICES},
                                        {"scale", 1, NULL, SCALE},
                                        {"epochs", 1, NULL, EPOCHS},
                                        {"augment", 0, NULL, AUGMENT},
                                        {"checkpoint", 2, NULL, CHECKPOINT},
                                        {"data", 1, NULL, DATA},
                                        {"help", 0, NULL, HELP},
                                        {"experiment", 1, NULL, EXPERIMENT},
                                        {NULL, 0, NULL, 0}};
    struct training t = {.folder = NULL};
    int end = cifar10_options(argc, argv, all, HELP, help, given);
    if (end >= 0)
        return end;
    lk_status st = train(&t);
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_checkpoint_dir_close(t.folder);
    lk_state_tensors_free(t.tensors);
    lk_trainer_free(t.trainer);
    lk_parallel_model_free(t.parallel);
    lk_model_free(t.model);
    lk_loader_free(t.test);
    lk_loader_free(t.train);
    lk_dataset_free(t.set[LK_TEST]);
    lk_dataset_free(t.set[LK_TRAIN]);
    lk_experiment_free(t.experiment);
    return st == LK_OK ? 0 : 1;
}
