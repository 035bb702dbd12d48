/* Sequence to sequence on two ranks: the encoder on rank 0 reads digits, the decoder on rank 1 says them
 * backwards.  What the encoder's layers carry behind its last time is all that the decoder gets to know.
 *
 *     rank 0:  3 1 4 1 5 -> [embedding, lstm]
 *                                 |
 *                                 `- - carry: h, c - - .
 *                                                       v
 *     rank 1:                    start 5 1 4 1 -> [embedding, lstm, linear] -> 5 1 4 1 3
 *
 * In training the decoder is told the digits before the one that it is to say (teacher forcing).  Each step
 * has new sequences, so the share of right digits is that of sequences which were never seen.  One rank
 * alone has both, and learns the same bits.
 *
 * Started by mpirun it is one of its ranks (from the third on they have nothing to do), otherwise it
 * runs on 2 threads.
 */
#include <lockstep/lockstep.h>

enum { BATCH = 64, TIMES = 5, DIGITS = 10, START = DIGITS, STEPS = 200, ENCODER = 0, DECODER };

/* What a rank has: of the two models its own. */
struct part {
    lk_comm *comm;
    lk_tape *tape;
    lk_model *model[2]; /* NULL: it is on another rank */
    lk_accumulator *accumulator[2];
    lk_optimizer *optimizer[2];
};

/* Sequences, what the decoder is told, and what it is to say. */
struct batch {
    int64_t source[BATCH][TIMES], told[BATCH][TIMES], target[BATCH][TIMES];
};

static lk_status draw(int n, struct batch *b)
{
    LK_TRY(lk_rng_below(lk_rng_start(1, "digits", "seq2seq"), (lk_rng_at){.step = n}, DIGITS,
                        sizeof b->source / sizeof(int64_t), &b->source[0][0]));
    for (int i = 0; i < BATCH; i++)
        for (int t = 0; t < TIMES; t++) {
            b->target[i][t] = b->source[i][TIMES - 1 - t];
            b->told[i][t] = t == 0 ? START : b->target[i][t - 1];
        }
    return LK_OK;
}

static lk_status model_make(struct part *p, int side)
{
    const lk_model_spec spec = {.in = {LK_I64, LK_SHAPE(TIMES)}, .seed = 1 + side};
    lk_model **m = &p->model[side];
    LK_TRY(lk_model_new(m));
    LK_TRY(lk_model_add(*m, "embedding", "rows=11 units=16"));
    LK_TRY(lk_model_add(*m, "lstm", side == ENCODER ? "units=64" : "units=64 output=all"));
    if (side == DECODER)
        LK_TRY(lk_model_add(*m, "linear", "units=10"));
    LK_TRY(lk_model_build(*m, &spec));
    LK_TRY(lk_model_hold(*m, NULL));
    LK_TRY(lk_accumulator_new(*m, &p->accumulator[side]));
    return LK_TRACE(
        lk_optimizer_new(lk_model_params(*m), "adam", "rate=0.01", &p->optimizer[side]));
}

/* One side of the net; the carry goes from rank 0 to rank 1, or stays here as a list. */
static lk_status side_run(struct part *p, int side, const int64_t *digits, lk_list *carry,
                          lk_var *y)
{
    const lk_pass pass = {p->tape, .accumulator = p->accumulator[side], .training = true};
    lk_model *m = p->model[side];
    lk_var x;
    LK_TRY(lk_constant_data(p->tape, LK_I64, LK_SHAPE(BATCH, TIMES), digits, &x));
    lk_accumulator_clear(p->accumulator[side]);
    if (lk_comm_size(p->comm) == 1 && side == ENCODER)
        LK_TRY(lk_model_forward_carry(m, &pass, x, NULL, carry, y));
    else if (lk_comm_size(p->comm) == 1)
        LK_TRY(lk_model_forward_carry(m, &pass, x, carry, NULL, y));
    else if (side == ENCODER)
        LK_TRY(lk_recurrent_forward(m, &pass, x, p->comm, LK_NO_RANK, 1, "carry", y));
    else
        LK_TRY(lk_recurrent_forward(m, &pass, x, p->comm, 0, LK_NO_RANK, "carry", y));
    return LK_OK;
}

/* The loss and the share of right digits, where the decoder is. */
static lk_status report(int n, lk_var y, lk_var loss, const struct batch *b)
{
    lk_var said;
    const lk_tensor *value;
    double mean;
    int right = 0;
    LK_TRY(lk_item(loss, &mean));
    LK_TRY(lk_argmax(y, LK_AXES(2), &said));
    LK_TRY(lk_value(said, &value));
    const int64_t *digit = lk_tensor_data(value);
    for (int i = 0; i < BATCH * TIMES; i++)
        right += digit[i] == (&b->target[0][0])[i];
    printf("step %3d  loss %.6f  right %.3f\n", n, mean, (double)right / (BATCH * TIMES));
    return LK_OK;
}

/* Forward, backward and update. */
static lk_status step(struct part *p, int n)
{
    struct batch b;
    lk_var at[2], y = LK_NO_VAR, target, loss = LK_NO_VAR;
    lk_list carry = {.at = at, .room = 2};
    LK_TRY(draw(n, &b));
    lk_tape_reset(p->tape);
    if (p->model[ENCODER])
        LK_TRY(side_run(p, ENCODER, &b.source[0][0], &carry, &y));
    if (p->model[DECODER]) {
        LK_TRY(side_run(p, DECODER, &b.told[0][0], &carry, &y));
        LK_TRY(lk_constant_data(p->tape, LK_I64, LK_SHAPE(BATCH, TIMES), b.target, &target));
        LK_TRY(lk_softmax_cross_entropy(y, target, LK_LOSS_DEFAULT, &loss));
        if (n % 100 == 0)
            LK_TRY(report(n, y, loss, &b));
    }
    LK_TRY(lk_backward(p->tape, &(lk_seed){.of = loss}, p->model[DECODER] != NULL, 0));
    for (int side = 0; side < 2; side++)
        if (p->model[side]) {
            const lk_slab *grads = lk_accumulator_slab(p->accumulator[side]);
            const lk_optimizer_input input = {.grads = grads, .at = {n, STEPS, 1}};
            LK_TRY(lk_optimizer_step(p->optimizer[side], &input, NULL));
        }
    return LK_OK;
}

/* The bits of the decoder, to which the encoder's have contributed. */
static void report_bits(const struct part *p)
{
    char text[LK_HASH_TEXT];
    lk_hash h = lk_hash_start();
    lk_slab_hash(lk_model_params(p->model[DECODER]), &h);
    printf("weights of the decoder %s\n", lk_hash_text(lk_hash_value(&h), text));
}

static lk_status train(lk_comm *comm, void *arg)
{
    lk_status st;
    struct part p = {.comm = comm};
    const int rank = lk_comm_rank(comm), last = lk_comm_size(comm) > 1;
    (void)arg;
    LK_TRY_TO(done, lk_tape_new(&p.tape));
    if (rank == 0)
        LK_TRY_TO(done, model_make(&p, ENCODER));
    if (rank == last)
        LK_TRY_TO(done, model_make(&p, DECODER));
    for (int n = 0; n <= STEPS; n++)
        LK_TRY_TO(done, step(&p, n));
    if (p.model[DECODER])
        report_bits(&p);
done:
    lk_tape_free(p.tape);
    for (int side = 0; side < 2; side++) {
        lk_optimizer_free(p.optimizer[side]);
        lk_accumulator_free(p.accumulator[side]);
        lk_model_free(p.model[side]);
    }
    return st;
}

int main(void)
{
    return lk_run_main(2, train, NULL, stderr);
}
