/* A network on two ranks: rank 0 has the first layer, rank 1 the other two and the loss.
 *
 *     rank 0:  x -> layer 0 -> send        backward: the gradient comes back by the same way
 *     rank 1:                  recv -> layer 1 -> layer 2 -> loss
 *
 * All it takes is a send, a recv, and that rank 0, which has no loss, calls lk_backward() too.  One
 * rank alone has all layers and sends nothing; what it learns has the same bits.
 *
 * Started by mpirun it is one of its ranks (from the third on they have nothing to do), otherwise it
 * runs on 2 threads.
 */
#include <lockstep/lockstep.h>

#include <math.h>
#include <string.h>

enum { POINTS = 256, HIDDEN = 16, LAYERS = 3, STEPS = 2000, MOST = (HIDDEN + 1) * HIDDEN };

static const int64_t width[LAYERS + 1] = {2, HIDDEN, HIDDEN, 1};

/* What a rank has.  Weights are [in + 1][out], the last row being the bias. */
struct part {
    lk_comm *comm;
    lk_tape *tape;
    bool first, second;                        /* which halves of the network are here */
    float x[POINTS * 2];                       /* the network learns the product of the two */
    float w[LAYERS][MOST], grad[LAYERS][MOST]; /* those of the other rank stay as they are */
};

/* n numbers from -1 to 1 that depend on the name alone, not on the rank. */
static lk_status draw(const char *name, int64_t n, float *out)
{
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, name, "two ranks"), (lk_rng_at){0}, n, out));
    for (int64_t i = 0; i < n; i++)
        out[i] = 2 * out[i] - 1;
    return LK_OK;
}

static lk_status part_make(lk_comm *comm, struct part *p)
{
    p->comm = comm;
    p->first = lk_comm_rank(comm) == 0;
    p->second = lk_comm_rank(comm) == 1 || lk_comm_size(comm) == 1;
    LK_TRY(lk_tape_new(&p->tape));
    LK_TRY(draw("points", POINTS * 2, p->x));
    LK_TRY(draw("layer 0", MOST, p->w[0]));
    LK_TRY(draw("layer 1", MOST, p->w[1]));
    return LK_TRACE(draw("layer 2", MOST, p->w[2]));
}

/* h = tanh(h w + b); in the last layer without tanh. */
static lk_status layer(struct part *p, int i, lk_var *h)
{
    const int64_t in = width[i], out = width[i + 1];
    lk_var w, b;
    LK_TRY(lk_leaf_data(p->tape, LK_F32, LK_SHAPE(in + 1, out), p->w[i], p->grad[i], &w));
    LK_TRY(lk_slice(w, 0, in, in + 1, 1, &b));
    LK_TRY(lk_reshape(b, LK_SHAPE(out), &b));
    LK_TRY(lk_slice(w, 0, 0, in, 1, &w));
    LK_TRY(lk_linear(*h, w, b, h));
    if (i + 1 < LAYERS)
        LK_TRY(lk_tanh(*h, h));
    return LK_OK;
}

/* This rank's part of the network; `*loss` stays LK_NO_VAR where it is not computed. */
static lk_status forward(struct part *p, lk_var *loss)
{
    lk_var h, a, b;
    *loss = LK_NO_VAR;
    LK_TRY(lk_constant_data(p->tape, LK_F32, LK_SHAPE(POINTS, 2), p->x, &h));
    LK_TRY(lk_slice(h, 1, 0, 1, 1, &a));
    LK_TRY(lk_slice(h, 1, 1, 2, 1, &b));
    if (p->first)
        LK_TRY(layer(p, 0, &h));
    if (p->first && !p->second)
        LK_TRY(lk_dist_send(p->comm, h, 1, 0, "hidden", NULL));
    if (p->second && !p->first)
        LK_TRY(lk_dist_recv(p->tape, p->comm, 0, 0, LK_ANY_DTYPE, LK_ANY_SHAPE, "hidden", &h));
    if (p->second) {
        LK_TRY(layer(p, 1, &h));
        LK_TRY(layer(p, 2, &h));
        LK_TRY(lk_mul(a, b, &a));
        LK_TRY(lk_mean_squared_error(h, a, LK_LOSS_DEFAULT, loss));
    }
    return LK_OK;
}

/* Gradient descent on this rank's layers. */
static void step(struct part *p, float rate)
{
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < MOST; k++)
            p->w[i][k] = fmaf(-rate, p->grad[i][k], p->w[i][k]);
    memset(p->grad, 0, sizeof p->grad);
}

/* The bits of all weights: rank 0 sends its layer to rank 1, which prints. */
static lk_status report(struct part *p)
{
    char text[LK_HASH_TEXT];
    lk_hash hash = lk_hash_start();
    if (p->first && !p->second)
        LK_TRY(lk_send(p->comm, p->w[0], MOST, LK_F32, 1, 0, "layer 0"));
    if (p->second && !p->first)
        LK_TRY(lk_recv(p->comm, p->w[0], MOST, LK_F32, 0, 0, "layer 0", NULL));
    lk_hash_add_bytes(&hash, p->w, sizeof p->w);
    if (p->second)
        printf("the bits of all weights: %s\n", lk_hash_text(lk_hash_value(&hash), text));
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    lk_status st;
    struct part p = {0};
    lk_var loss;
    double item;
    (void)arg;
    LK_TRY_TO(done, part_make(comm, &p));
    for (int n = 0; n <= STEPS; n++) {
        lk_tape_reset(p.tape);
        LK_TRY_TO(done, forward(&p, &loss));
        LK_TRY_TO(done, lk_backward(p.tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
        if (p.second && n % 500 == 0) {
            LK_TRY_TO(done, lk_item(loss, &item));
            printf("step %4d  loss %.6f\n", n, item);
        }
        step(&p, 0.1f);
    }
    LK_TRY_TO(done, report(&p));
done:
    lk_tape_free(p.tape);
    return st;
}

int main(void)
{
    return lk_run_main(2, train, NULL, stderr);
}
