/* ChainerMN's example of model parallelism, with messages: a perceptron for MNIST on two ranks.
 *
 *     rank 0, MLP0:  x -> l1 -> relu -> send h0                      recv y -> loss
 *     rank 1, MLP1:                     recv h0 -> l2 -> relu -> l3 -> send y
 *
 * Rank 1 has no samples, only their number: an empty dataset.  Backward answers each message the other
 * way.  11_mnist_chain.c is the same network as a chain list, with the same bits; mnist.h has the options of
 * both.  Started by mpirun it is one of two ranks, otherwise it runs on two threads.
 */
#include "mnist.h"

/* What a rank has. */
struct part {
    lk_comm *comm;
    lk_loader *train, *test;
    lk_model *model;
    lk_accumulator *grads;
    lk_optimizer *adam;
    lk_tape *tape;
    int64_t step;
};

/* MLP0 is l1, MLP1 is l2 and l3. */
static lk_status part_make(struct part *p)
{
    const bool first = lk_comm_rank(p->comm) == 0;
    LK_TRY(mnist_loaders(p->comm, &p->train, &p->test));
    lk_shape in = first ? lk_loader_field(p->train, 0).shape : LK_SHAPE(atol(given[UNIT]));
    LK_TRY(mnist_hidden(first ? "l1" : "l2", &p->model));
    if (!first)
        LK_TRY(lk_model_add(p->model, "linear", "name=l3 units=10"));
    LK_TRY(lk_model_build(p->model, &(lk_model_spec){.in = {LK_F32, in}, .seed = 1}));
    LK_TRY(lk_model_hold(p->model, NULL));
    LK_TRY(lk_accumulator_new(p->model, &p->grads));
    LK_TRY(lk_optimizer_new(lk_model_params(p->model), "adam", NULL, &p->adam));
    return LK_TRACE(lk_tape_new(&p->tape));
}

static lk_status mlp0(struct part *p, const lk_pass *pass, lk_tensor *images, lk_var *y)
{
    lk_var x, h0;
    LK_TRY(lk_constant(p->tape, images, &x));
    LK_TRY(lk_model_forward(p->model, pass, x, &h0));
    LK_TRY(lk_dist_send(p->comm, h0, 1, 0, "h0", NULL));
    return LK_TRACE(lk_dist_recv(p->tape, p->comm, 1, 0, LK_ANY_DTYPE, LK_ANY_SHAPE, "y", y));
}

static lk_status mlp1(struct part *p, const lk_pass *pass)
{
    lk_var h0, y;
    LK_TRY(lk_dist_recv(p->tape, p->comm, 0, 0, LK_ANY_DTYPE, LK_ANY_SHAPE, "h0", &h0));
    LK_TRY(lk_model_forward(p->model, pass, h0, &y));
    return LK_TRACE(lk_dist_send(p->comm, y, 0, 0, "y", NULL));
}

/* All batches through both halves, and back if the network is to learn; rank 0 has the loss. */
static lk_status set_pass(struct part *p, lk_loader *set, bool learns, double *score)
{
    const lk_pass pass = {p->tape, learns ? p->grads : NULL, .training = learns};
    lk_optimizer_input input = {.grads = lk_accumulator_slab(p->grads)};
    for (int64_t i = 0; i < lk_loader_batches(set); i++) {
        lk_batch batch;
        lk_var y, label, loss = LK_NO_VAR;
        lk_tape_reset(p->tape);
        lk_accumulator_clear(p->grads);
        LK_TRY(lk_loader_read_batch(set, 0, i, 0, lk_loader_batch_size(set, i), &batch));
        LK_TRY(batch.x ? mlp0(p, &pass, batch.x, &y) : mlp1(p, &pass));
        if (batch.x) {
            LK_TRY(lk_constant(p->tape, batch.y, &label));
            LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
            LK_TRY(mnist_add(score, &batch, y, loss));
        }
        if (learns) {
            LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
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
    lk_accumulator_free(p.grads);
    lk_model_free(p.model);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    return st;
}

int main(int argc, char **argv)
{
    return mnist_main(argc, argv, 2, train);
}
