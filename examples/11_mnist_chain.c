/* ChainerMN's example of model parallelism, as chain lists: a perceptron for MNIST on two ranks.
 *
 *     rank 0, MLP0:  x -> [MLP0SubA] - - - - -> h0                 y - -> [MLP0SubB] -> y -> loss
 *     rank 1, MLP1:                             h0 -> [MLP1Sub] -> y
 *
 * MLP0SubA is l1 and relu, MLP1Sub is l2, relu and l3; MLP0SubB gives what it gets.  Rank 1 has no samples,
 * only their number: an empty dataset.  09_mnist_messages.c is the same network with the messages that are
 * sent here, and has the same bits; mnist.h has the options of both.  Started by mpirun it is one of two
 * ranks, otherwise it runs on two threads.
 */
#include "mnist.h"

/* What a rank has. */
struct part {
    lk_comm *comm;
    lk_loader *train, *test;
    lk_model *model; /* of MLP0SubA or MLP1Sub, the first component of the rank */
    lk_chain *chain;
    lk_experiment *experiment;
    lk_job *job;
};

static lk_status mlp0(struct part *p, const lk_component *sub_a)
{
    const lk_component sub_b = {.name = "MLP0SubB", .fn = mnist_sub_b};
    LK_TRY(lk_chain_add(p->chain, sub_a, NULL, 0, (int[]){1}, 1));
    return LK_TRACE(lk_chain_add(p->chain, &sub_b, (int[]){1}, 1, NULL, 0));
}

static lk_status mlp1(struct part *p, const lk_component *sub)
{
    LK_TRY(lk_model_add(p->model, "linear", "name=l3 units=10"));
    return LK_TRACE(lk_chain_add(p->chain, sub, (int[]){0}, 1, (int[]){0}, 1));
}

/* The models leave their input open: they are built for what comes. */
static lk_status part_make(struct part *p)
{
    const bool first = lk_comm_rank(p->comm) == 0;
    const lk_tensor_type x = {LK_F32, LK_SHAPE(1, 28, 28, 1)};
    LK_TRY(mnist_loaders(p->comm, &p->train, &p->test));
    LK_TRY(mnist_hidden(first ? "l1" : "l2", &p->model));
    lk_component sub = {first ? "MLP0SubA" : "MLP1Sub", p->model, .spec.seed = 1};
    LK_TRY(lk_chain_new(p->comm, &p->chain));
    LK_TRY(first ? mlp0(p, &sub) : mlp1(p, &sub));
    return LK_TRACE(lk_chain_build(p->chain, &x, first));
}

static void epoch_print(void *arg, const lk_job *job, const lk_epoch_report *report)
{
    (void)job;
    if (lk_comm_rank(arg) == 0)
        printf("epoch %2lld  loss %.6f  test loss %.6f  accuracy %.4f\n", (long long)report->epoch,
               report->train.loss, report->test.loss, report->test.value[0]);
}

/* A run of the chain, as of any model: in the folder of --out it leaves checkpoints, metrics and a report. */
static lk_status part_train(struct part *p)
{
    char text[512], out[4096];
    lk_job_spec job = {.chain = p->chain, .set = {[LK_TRAIN] = lk_loader_dataset(p->train)}};
    job.set[LK_TEST] = lk_loader_dataset(p->test);
    snprintf(text, sizeof text,
             "data: {type: empty, samples: 1, batch: %s, shards: 1, shuffle: false}\n"
             "model: chain\n"
             "loss: softmax_cross_entropy\n"
             "metrics: [accuracy]\n"
             "optimizer: adam\n"
             "train: {epochs: %s}\n",
             given[BATCHSIZE], given[EPOCH]);
    snprintf(out, sizeof out, "train.output=%s", given[OUT] ? given[OUT] : "");
    LK_TRY(lk_experiment_parse("mnist_chain", text, (const char *[]){out}, given[OUT] ? 1 : 0,
                               &p->experiment));
    job.experiment = p->experiment;
    LK_TRY(lk_job_new_spec(&job, &p->job));
    return LK_TRACE(
        lk_job_run(p->job, &(lk_run_callbacks){.arg = p->comm, .epoch = epoch_print}, NULL));
}

static lk_status train(lk_comm *comm, void *arg)
{
    struct part p = {.comm = comm};
    lk_status st;
    (void)arg;
    LK_TRY_TO(done, part_make(&p));
    LK_TRY_TO(done, part_train(&p));
    LK_TRY_TO(done, mnist_save(lk_comm_rank(comm) == 0 ? "MLP0" : "MLP1", p.model));
done:
    lk_job_free(p.job);
    lk_experiment_free(p.experiment);
    lk_chain_free(p.chain);
    lk_model_free(p.model);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    return st;
}

int main(int argc, char **argv)
{
    return mnist_main(argc, argv, 2, train);
}
