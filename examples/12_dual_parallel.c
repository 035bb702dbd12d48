/* ChainerMN's dual parallel: a perceptron for MNIST on an even number of ranks, cut along data and model.
 *
 *     data_axis = rank % 2, model_axis = rank / 2
 *
 *                    data_axis 0                    data_axis 1
 *     model_axis 0   rank 0: MLP0  - h0 ->  <- y -  rank 1: MLP1       half of each batch
 *     model_axis 1   rank 2: MLP0  - h0 ->  <- y -  rank 3: MLP1       the other half
 *                      |                              |
 *                      `- gradients, the sum -        `- gradients, the sum -
 *
 * Ranks of a row are one network, a chain list as in 11_mnist_chain.c; ranks of a column have the same part of it
 * and add up its gradients.  Batches are cut into shards, of which a row has a subtree, so the weights have the
 * same bits on 2, 4 or more ranks, and on one, which then has both parts.  mnist.h has the options.
 */
#include "mnist.h"

#include <inttypes.h>

enum { SHARDS = 4, COMPONENTS = 3, MOST_ROWS = 64 };

/* What a rank has. */
struct part {
    lk_comm *comm, *data, *model; /* all ranks, those of the column, those of the row */
    lk_loader *train, *test;
    lk_model *mlp0, *mlp1;
    lk_chain *chain;
    lk_optimizer *adam[COMPONENTS];
    lk_tape *tape;
    int64_t step;
};

static lk_status axes_split(struct part *p)
{
    int rank = lk_comm_rank(p->comm), size = lk_comm_size(p->comm);
    LK_CHECK((size % 2 == 0 || size == 1) && size <= 2 * MOST_ROWS, LK_EINVAL,
             "the network is in two parts: it needs an even number of ranks, or one, not %d", size);
    LK_TRY(lk_comm_split(p->comm, rank % 2, rank, &p->data));  /* data_axis */
    LK_TRY(lk_comm_split(p->comm, rank / 2, rank, &p->model)); /* model_axis */
    return LK_OK;
}

/* MLP0SubA and MLP0SubB on the first rank of a row, MLP1Sub on the last. */
static lk_status chain_make(struct part *p)
{
    int first = 0, last = lk_comm_size(p->model) - 1, rank = lk_comm_rank(p->model);
    const lk_tensor_type x = {LK_F32, LK_SHAPE(1, 28, 28, 1)};
    LK_TRY(mnist_hidden("l1", &p->mlp0));
    LK_TRY(mnist_hidden("l2", &p->mlp1));
    LK_TRY(lk_model_add(p->mlp1, "linear", "name=l3 units=10"));
    const lk_component sub_a = {"MLP0SubA", p->mlp0, .spec.seed = 1},
                       sub = {"MLP1Sub", p->mlp1, .spec.seed = 1},
                       sub_b = {.name = "MLP0SubB", .fn = mnist_sub_b};
    LK_TRY(lk_chain_new(p->model, &p->chain));
    if (rank == first)
        LK_TRY(lk_chain_add(p->chain, &sub_a, NULL, 0, &last, 1));
    if (rank == last)
        LK_TRY(lk_chain_add(p->chain, &sub, &first, 1, &first, 1));
    if (rank == first)
        LK_TRY(lk_chain_add(p->chain, &sub_b, &last, 1, NULL, 0));
    LK_TRY(lk_chain_build(p->chain, &x, rank == first));
    for (int64_t c = 0; c < lk_chain_components(p->chain); c++)
        if (lk_chain_model(p->chain, c))
            LK_TRY(lk_optimizer_new(lk_model_params(lk_chain_model(p->chain, c)), "adam", NULL,
                                    &p->adam[c]));
    return LK_OK;
}

/* The gradients of all rows, joined shard by shard, and the update. */
static lk_status part_update(struct part *p, int64_t shards, const int64_t *first)
{
    for (int64_t c = 0; c < lk_chain_components(p->chain); c++) {
        if (!p->adam[c])
            continue;
        lk_slab *sums = lk_accumulator_slab(lk_chain_accumulator(p->chain, c));
        int64_t n = lk_slab_layout_bytes(lk_slab_layout_of(sums)) / (int64_t)sizeof(float);
        LK_TRY(lk_coll_run(p->data, &(lk_collective){LK_CALL_ALLREDUCE, "gradients", NULL, NULL,
                                                     lk_slab_data(sums), n, .pieces = shards,
                                                     .first = first}));
        LK_TRY(lk_optimizer_step(p->adam[c],
                                 &(lk_optimizer_input){.grads = sums, .at.step = p->step}, NULL));
    }
    p->step++;
    return LK_OK;
}

/* A row's samples through the network, and back if it is to learn: the loss is that of the whole batch. */
static lk_status batch_pass(struct part *p, const lk_batch *batch, bool learns, double *score)
{
    lk_var x, y, label, loss = LK_NO_VAR;
    lk_list out = {&y, 0, 1};
    const lk_pass pass = {.tape = p->tape, .training = learns, .first = batch->first, .part = true};
    lk_tape_reset(p->tape);
    lk_chain_clear(p->chain);
    if (batch->x)
        LK_TRY(lk_constant(p->tape, batch->x, &x));
    LK_TRY(lk_chain_forward(p->chain, &pass, &x, batch->x != NULL, &out));
    if (out.n > 0) {
        LK_TRY(lk_constant(p->tape, batch->y, &label));
        LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_NONE, &loss));
        LK_TRY(mnist_add(score, batch, y, loss));
        LK_TRY(lk_sum(loss, LK_AXES(0), &loss));
        LK_TRY(lk_affine(loss, 1 / (double)batch->size, 0, &loss));
    }
    if (learns)
        LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
    return LK_OK;
}

/* All batches, of which each row has its shards. */
static lk_status set_pass(struct part *p, lk_loader *set, bool learns, double *score)
{
    int64_t each = (atol(given[BATCHSIZE]) - 1) / SHARDS + 1, first[MOST_ROWS + 1];
    int row = lk_comm_rank(p->data);
    LK_TRY(lk_tape_set_shard_size(p->tape, each));
    for (int64_t i = 0; i < lk_loader_batches(set); i++) {
        lk_batch batch;
        int64_t size = lk_loader_batch_size(set, i), shards = (size - 1) / each + 1;
        lk_subtree_partition(shards, lk_comm_size(p->data), first);
        int64_t from = first[row] * each, n = first[row + 1] * each - from;
        n = n < size - from ? n : size - from;
        LK_TRY(lk_loader_read_batch(set, 0, i, n > 0 ? from : 0, n > 0 ? n : 0, &batch));
        LK_TRY(batch_pass(p, &batch, learns, score));
        if (learns)
            LK_TRY(part_update(p, shards, first));
    }
    return LK_OK;
}

/* The bits of both parts; the same on all rows, for they are put over each other. */
static lk_status weights_print(struct part *p)
{
    uint64_t hash[2] = {0};
    for (int64_t c = 0; c < lk_chain_components(p->chain); c++) {
        const lk_model *model = lk_chain_model(p->chain, c);
        lk_hash h = lk_hash_start();
        if (!model)
            continue;
        lk_slab_hash(lk_model_params(model), &h);
        hash[model == p->mlp1] = lk_hash_value(&h);
    }
    LK_TRY(lk_allreduce(p->comm, NULL, hash, 2, LK_I64, LK_REDUCE_OR, "weights"));
    if (lk_comm_rank(p->comm) == 0)
        printf("weights %016" PRIx64 " %016" PRIx64 "\n", hash[0], hash[1]);
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    struct part p = {.comm = comm};
    lk_status st;
    (void)arg;
    LK_TRY_TO(done, axes_split(&p));
    LK_TRY_TO(done, mnist_loader(p.model, LK_TRAIN, &p.train));
    LK_TRY_TO(done, mnist_loader(p.model, LK_TEST, &p.test));
    LK_TRY_TO(done, chain_make(&p));
    LK_TRY_TO(done, lk_tape_new(&p.tape));
    for (long epoch = 1; epoch <= atol(given[EPOCH]); epoch++) {
        double score[6] = {0};
        LK_TRY_TO(done, set_pass(&p, p.train, true, &score[0]));
        LK_TRY_TO(done, set_pass(&p, p.test, false, &score[3]));
        LK_TRY_TO(done, mnist_report(comm, epoch, score));
    }
    LK_TRY_TO(done, weights_print(&p));
done:
    lk_tape_free(p.tape);
    for (int c = 0; c < COMPONENTS; c++)
        lk_optimizer_free(p.adam[c]);
    lk_chain_free(p.chain);
    lk_model_free(p.mlp0);
    lk_model_free(p.mlp1);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    lk_comm_close(p.data);
    lk_comm_close(p.model);
    return st;
}

int main(int argc, char **argv)
{
    return mnist_main(argc, argv, 4, train);
}
