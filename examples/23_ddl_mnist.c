/* DDL's own way to train, after its example for MNIST: each learner has its shard of the images, and
 *
 *     init         who and where am I: rank, size and device, from "-mode n:4x3"
 *     bcast        every parameter, from rank 0, once
 *     allreduce_n  all gradients in one call, their average, in each step
 *
 * are all that it knows of the others.  Started by mpirun or `lockstep run` it is one learner, otherwise
 * all of them, on threads.  What is learned depends on the number of learners, as in DDL: each draws
 * batches from its own shard.
 */
#include <lockstep/lockstep.h>

#include <getopt.h>
#include <stdlib.h>

static const char help[] =
    "usage: ddl_mnist [options]\n"
    "  --ddl OPTIONS   of DDL (default: DDL_OPTIONS in the environment, else \"-mode n:4x3\")\n"
    "  --ranks N       learners, where they are threads (default 12)\n"
    "  --steps N       batches that each of them learns from (default 1000)\n"
    "  --batch N       images of a batch of one learner (default 100)\n"
    "  --check X       compare each sum with MPI's, which it may differ from by X of it, as 0.17\n"
    "  --format NAME   of the images (default mnist: Fashion-MNIST if installed, else generated)\n"
    "  --data OPTIONS  of the format, such as path=FOLDER with MNIST's four files\n";

enum { DDL, RANKS, STEPS, BATCH, CHECK, FORMAT, DATA, HELP, OPTIONS, TENSORS = 8 };

/* The options as they were given; set before there are ranks. */
static const char *given[OPTIONS] = {NULL, "12", "1000", "100", "", "mnist"};

/* What a rank has. */
struct learner {
    lk_ddl *ddl;
    lk_ddl_location at;
    lk_loader *train, *test;
    lk_model *model;
    lk_accumulator *grads;
    lk_optimizer *adam;
    lk_tape *tape;
    lk_ddl_tensor gradient[TENSORS];
};

/* Batches of the shard of a set that is this rank's. */
static lk_status shard_open(const struct learner *l, lk_split split, lk_loader **out)
{
    char options[64];
    lk_dataset *set = NULL, *shard = NULL;
    lk_status st;
    snprintf(options, sizeof options, "batch=%s shards=1", given[BATCH]);
    LK_TRY_TO(done, lk_dataset_open(given[FORMAT], given[DATA], split, &set));
    lk_range own = lk_range_split(lk_dataset_info_of(set)->count, l->at.rank, l->at.size);
    LK_TRY_TO(done, lk_dataset_subset(set, 0, own.first, own.n, &shard));
    LK_TRY_TO(done, lk_loader_new(shard, options, l->at.rank, out));
done:
    lk_dataset_free(shard);
    lk_dataset_free(set);
    return st;
}

/* The network, first with parameters that are this rank's own, then with those of rank 0. */
static lk_status learner_make(struct learner *l, lk_comm *comm)
{
    const char *options = given[DDL] || getenv("DDL_OPTIONS") ? given[DDL] : "-mode n:4x3";
    LK_TRY(lk_ddl_init(comm, 0, options, &l->ddl));
    l->at = lk_ddl_location_of(l->ddl);
    LK_TRY(shard_open(l, LK_TRAIN, &l->train));
    LK_TRY(shard_open(l, LK_TEST, &l->test));
    const lk_tensor_type in = {LK_F32, lk_loader_field(l->train, 0).shape};
    LK_TRY(lk_model_new(&l->model));
    LK_TRY(lk_model_add(l->model, "conv", "filters=32 kernel=5 padding=2"));
    LK_TRY(lk_model_add(l->model, "relu", NULL));
    LK_TRY(lk_model_add(l->model, "maxpool", "size=2"));
    LK_TRY(lk_model_add(l->model, "conv", "filters=64 kernel=5 padding=2"));
    LK_TRY(lk_model_add(l->model, "relu", NULL));
    LK_TRY(lk_model_add(l->model, "maxpool", "size=2"));
    LK_TRY(lk_model_add(l->model, "flatten", NULL));
    LK_TRY(lk_model_add(l->model, "linear", "units=1024"));
    LK_TRY(lk_model_add(l->model, "relu", NULL));
    LK_TRY(lk_model_add(l->model, "dropout", "rate=0.5"));
    LK_TRY(lk_model_add(l->model, "linear", "units=10"));
    LK_TRY(lk_model_build(l->model, &(lk_model_spec){.in = in, .seed = 1 + l->at.rank}));
    LK_TRY(lk_model_hold(l->model, NULL));
    LK_TRY(lk_accumulator_new(l->model, &l->grads));
    LK_TRY(lk_optimizer_new(lk_model_params(l->model), "adam", "rate=0.001", &l->adam));
    LK_TRY(lk_tape_new(&l->tape));
    lk_slab *values = lk_model_params(l->model), *grads = lk_accumulator_slab(l->grads);
    for (int i = 0; i < TENSORS; i++) {
        lk_slab_slice s; /* of both, at the same place */
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(values), i, &s));
        lk_ddl_tensor t = {s.name, NULL, (char *)lk_slab_data(values) + s.offset, s.count, s.dtype};
        LK_TRY(lk_ddl_bcast(l->ddl, &t));
        t.out = (char *)lk_slab_data(grads) + s.offset;
        l->gradient[i] = t;
    }
    return LK_OK;
}

/* Batch `i` through the model and, if it is to learn, back.  Adds how many images are right, and how many
 * there are, to the score. */
static lk_status batch_pass(struct learner *l, lk_loader *set, bool learns, long i, double *score)
{
    const lk_pass pass = {l->tape, learns ? l->grads : NULL, .training = learns, .step = i};
    const int64_t epoch = i / lk_loader_batches(set), number = i % lk_loader_batches(set);
    const lk_descriptor *accuracy;
    const lk_tensor *value;
    lk_batch batch;
    lk_var x, y, label, loss;
    lk_tape_reset(l->tape);
    lk_accumulator_clear(l->grads);
    LK_TRY(lk_loader_read_batch(set, epoch, number, 0, lk_loader_batch_size(set, number), &batch));
    LK_TRY(lk_constant(l->tape, batch.x, &x));
    LK_TRY(lk_constant(l->tape, batch.y, &label));
    LK_TRY(lk_model_forward(l->model, &pass, x, &y));
    LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
    LK_TRY(lk_value(y, &value));
    LK_TRY(lk_descriptor_find(&lk_registry_metric, "accuracy", &accuracy));
    LK_TRY(((const lk_metric *)(const void *)accuracy)->add(NULL, value, batch.y, score));
    if (learns)
        LK_TRY(lk_backward(l->tape, &(lk_seed){.of = loss}, 1, 0));
    return LK_OK;
}

/* Rank 0 prints the scores of all, in training and test, and the hash of its parameters. */
static lk_status report(struct learner *l, double *score)
{
    char text[LK_HASH_TEXT];
    lk_hash hash = lk_hash_start();
    lk_ddl_tensor all = {"scores", NULL, score, 4, LK_F64};
    LK_TRY(lk_ddl_allreduce(l->ddl, &all, &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
    lk_slab_hash(lk_model_params(l->model), &hash);
    if (l->at.rank == 0)
        printf("%s steps: accuracy %.4f, of test images %.4f, parameters %s\n", given[STEPS],
               score[0] / score[1], score[2] / score[3], lk_hash_text(lk_hash_value(&hash), text));
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    const lk_ddl_allreduce_options mean = {LK_REDUCE_AVG, .check = *given[CHECK] != '\0',
                                           .tolerance = atof(given[CHECK])};
    struct learner l = {.ddl = arg};
    double score[4] = {0};
    lk_status st;
    LK_TRY_TO(done, learner_make(&l, comm));
    lk_optimizer_input input = {.grads = lk_accumulator_slab(l.grads)};
    for (long i = 0; i < atol(given[STEPS]); i++) {
        LK_TRY_TO(done, batch_pass(&l, l.train, true, i, &score[0]));
        LK_TRY_TO(done, lk_ddl_allreduce_n(l.ddl, TENSORS, l.gradient, &mean));
        input.at.step = i;
        LK_TRY_TO(done, lk_optimizer_step(l.adam, &input, NULL));
    }
    for (long i = 0; i < lk_loader_batches(l.test); i++)
        LK_TRY_TO(done, batch_pass(&l, l.test, false, i, &score[2]));
    LK_TRY_TO(done, report(&l, score));
done:
    lk_tape_free(l.tape);
    lk_optimizer_free(l.adam);
    lk_accumulator_free(l.grads);
    lk_model_free(l.model);
    lk_loader_free(l.train);
    lk_loader_free(l.test);
    lk_ddl_free(l.ddl);
    return st;
}

int main(int argc, char **argv)
{
    static const struct option all[] = {
        {"ddl", 1, NULL, DDL},       {"ranks", 1, NULL, RANKS}, {"steps", 1, NULL, STEPS},
        {"batch", 1, NULL, BATCH},   {"check", 1, NULL, CHECK}, {"data", 1, NULL, DATA},
        {"format", 1, NULL, FORMAT}, {"help", 0, NULL, HELP},   {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", all, NULL)) != -1; given[c] = optarg)
        if (c == HELP || c == '?')
            return fputs(help, c == HELP ? stdout : stderr) < 0 || c == '?' ? 2 : 0;
    if (optind < argc && fprintf(stderr, "there is nothing to do with \"%s\"\n", argv[optind]))
        return 2;
    return lk_run_main(atoi(given[RANKS]), train, NULL, stderr);
}
