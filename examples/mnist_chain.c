/* ChainerMN's example of model parallelism, as chain lists: a perceptron for MNIST on two ranks.
 *
 *     rank 0, MLP0:  x -> [MLP0SubA] - - - - -> h0                 y - -> [MLP0SubB] -> y -> loss
 *     rank 1, MLP1:                             h0 -> [MLP1Sub] -> y
 *
 * MLP0SubA is l1 and relu, MLP1Sub is l2, relu and l3; MLP0SubB gives what it gets.  Rank 1 has no samples,
 * only their number: an empty dataset.  mnist_messages.c is the same network with the messages that are
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
    lk_optimizer *adam;
    lk_tape *tape;
    int64_t step;
};

static lk_status mlp0_sub_b(const lk_pass *pass, void *arg, const lk_list *in, int n, lk_list *out)
{
    (void)pass;
    (void)arg;
    (void)n;
    out->at[out->n++] = in[0].at[0];
    return LK_OK;
}

static lk_status mlp0(struct part *p, const lk_component *sub_a)
{
    const lk_component sub_b = {.name = "MLP0SubB", .fn = mlp0_sub_b};
    LK_TRY(lk_chain_add(p->chain, sub_a, NULL, 0, (int[]){1}, 1));
    LK_TRY(lk_chain_add(p->chain, &sub_b, (int[]){1}, 1, NULL, 0));
    return LK_OK;
}

static lk_status mlp1(struct part *p, const lk_component *sub)
{
    LK_TRY(lk_model_add(p->model, "linear", "name=l3 units=10"));
    LK_TRY(lk_chain_add(p->chain, sub, (int[]){0}, 1, (int[]){0}, 1));
    return LK_OK;
}

/* The models leave their input open: they are built for what comes. */
static lk_status part_make(struct part *p)
{
    const bool first = lk_comm_rank(p->comm) == 0;
    const lk_tensor_type x = {LK_F32, LK_SHAPE(1, 28, 28, 1)};
    char hidden[64];
    LK_TRY(mnist_loaders(p->comm, &p->train, &p->test));
    snprintf(hidden, sizeof hidden, "name=%s units=%s", first ? "l1" : "l2", given[UNIT]);
    LK_TRY(lk_model_new(&p->model));
    LK_TRY(lk_model_add(p->model, "flatten", NULL));
    LK_TRY(lk_model_add(p->model, "linear", hidden));
    LK_TRY(lk_model_add(p->model, "relu", NULL));
    lk_component sub = {first ? "MLP0SubA" : "MLP1Sub", p->model, .spec.seed = 1};
    LK_TRY(lk_chain_new(p->comm, &p->chain));
    LK_TRY(first ? mlp0(p, &sub) : mlp1(p, &sub));
    LK_TRY(lk_chain_build(p->chain, &x, first));
    LK_TRY(lk_optimizer_new(lk_model_params(p->model), "adam", NULL, &p->adam));
    LK_TRY(lk_tape_new(&p->tape));
    return LK_OK;
}

/* All batches through the chain, and back if the network is to learn; rank 0 has the loss. */
static lk_status set_pass(struct part *p, lk_loader *set, bool learns, double *score)
{
    lk_optimizer_input input = {.grads = lk_accumulator_slab(lk_chain_accumulator(p->chain, 0))};
    lk_tape_set_recording(p->tape, learns);
    for (int64_t i = 0; i < lk_loader_batches(set); i++) {
        lk_batch batch;
        lk_var x, y, label, loss = LK_NO_VAR;
        lk_list out = {.at = &y, .room = 1};
        lk_tape_reset(p->tape);
        lk_chain_clear(p->chain);
        LK_TRY(lk_loader_read_batch(set, 0, i, 0, lk_loader_batch_size(set, i), &batch));
        if (batch.x)
            LK_TRY(lk_constant(p->tape, batch.x, &x));
        LK_TRY(lk_chain_forward(p->chain, &(lk_pass){p->tape, .training = learns}, &x, !!batch.x,
                                &out));
        if (out.n > 0) {
            LK_TRY(lk_constant(p->tape, batch.y, &label));
            LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
            LK_TRY(mnist_add(score, &batch, y, loss));
        }
        if (learns) {
            LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, out.n, 0));
            input.at.step = p->step++;
            LK_TRY(lk_optimizer_step(p->adam, &input, NULL));
        }
    }
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    struct part p = {.comm = comm};
    lk_status st;
    (void)arg;
    LK_TRY_TO(done, part_make(&p));
    for (long epoch = 1; epoch <= atol(given[EPOCH]); epoch++) {
        double score[6] = {0};
        LK_TRY_TO(done, set_pass(&p, p.train, true, &score[0]));
        LK_TRY_TO(done, set_pass(&p, p.test, false, &score[3]));
        LK_TRY_TO(done, mnist_report(comm, epoch, score));
    }
    LK_TRY_TO(done, mnist_save(lk_comm_rank(comm) == 0 ? "MLP0" : "MLP1", p.model));
done:
    lk_tape_free(p.tape);
    lk_optimizer_free(p.adam);
    lk_chain_free(p.chain);
    lk_model_free(p.model);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    return st;
}

int main(int argc, char **argv)
{
    return mnist_main(argc, argv, train);
}
