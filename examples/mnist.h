/* What 09_mnist_messages.c, 11_mnist_chain.c and 12_dual_parallel.c have in common, which has nothing to do with how the
 * network is cut: the options of ChainerMN's examples, their data, and the scores that they print.
 *
 *     [--unit 1000] [--epoch 20] [--batchsize 100] [--communicator hierarchical]
 *     [--data FOLDER] [--out FOLDER]
 *
 * The folder of --data has MNIST's four files; without it, images are generated.  To that of --out each
 * rank writes its weights; the chain list also leaves what a job does.  --communicator says how the ranks join numbers that both need, by any name
 * that `lockstep list collectives` has for allreduce.
 */
#ifndef EXAMPLES_MNIST_H
#define EXAMPLES_MNIST_H

#include <lockstep/lockstep.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { UNIT, EPOCH, BATCHSIZE, COMMUNICATOR, DATA, OUT, OPTIONS };

/* The options as they were given; set before there are ranks. */
static const char *given[OPTIONS] = {"1000", "20", "100", "hierarchical"};

/* Read the options, and be a rank: that of mpirun, or one of so many on threads. */
static inline int mnist_main(int argc, char **argv, int ranks, lk_rank_fn *train)
{
    static const struct option all[] = {
        {"unit", 1, NULL, UNIT}, {"epoch", 1, NULL, EPOCH}, {"batchsize", 1, NULL, BATCHSIZE},
        {"data", 1, NULL, DATA}, {"out", 1, NULL, OUT},     {"communicator", 1, NULL, COMMUNICATOR},
        {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", all, NULL)) != -1; given[c] = optarg)
        if (c == '?')
            return 2;
    if (optind < argc && fprintf(stderr, "there is nothing to do with \"%s\"\n", argv[optind]))
        return 2;
    if (given[OUT] && mkdir(given[OUT], 0777) != 0 && errno != EEXIST) {
        perror(given[OUT]);
        return 2;
    }
    return lk_run_main(ranks, train, NULL, stderr);
}

/* Batches of a set: rank 0 has its samples, another knows how many there are. */
static inline lk_status mnist_loader(lk_comm *comm, lk_split split, lk_loader **out)
{
    const char *options = "count=4000 test_count=500 noise=0";
    char text[4096];
    lk_dataset *set = NULL, *empty = NULL;
    lk_status st;
    if (given[DATA]) {
        snprintf(text, sizeof text, "path=\"%s\"", given[DATA]);
        options = text;
    }
    LK_TRY_TO(done, lk_dataset_open(given[DATA] ? "mnist" : "glyphs", options, split, &set));
    LK_TRY_TO(done, lk_dataset_new_empty_like(set, &empty));
    snprintf(text, sizeof text, "batch=%s shards=1 shuffle=false", given[BATCHSIZE]);
    LK_TRY_TO(done, lk_loader_new(lk_comm_rank(comm) == 0 ? set : empty, text, 1, out));
done:
    lk_dataset_free(set);
    lk_dataset_free(empty);
    return st;
}

/* A hidden layer of --unit units, which the models begin with. */
static inline lk_status mnist_hidden(const char *name, lk_model **out)
{
    char hidden[64];
    snprintf(hidden, sizeof hidden, "name=%s units=%s", name, given[UNIT]);
    LK_TRY(lk_model_new(out));
    LK_TRY(lk_model_add(*out, "flatten", NULL));
    LK_TRY(lk_model_add(*out, "linear", hidden));
    return LK_TRACE(lk_model_add(*out, "relu", NULL));
}

/* MLP0SubB: what it gets. */
static inline lk_status mnist_sub_b(const lk_pass *pass, void *arg, const lk_list *in, int n,
                                    lk_list *out)
{
    (void)pass;
    (void)arg;
    (void)n;
    out->at[out->n++] = in[0].at[0];
    return LK_OK;
}

/* Add up numbers of all ranks, the way that --communicator names. */
static inline lk_status mnist_join(lk_comm *comm, double *x, int64_t n)
{
    const char *how = given[COMMUNICATOR];
    return LK_TRACE(lk_coll_run(
        comm, &(lk_collective){LK_CALL_ALLREDUCE, "scores", how, NULL, x, n, .dtype = LK_F64}));
}

/* Those of both sets, for two ranks and no other number of them. */
static inline lk_status mnist_loaders(lk_comm *comm, lk_loader **train, lk_loader **test)
{
    LK_CHECK(lk_comm_size(comm) == 2, LK_EINVAL,
             "the network is in two parts: it needs 2 ranks (mpirun -n 2), not %d",
             lk_comm_size(comm));
    LK_CHECK(atol(given[EPOCH]) > 0 && !given[EPOCH][strspn(given[EPOCH], "0123456789")], LK_EINVAL,
             "--epoch %s is no number of epochs", given[EPOCH]);
    LK_TRY(mnist_loader(comm, LK_TRAIN, train));
    LK_TRY(mnist_loader(comm, LK_TEST, test));
    double batches = (double)lk_loader_batches(*train), both = batches;
    LK_TRY(mnist_join(comm, &both, 1));
    LK_CHECK(both == 2 * batches, LK_EINVAL,
             "the ranks have other numbers of samples, or --communicator %s adds nothing up",
             given[COMMUNICATOR]);
    return LK_OK;
}

/* Add a batch to the scores: its losses, or their mean, which samples are right, and how many there are. */
static inline lk_status mnist_add(double *score, const lk_batch *batch, lk_var y, lk_var loss)
{
    const lk_descriptor *accuracy;
    const lk_tensor *value, *losses;
    LK_TRY(lk_value(loss, &losses));
    LK_TRY(lk_value(y, &value));
    LK_TRY(lk_descriptor_find(&lk_registry_metric, "accuracy", &accuracy));
    LK_TRY(((const lk_metric *)(const void *)accuracy)->add(NULL, value, batch->y, &score[1]));
    int64_t n = lk_tensor_count(losses);
    for (int64_t i = 0; i < n; i++)
        score[0] += (double)((const float *)lk_tensor_data(losses))[i] * (double)(batch->n / n);
    return LK_OK;
}

/* The scores of training and test of all ranks, of which some have none: rank 0 prints them. */
static inline lk_status mnist_report(lk_comm *comm, long epoch, double *score)
{
    LK_TRY(mnist_join(comm, score, 6));
    if (lk_comm_rank(comm) == 0)
        printf("epoch %2ld  loss %.6f  test loss %.6f  accuracy %.4f\n", epoch, score[0] / score[2],
               score[3] / score[5], score[4] / score[5]);
    return LK_OK;
}

/* Write the weights of this rank's part. */
static inline lk_status mnist_save(const char *name, const lk_model *model)
{
    char path[4096];
    if (!given[OUT])
        return LK_OK;
    snprintf(path, sizeof path, "%s/%s.safetensors", given[OUT], name);
    return LK_TRACE(lk_weights_save(NULL, model, path, NULL, 0));
}

#endif /* EXAMPLES_MNIST_H */
