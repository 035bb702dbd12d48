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

enum { POINTS = 256, HIDDEN = 16, LAYERS = 3, STEPS = 2000 };

/* What a rank has.  Weights are [in + 1][out], the last row being the bias. */
struct part {
    lk_comm *comm;
    lk_tape *tape;
    lk_tensor *x; /* [POINTS][2]; the network learns the product of the two */
    lk_tensor *w[LAYERS], *grad[LAYERS];
    bool first, second; /* which halves of the network */
};

/* f32 numbers from -1 to 1 that depend on the name alone, not on the rank. */
static lk_status draw(const char *name, lk_shape shape, lk_tensor **out)
{
    void *data;
    LK_TRY(lk_tensor_new(LK_F32, shape, out));
    LK_TRY(lk_tensor_writable_data(*out, &data));
    int64_t n = lk_tensor_count(*out);
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, name, "two ranks"), (lk_rng_at){0}, n, data));
    for (int64_t i = 0; i < n; i++)
        ((float *)data)[i] = 2 * ((float *)data)[i] - 1;
    return LK_OK;
}

static lk_status part_new(lk_comm *comm, struct part *p)
{
    const char *const names[LAYERS] = {"layer 0", "layer 1", "layer 2"};
    const lk_shape shapes[LAYERS] = {LK_SHAPE(2 + 1, HIDDEN), LK_SHAPE(HIDDEN + 1, HIDDEN),
                                     LK_SHAPE(HIDDEN + 1, 1)};
    p->comm = comm;
    p->first = lk_comm_rank(comm) == 0;
    p->second = lk_comm_rank(comm) == 1 || lk_comm_size(comm) == 1;
    LK_TRY(lk_tape_new(&p->tape));
    LK_TRY(draw("points", LK_SHAPE(POINTS, 2), &p->x));
    for (int i = 0; i < LAYERS; i++) {
        bool is_here = i == 0 ? p->first : p->second;
        if (!is_here)
            continue;
        LK_TRY(draw(names[i], shapes[i], &p->w[i]));
        LK_TRY(lk_tensor_zeros(LK_F32, shapes[i], &p->grad[i]));
    }
    return LK_OK;
}

static void part_free(struct part *p)
{
    lk_tape_free(p->tape);
    lk_tensor_free(p->x);
    for (int i = 0; i < LAYERS; i++) {
        lk_tensor_free(p->w[i]);
        lk_tensor_free(p->grad[i]);
    }
}

/* h = tanh(h w + b); in the last layer without tanh. */
static lk_status layer(struct part *p, int i, lk_var *h)
{
    lk_var w, b;
    lk_shape shape = lk_tensor_shape(p->w[i]);
    LK_TRY(lk_leaf(p->tape, p->w[i], p->grad[i], &w));
    LK_TRY(lk_slice(w, 0, shape.dim[0] - 1, shape.dim[0], 1, &b));
    LK_TRY(lk_reshape(b, LK_SHAPE(shape.dim[1]), &b));
    LK_TRY(lk_slice(w, 0, 0, shape.dim[0] - 1, 1, &w));
    LK_TRY(lk_linear(*h, w, b, h));
    if (i + 1 < LAYERS)
        LK_TRY(lk_tanh(*h, h));
    return LK_OK;
}

/* This rank's part of the network; `*loss` stays LK_NO_VAR where it is not computed. */
static lk_status forward(struct part *p, lk_var *loss)
{
    lk_shape hidden = LK_SHAPE(POINTS, HIDDEN);
    lk_var h, x[2];
    *loss = LK_NO_VAR;
    if (!p->first && !p->second)
        return LK_OK;
    LK_TRY(lk_constant(p->tape, p->x, &h));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_slice(h, 1, i, i + 1, 1, &x[i]));
    LK_TRY(lk_mul(x[0], x[1], &x[0]));
    if (p->first)
        LK_TRY(layer(p, 0, &h));
    if (p->first && !p->second)
        LK_TRY(lk_dist_send(p->comm, h, 1, 0, "hidden", NULL));
    if (p->second && !p->first)
        LK_TRY(lk_dist_recv(p->tape, p->comm, 0, 0, LK_F32, hidden, "hidden", &h));
    if (p->second) {
        LK_TRY(layer(p, 1, &h));
        LK_TRY(layer(p, 2, &h));
        LK_TRY(lk_mean_squared_error(h, x[0], LK_LOSS_DEFAULT, loss));
    }
    return LK_OK;
}

/* Gradient descent on this rank's layers. */
static lk_status step(struct part *p, float rate)
{
    for (int i = 0; i < LAYERS; i++) {
        void *w, *grad;
        if (!p->w[i])
            continue;
        LK_TRY(lk_tensor_writable_data(p->w[i], &w));
        LK_TRY(lk_tensor_writable_data(p->grad[i], &grad));
        for (int64_t k = 0; k < lk_tensor_count(p->w[i]); k++)
            ((float *)w)[k] = fmaf(-rate, ((float *)grad)[k], ((float *)w)[k]);
        LK_TRY(lk_tensor_fill_f64(p->grad[i], 0));
    }
    return LK_OK;
}

/* The bits of all weights: rank 0's hash goes to rank 1, which prints. */
static lk_status report(struct part *p)
{
    for (int i = 0; i < LAYERS; i++) {
        char text[LK_HASH_TEXT];
        int64_t value = 0;
        if (p->w[i]) {
            lk_hash hash = lk_hash_start();
            lk_tensor_hash(p->w[i], NULL, &hash);
            value = (int64_t)lk_hash_value(&hash);
        }
        if (i == 0 && p->first && !p->second)
            LK_TRY(lk_send(p->comm, &value, 1, LK_I64, 1, 0, "hash"));
        if (i == 0 && p->second && !p->first)
            LK_TRY(lk_recv(p->comm, &value, 1, LK_I64, 0, 0, "hash", NULL));
        if (p->second)
            printf("layer %d  %s\n", i, lk_hash_text((uint64_t)value, text));
    }
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    lk_status st;
    struct part p = {0};
    lk_var loss;
    double item;
    (void)arg;
    LK_TRY_TO(done, part_new(comm, &p));
    for (int n = 0; n <= STEPS; n++) {
        lk_tape_reset(p.tape);
        LK_TRY_TO(done, forward(&p, &loss));
        LK_TRY_TO(done, lk_backward(p.tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
        if (p.second && n % 500 == 0) {
            LK_TRY_TO(done, lk_item(loss, &item));
            printf("step %4d  loss %.6f\n", n, item);
        }
        LK_TRY_TO(done, step(&p, 0.1f));
    }
    LK_TRY_TO(done, report(&p));
done:
    part_free(&p);
    return st;
}

int main(void)
{
    lk_status st;
    lk_comm *comm = NULL;
    LK_TRY_TO(done, lk_comm_open(NULL, &comm));
    if (strcmp(lk_comm_transport(comm), "mpi") == 0)
        LK_TRY_TO(done, train(comm, NULL));
    else
        LK_TRY_TO(done, lk_run_local(2, train, NULL));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_comm_free(comm);
    return st != LK_OK;
}
