/* The CIFAR-10 network of keras_experiments under SLURM, in its two ways: the chief, rank 0, reads the data and
 * gives each rank its part of every batch, or each rank reads its own.
 *
 *     srun -N 2 -n 4 -K --mpi=pmix cifar10_slurm --distribute chief [--epochs N] [--data PATH]
 *     srun -N 2 -n 4 -K --mpi=pmix cifar10_slurm --distribute own
 *
 * Ranks have whole shards of a batch, and gradients are joined by the tree over the shards, so that the weights
 * have the same bits both ways and on any number of ranks; without a launcher there are two, threads.  There
 * are no parameter servers: every rank has the weights, and updates them alike.
 *
 * Network and optimizer are those of experiments/cifar10-cnn.yaml, which it reads; cifar10.h says what data
 * there may be.
 */
#include "cifar10.h"

enum { SHARDS = 8, SHARD = 4, BATCH = SHARDS * SHARD, PIXELS = 32 * 32 * 3, MAX_RANKS = 1024 };

enum { DISTRIBUTE, EPOCHS, DATA, EXPERIMENT, HELP, OPTIONS };

static const char help[] =
    "Train the CIFAR-10 network of keras_experiments on the ranks of a launcher, or on two.\n\n"
    "  --distribute chief|own  rank 0 reads the data of all, or each its own (default own)\n"
    "  --epochs N     how often each image is seen (default 1)\n"
    "  --data PATH    CIFAR-10's binary files or records, as cifar10_cnn (default: generated)\n";

/* The options as they were given, and whether the chief distributes; set before there are ranks. */
static const char *given[OPTIONS] = {"own", "1", [EXPERIMENT] = CIFAR10_EXPERIMENT};
static bool by_chief;

struct training {
    lk_comm *comm;
    lk_experiment *experiment;
    lk_dataset *set; /* of the ranks that read; the others have none */
    lk_loader *loader;
    lk_model *model;
    lk_accumulator *sums;
    lk_optimizer *optimizer;
    lk_tape *tape;
    long epochs;
    int64_t batches, first[MAX_RANKS + 1]; /* of an epoch; shards before those of each rank */
    int64_t samples[MAX_RANKS], parts[MAX_RANKS]; /* of each rank; their elements */
    float x[BATCH * PIXELS];                      /* samples of this rank, or of all */
    int64_t y[BATCH];
};

/* Open the data where it is read, and share out the shards of a batch. */
static lk_status data_open(struct training *t)
{
    struct cifar10 settings = {.n = 0};
    bool reads = !by_chief || lk_comm_rank(t->comm) == 0;
    LK_CHECK(by_chief || strcmp(given[DISTRIBUTE], "own") == 0, LK_EINVAL,
             "--distribute is chief or own, not %s", given[DISTRIBUTE]);
    LK_CHECK(lk_comm_size(t->comm) <= MAX_RANKS, LK_EINVAL, "at most %d ranks", MAX_RANKS);
    LK_TRY(cifar10_number("--epochs", given[EPOCHS], 1000000, &t->epochs));
    LK_TRY(lk_agree(t->comm, reads ? cifar10_data(&settings, given[DATA]) : LK_OK));
    LK_TRY(cifar10_set(&settings, "data.batch=%d", BATCH));
    LK_TRY(cifar10_set(&settings, "data.shards=%d", SHARDS));
    LK_TRY(cifar10_read(&settings, given[EXPERIMENT], &t->experiment));
    const lk_experiment *e = t->experiment;
    lk_status st = reads ? lk_dataset_open_config(&e->data, LK_TRAIN, &t->set) : LK_OK;
    LK_TRY(lk_agree(t->comm, st));
    if (reads)
        LK_TRY(lk_loader_new_options(t->set, &e->loader, e->seed, &t->loader));
    t->batches = reads ? lk_dataset_info_of(t->set)->count / BATCH : 0;
    LK_TRY(lk_bcast(t->comm, &t->batches, 1, LK_I64, 0, "number of batches"));
    lk_subtree_partition(SHARDS, lk_comm_size(t->comm), t->first);
    for (int r = 0; r < lk_comm_size(t->comm); r++) {
        t->samples[r] = (t->first[r + 1] - t->first[r]) * SHARD;
        t->parts[r] = t->samples[r] * PIXELS;
    }
    return LK_OK;
}

static lk_status model_make(struct training *t)
{
    LK_TRY(cifar10_model(t->experiment, &t->model));
    LK_TRY(lk_accumulator_new(t->model, &t->sums));
    LK_TRY(lk_optimizer_new_config(lk_model_params(t->model), &t->experiment->optimizer,
                                   &t->optimizer));
    LK_TRY(lk_tape_new(&t->tape));
    return LK_TRACE(lk_tape_set_shard_size(t->tape, SHARD));
}

/* Read the samples of this rank, or all of them for everybody; or nothing, where others do. */
static lk_status samples_read(struct training *t, int64_t step, lk_range own)
{
    lk_range read = by_chief ? (lk_range){0, BATCH} : own;
    lk_batch batch;
    if (!t->loader)
        return LK_OK;
    LK_TRY(lk_loader_read_batch(t->loader, step / t->batches, step % t->batches, read.first, read.n,
                                &batch));
    memcpy(t->x, lk_tensor_data(batch.x), (size_t)read.n * PIXELS * sizeof *t->x);
    memcpy(t->y, lk_tensor_data(batch.y), (size_t)read.n * sizeof *t->y);
    return LK_OK;
}

/* The gradients of the samples of this rank, of the mean loss of the batch. */
static lk_status pass(struct training *t, int64_t step, lk_range own)
{
    lk_var x, y, mean, loss;
    const float share = 1.0f / BATCH;
    const lk_pass how = {t->tape, t->sums, true, step, own.first, .part = own.n < BATCH};
    lk_tape_reset(t->tape);
    lk_accumulator_begin(t->sums);
    LK_TRY(lk_constant_data(t->tape, LK_F32, LK_SHAPE(own.n, 32, 32, 3), t->x, &x));
    LK_TRY(lk_constant_data(t->tape, LK_I64, LK_SHAPE(own.n), t->y, &y));
    LK_TRY(lk_constant_data(t->tape, LK_F32, LK_SCALAR, &share, &mean));
    LK_TRY(lk_model_forward(t->model, &how, x, &x));
    LK_TRY(lk_softmax_cross_entropy(x, y, LK_LOSS_SUM, &loss));
    LK_TRY(lk_mul(loss, mean, &loss));
    LK_TRY(lk_accumulator_add_loss(t->sums, loss));
    return LK_TRACE(lk_backward(t->tape, &(lk_seed){.of = loss}, 1, 0));
}

static lk_status train_step(struct training *t, int64_t step)
{
    const int64_t *first = t->first, n = lk_accumulator_bytes(t->model) / (int64_t)sizeof(float);
    const lk_range own = {first[lk_comm_rank(t->comm)] * SHARD, t->samples[lk_comm_rank(t->comm)]};
    lk_slab *sums = lk_accumulator_slab(t->sums);
    LK_TRY(lk_agree(t->comm, samples_read(t, step, own)));
    if (by_chief)
        LK_TRY(lk_scatterv(t->comm, NULL, t->x, t->parts, LK_F32, 0, "x"));
    if (by_chief)
        LK_TRY(lk_scatterv(t->comm, NULL, t->y, t->samples, LK_I64, 0, "y"));
    if (own.n > 0)
        LK_TRY(pass(t, step, own));
    LK_TRY(lk_coll_run(t->comm, &(lk_collective){LK_CALL_ALLREDUCE, "gradients", NULL, NULL,
                                                 lk_slab_data(sums), n, .dtype = LK_F32,
                                                 .pieces = SHARDS, .first = first}));
    return LK_TRACE(lk_optimizer_step(t->optimizer,
                                      &(lk_optimizer_input){.grads = sums, .at.step = step}, NULL));
}

static lk_status train(lk_comm *comm, void *arg)
{
    struct training *t = calloc(1, sizeof *t);
    lk_hash weights = lk_hash_start();
    lk_status st;
    (void)arg;
    LK_CHECK(t, LK_ENOMEM, "no memory for a batch");
    t->comm = comm;
    LK_TRY_TO(done, data_open(t));
    LK_TRY_TO(done, model_make(t));
    for (int64_t step = 0; step < t->epochs * t->batches; step++)
        LK_TRY_TO(done, train_step(t, step));
    lk_slab_hash(lk_model_params(t->model), &weights);
    if (lk_comm_rank(comm) == 0)
        printf("epoch %s: loss %.6f, weights %016llx\n", given[EPOCHS],
               lk_accumulator_loss(t->sums), (unsigned long long)lk_hash_value(&weights));
done:
    lk_tape_free(t->tape);
    lk_optimizer_free(t->optimizer);
    lk_accumulator_free(t->sums);
    lk_model_free(t->model);
    lk_loader_free(t->loader);
    lk_dataset_free(t->set);
    lk_experiment_free(t->experiment);
    free(t);
    return st;
}

int main(int argc, char **argv)
{
    static const struct option all[] = {
        {"distribute", 1, NULL, DISTRIBUTE}, {"epochs", 1, NULL, EPOCHS}, {"data", 1, NULL, DATA},
        {"experiment", 1, NULL, EXPERIMENT}, {"help", 0, NULL, HELP},     {NULL, 0, NULL, 0}};
    int end = cifar10_options(argc, argv, all, HELP, help, given);
    if (end >= 0)
        return end;
    by_chief = strcmp(given[DISTRIBUTE], "chief") == 0;
    return lk_run_main(2, train, NULL, stderr);
}
