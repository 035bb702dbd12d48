/* A loop of its own on several ranks: ChainerMN's way to train, with no trainer.
 *
 * Rank 0 has the images.  Each rank gets its part of them, steps through its own batches, follows the mean
 * of all ranks' gradients, and evaluates its part of the test images.  When what all see of the test gets
 * no better, all stop.  Started by mpirun it is one of its ranks, otherwise it runs on 4 threads.
 */
#include <lockstep/lockstep.h>

enum { MOST_EPOCHS = 40 };

/* What a rank has. */
struct part {
    lk_comm *comm;
    lk_dataset *train_set, *test_set; /* this rank's samples */
    lk_loader *train, *test;
    lk_iterator *train_it, *test_it;
    lk_model *model;
    lk_accumulator *grads;
    lk_optimizer *adam;
    lk_multi_node_optimizer *optimizer;
    lk_tape *tape;
    lk_summary *summary;
    lk_early_stop_trigger *trigger;
};

/* This rank's samples of a set that rank 0 opens; the others do not see it. */
static lk_status part_of(lk_comm *comm, lk_split split, const char *options, lk_dataset **out)
{
    lk_dataset *all = NULL;
    lk_status st = LK_OK;
    if (lk_comm_rank(comm) == 0)
        st = lk_dataset_open("glyphs", "count=2400 test_count=301 noise=0", split, &all);
    LK_TRY_TO(done, lk_agree(comm, st));
    LK_TRY_TO(done, lk_scatter_dataset(comm, all, options, out));
done:
    lk_dataset_free(all);
    return st;
}

/* For training as many samples on each rank; for the test each sample once. */
static lk_status data_make(struct part *p)
{
    char batch[64];
    LK_TRY(part_of(p->comm, LK_TRAIN, "shuffle=true seed=1", &p->train_set));
    LK_TRY(part_of(p->comm, LK_TEST, "equal_length=false", &p->test_set));
    snprintf(batch, sizeof batch, "batch=%d", 48 / lk_comm_size(p->comm));
    LK_TRY(lk_loader_new(p->train_set, batch, 1, &p->train));
    LK_TRY(lk_loader_new_like(p->train, p->test_set, &p->test));
    LK_TRY(lk_iterator_new(NULL, p->train, NULL, &p->train_it));
    return LK_TRACE(lk_iterator_new(NULL, p->test, "repeat=false", &p->test_it));
}

/* The optimizer sends the weights of rank 0 to all at its first update. */
static lk_status model_make(struct part *p)
{
    lk_field x = lk_iterator_field(p->train_it, 0);
    LK_TRY(lk_model_new(&p->model));
    LK_TRY(lk_model_add(p->model, "conv", "filters=8 kernel=5 stride=2"));
    LK_TRY(lk_model_add(p->model, "relu", NULL));
    LK_TRY(lk_model_add(p->model, "flatten", NULL));
    LK_TRY(lk_model_add(p->model, "linear", "units=64"));
    LK_TRY(lk_model_add(p->model, "relu", NULL));
    LK_TRY(lk_model_add(p->model, "linear", "units=10"));
    LK_TRY(lk_model_build(p->model, &(lk_model_spec){.in = {x.dtype, x.shape}, .seed = 1}));
    LK_TRY(lk_model_hold(p->model, NULL));
    LK_TRY(lk_accumulator_new(p->model, &p->grads));
    LK_TRY(lk_optimizer_new(lk_model_params(p->model), "adam", "rate=0.003", &p->adam));
    return LK_TRACE(
        lk_multi_node_optimizer_new(p->adam, p->comm, "zero_fill=false", &p->optimizer));
}

/* The network of a batch, and its loss. */
static lk_status forward(struct part *p, const lk_batch *batch, bool training, lk_var *y,
                         lk_var *loss)
{
    const lk_pass pass = {p->tape, training ? p->grads : NULL, .training = training};
    lk_var x, label;
    lk_tape_reset(p->tape);
    LK_TRY(lk_constant(p->tape, batch->x, &x));
    LK_TRY(lk_constant(p->tape, batch->y, &label));
    LK_TRY(lk_model_forward(p->model, &pass, x, y));
    return LK_TRACE(
        lk_softmax_cross_entropy(*y, label, training ? LK_LOSS_MEAN : LK_LOSS_SUM, loss));
}

/* A step of all ranks: each with its own batch, all with the mean of their gradients. */
static lk_status step(struct part *p)
{
    lk_multi_node_input input = {.grads = lk_accumulator_slab(p->grads)};
    lk_batch batch;
    lk_var y, loss;
    bool more;
    LK_TRY(lk_iterator_next(p->train_it, &batch, &more));
    lk_accumulator_clear(p->grads);
    LK_TRY(forward(p, &batch, true, &y, &loss));
    LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, 1, 0));
    input.samples = batch.n;
    return LK_TRACE(lk_multi_node_optimizer_update(p->optimizer, &input, NULL));
}

/* What there is to say of a batch of this rank; the evaluator adds up those of all. */
static lk_status evaluate(void *part, const lk_batch *batch, lk_summary *summary)
{
    struct part *p = part;
    const lk_tensor *scores;
    lk_var y, loss;
    double sum;
    LK_TRY(forward(p, batch, false, &y, &loss));
    LK_TRY(lk_item(loss, &sum));
    LK_TRY(lk_value(y, &scores));
    LK_TRY(lk_summary_add(summary, "loss", sum, batch->n));
    return LK_TRACE(lk_summary_add_metric(summary, NULL, "accuracy", NULL, scores, batch->y));
}

static lk_status train(struct part *p)
{
    bool stop = false;
    double loss, accuracy = 0;
    int64_t samples = 0, epochs = 0;
    LK_TRY(data_make(p));
    LK_TRY(lk_tape_new(&p->tape));
    LK_TRY(model_make(p));
    LK_TRY(lk_summary_new(&p->summary));
    LK_TRY(lk_early_stop_trigger_new(p->comm, "monitor=loss patience=3", &p->trigger));
    while (!stop && epochs < MOST_EPOCHS) {
        LK_TRY(step(p));
        lk_position at = lk_iterator_position(p->train_it);
        epochs = at.epoch;
        if (at.batch > 0)
            continue;
        LK_TRY(lk_multi_node_evaluate(p->comm, p->test_it, evaluate, p, p->summary));
        LK_TRY(lk_summary_value(p->summary, "loss", &loss));
        LK_TRY(lk_summary_value(p->summary, "accuracy", &accuracy));
        LK_TRY(lk_summary_count(p->summary, "loss", &samples));
        LK_TRY(lk_early_stop_trigger_observe(p->trigger, &at, &loss, &stop));
    }
    if (lk_comm_rank(p->comm) == 0)
        printf("stopped early: %s\n%s of %lld test images are right\n", stop ? "yes" : "no",
               accuracy > 0.75 ? "more than 75 %" : "too few", (long long)samples);
    return LK_OK;
}

static lk_status run(lk_comm *comm, void *arg)
{
    struct part p = {.comm = comm};
    lk_status st;
    (void)arg;
    LK_TRY(lk_abort_hook_install(comm, stderr));
    st = train(&p);
    lk_early_stop_trigger_free(p.trigger);
    lk_summary_free(p.summary);
    lk_tape_free(p.tape);
    lk_multi_node_optimizer_free(p.optimizer);
    lk_optimizer_free(p.adam);
    lk_accumulator_free(p.grads);
    lk_model_free(p.model);
    lk_iterator_free(p.train_it);
    lk_iterator_free(p.test_it);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    lk_dataset_free(p.train_set);
    lk_dataset_free(p.test_set);
    return st;
}

int main(void)
{
    return lk_run_main(4, run, NULL, stderr);
}
