/* A perceptron on two ranks as a chain list: rank 0 has the first layer and the loss, rank 1 the rest.
 *
 *     rank 0:  x -> [MLP0SubA] - - -.              .- - -> [MLP0SubB] -> y -> loss
 *     rank 1:                        `-> [MLP1Sub] -'
 *
 * These are the components of ChainerMN's example.  One rank alone has all three, and what goes from one to
 * the next waits in its queue; what it learns has the same bits.  The models leave their input open: they
 * are built for what comes.
 *
 * Started by mpirun it is one of its ranks (from the third on they have nothing to do), otherwise it
 * runs on 2 threads.
 */
#include <lockstep/lockstep.h>

enum { POINTS = 256, STEPS = 300, COMPONENTS = 3 };

/* What a rank has: of the two models those that are its own. */
struct part {
    lk_comm *comm;
    lk_tape *tape;
    lk_chain *chain;
    lk_model *front, *back;
    lk_optimizer *optimizer[COMPONENTS]; /* NULL: of a function */
    float x[POINTS * 2];
    int64_t label[POINTS];
};

/* Points of a square, and which of three rings around its middle each is in. */
static lk_status draw(struct part *p)
{
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, "points", "chain list"), (lk_rng_at){0}, POINTS * 2,
                              p->x));
    for (int i = 0; i < POINTS; i++) {
        float a = p->x[2 * i] - 0.5f, b = p->x[2 * i + 1] - 0.5f, r = a * a + b * b;
        p->label[i] = r < 0.07f ? 0 : r < 0.17f ? 1 : 2;
    }
    return LK_OK;
}

/* What comes from the other rank is the output. */
static lk_status sub_b(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    (void)pass;
    (void)arg;
    (void)n_in;
    out->at[out->n++] = in[0].at[0];
    return LK_OK;
}

static lk_status models_make(struct part *p)
{
    LK_TRY(lk_model_new(&p->front));
    LK_TRY(lk_model_add(p->front, "linear", "units=32"));
    LK_TRY(lk_model_add(p->front, "relu", NULL));
    LK_TRY(lk_model_new(&p->back));
    LK_TRY(lk_model_add(p->back, "linear", "units=32"));
    LK_TRY(lk_model_add(p->back, "relu", NULL));
    return LK_TRACE(lk_model_add(p->back, "linear", "units=3"));
}

static lk_status chain_make(struct part *p)
{
    const lk_component a = {.name = "MLP0SubA", .model = p->front, .spec.seed = 1},
                       b = {.name = "MLP0SubB", .fn = sub_b},
                       c = {.name = "MLP1Sub", .model = p->back, .spec.seed = 2};
    const lk_tensor_type x = {LK_F32, LK_SHAPE(1, 2)};
    const int rank = lk_comm_rank(p->comm), first = 0, second = lk_comm_size(p->comm) > 1;
    LK_TRY(lk_chain_new(p->comm, &p->chain));
    if (rank == first)
        LK_TRY(lk_chain_add(p->chain, &a, NULL, 0, &second, 1));
    if (rank == second)
        LK_TRY(lk_chain_add(p->chain, &c, &first, 1, &first, 1));
    if (rank == first)
        LK_TRY(lk_chain_add(p->chain, &b, &second, 1, NULL, 0));
    return LK_TRACE(lk_chain_build(p->chain, &x, rank == first));
}

/* An optimizer for each model that is here. */
static lk_status optimizers_make(struct part *p)
{
    for (int64_t k = 0; k < lk_chain_components(p->chain); k++) {
        lk_model *model = lk_chain_model(p->chain, k);
        if (model)
            LK_TRY(lk_optimizer_new(lk_model_params(model), "adam", "rate=0.01", &p->optimizer[k]));
    }
    return LK_OK;
}

/* Forward, backward and update; the loss is on rank 0. */
static lk_status step(struct part *p, int n)
{
    const int first = lk_comm_rank(p->comm) == 0;
    lk_var x, label, y, loss = LK_NO_VAR;
    lk_list out = {.at = &y, .room = 1};
    const lk_pass pass = {.tape = p->tape, .training = true};
    double value;
    lk_tape_reset(p->tape);
    lk_chain_clear(p->chain);
    LK_TRY(lk_constant_data(p->tape, LK_F32, LK_SHAPE(POINTS, 2), p->x, &x));
    LK_TRY(lk_constant_data(p->tape, LK_I64, LK_SHAPE(POINTS), p->label, &label));
    LK_TRY(lk_chain_forward(p->chain, &pass, &x, first, &out));
    if (first)
        LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
    LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, first, 0));
    for (int k = 0; k < COMPONENTS; k++)
        if (p->optimizer[k]) {
            const lk_slab *grads = lk_accumulator_slab(lk_chain_accumulator(p->chain, k));
            const lk_optimizer_input input = {.grads = grads, .at = {n, STEPS, 1}};
            LK_TRY(lk_optimizer_step(p->optimizer[k], &input, NULL));
        }
    if (first && n % 100 == 0) {
        LK_TRY(lk_item(loss, &value));
        printf("step %3d  loss %.6f\n", n, value);
    }
    return LK_OK;
}

/* The bits of both models: rank 1 tells rank 0, which prints. */
static lk_status report(struct part *p)
{
    const int rank = lk_comm_rank(p->comm), second = lk_comm_size(p->comm) > 1;
    char front[LK_HASH_TEXT], back[LK_HASH_TEXT];
    lk_hash a = lk_hash_start(), b = lk_hash_start();
    if (rank == 0)
        lk_slab_hash(lk_model_params(p->front), &a);
    if (rank == second)
        lk_slab_hash(lk_model_params(p->back), &b);
    uint64_t bits = lk_hash_value(&b);
    if (second && rank == second)
        LK_TRY(lk_send(p->comm, &bits, sizeof bits, LK_U8, 0, 0, "hash"));
    if (second && rank == 0)
        LK_TRY(lk_recv(p->comm, &bits, sizeof bits, LK_U8, second, 0, "hash", NULL));
    if (rank == 0)
        printf("weights of MLP0SubA %s, of MLP1Sub %s\n", lk_hash_text(lk_hash_value(&a), front),
               lk_hash_text(bits, back));
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    lk_status st;
    struct part p = {.comm = comm};
    (void)arg;
    LK_TRY_TO(done, lk_tape_new(&p.tape));
    LK_TRY_TO(done, draw(&p));
    LK_TRY_TO(done, models_make(&p));
    LK_TRY_TO(done, chain_make(&p));
    LK_TRY_TO(done, optimizers_make(&p));
    for (int n = 0; n <= STEPS; n++)
        LK_TRY_TO(done, step(&p, n));
    LK_TRY_TO(done, report(&p));
done:
    for (int k = 0; k < COMPONENTS; k++)
        lk_optimizer_free(p.optimizer[k]);
    lk_tape_free(p.tape);
    lk_chain_free(p.chain);
    lk_model_free(p.front);
    lk_model_free(p.back);
    return st;
}

int main(void)
{
    return lk_run_main(2, train, NULL, stderr);
}
