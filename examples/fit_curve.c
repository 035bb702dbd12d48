/* Fit a curve with a small network, then ask for the curvature of the loss.
 *
 * The network is y = tanh(x w1 + b1) w2 + b2 with 16 hidden units; the curve is sin(3 x) at 32
 * points.  Parameters and gradients live in two slabs, so a step of gradient descent is one loop.
 */
#include <lockstep/lockstep.h>

enum { POINTS = 32, HIDDEN = 16, STEPS = 3000, PARAMETERS = 4 };

static const char *const names[PARAMETERS] = {"w1", "b1", "w2", "b2"};

/* The parameters and their gradients, as slabs and as the tensors in them. */
struct network {
    lk_layout *layout;
    lk_slab *values, *grads;
    lk_tensor *value[PARAMETERS], *grad[PARAMETERS];
};

static lk_status network_new(struct network *net)
{
    const lk_shape shapes[PARAMETERS] = {LK_SHAPE(1, HIDDEN), LK_SHAPE(HIDDEN), LK_SHAPE(HIDDEN, 1),
                                         LK_SHAPE(1)};
    LK_TRY(lk_layout_new(&net->layout));
    for (int i = 0; i < PARAMETERS; i++)
        LK_TRY(lk_layout_add(net->layout, names[i], LK_F64, shapes[i]));
    LK_TRY(lk_slab_new(net->layout, &net->values));
    LK_TRY(lk_slab_new(net->layout, &net->grads));
    for (int i = 0; i < PARAMETERS; i++) {
        void *data;
        LK_TRY(lk_slab_find(net->values, names[i], &net->value[i]));
        LK_TRY(lk_slab_find(net->grads, names[i], &net->grad[i]));
        /* Draws depend on the seed and the parameter's name, on nothing else. */
        LK_TRY(lk_tensor_writable_data(net->value[i], &data));
        int64_t n = lk_tensor_count(net->value[i]);
        LK_TRY(lk_rng_uniform_f64(lk_rng_start(1, names[i], "init"), (lk_rng_at){0}, n, data));
        for (int64_t k = 0; k < n; k++)
            ((double *)data)[k] = 2 * ((double *)data)[k] - 1;
    }
    return LK_OK;
}

static void network_free(struct network *net)
{
    for (int i = 0; i < PARAMETERS; i++) {
        lk_tensor_free(net->value[i]);
        lk_tensor_free(net->grad[i]);
    }
    lk_slab_free(net->values);
    lk_slab_free(net->grads);
    lk_layout_free(net->layout);
}

/* x and sin(3 x), computed with ops so that the numbers are the same on every machine. */
static lk_status curve_new(lk_tape *tape, lk_tensor **x, lk_tensor **y)
{
    lk_var v;
    const lk_tensor *value;
    LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(POINTS, 1), x));
    for (int i = 0; i < POINTS; i++)
        LK_TRY(lk_tensor_set_f64(*x, LK_AT(i, 0), (2.0 * i - (POINTS - 1)) / POINTS));
    LK_TRY(lk_constant(tape, *x, &v));
    LK_TRY(lk_affine(v, 3, 0, &v));
    LK_TRY(lk_sin(v, &v));
    LK_TRY(lk_value(v, &value));
    LK_TRY(lk_tensor_clone(value, LK_F64, y));
    return LK_OK;
}

/* Record the loss; p[i] are the parameters on the tape. */
static lk_status forward(lk_tape *tape, const struct network *net, lk_tensor *x, lk_tensor *y,
                         lk_var *p, lk_var *loss)
{
    lk_var in, target, h;
    for (int i = 0; i < PARAMETERS; i++)
        LK_TRY(lk_leaf(tape, net->value[i], net->grad[i], &p[i]));
    LK_TRY(lk_constant(tape, x, &in));
    LK_TRY(lk_constant(tape, y, &target));
    LK_TRY(lk_linear(in, p[0], p[1], &h));
    LK_TRY(lk_tanh(h, &h));
    LK_TRY(lk_linear(h, p[2], p[3], &h));
    LK_TRY(lk_mean_squared_error(h, target, LK_LOSS_DEFAULT, loss));
    return LK_OK;
}

/* Gradient descent; prints the loss now and then. */
static lk_status fit(lk_tape *tape, struct network *net, lk_tensor *x, lk_tensor *y)
{
    double *value = lk_slab_data(net->values), *grad = lk_slab_data(net->grads);
    int64_t n = lk_layout_bytes(net->layout) / (int64_t)sizeof *value;
    for (int step = 0; step <= STEPS; step++) {
        lk_var p[PARAMETERS], loss;
        double item;
        lk_tape_reset(tape);
        lk_slab_zero(net->grads);
        LK_TRY(forward(tape, net, x, y, p, &loss));
        LK_TRY(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
        LK_TRY(lk_item(loss, &item));
        if (step % 1000 == 0)
            printf("step %4d  loss %.6f\n", step, item);
        for (int64_t i = 0; i < n; i++)
            value[i] -= 0.2 * grad[i];
    }
    return LK_OK;
}

/* <a, b> over all parameters. */
static lk_status dot(const lk_var *a, const lk_var *b, double *out)
{
    *out = 0;
    for (int i = 0; i < PARAMETERS; i++) {
        lk_var product;
        double part;
        LK_TRY(lk_mul(a[i], b[i], &product));
        LK_TRY(lk_sum(product, NULL, &product));
        LK_TRY(lk_item(product, &part));
        *out += part;
    }
    return LK_OK;
}

/* How strongly the loss bends along its gradient g: <g, H g> / <g, g>.  H is never formed: H g is the
 * gradient of the gradient, seeded with g. */
static lk_status curvature(lk_tape *tape, struct network *net, lk_tensor *x, lk_tensor *y)
{
    lk_var p[PARAMETERS], g[PARAMETERS], v[PARAMETERS], hv[PARAMETERS], loss;
    double ghg, gg;
    lk_tape_reset(tape);
    LK_TRY(forward(tape, net, x, y, p, &loss));
    LK_TRY(lk_grad(tape, &loss, NULL, 1, p, PARAMETERS, LK_RECORD, g));
    for (int i = 0; i < PARAMETERS; i++)
        LK_TRY(lk_stop_gradient(g[i], &v[i]));
    LK_TRY(lk_grad(tape, g, v, PARAMETERS, p, PARAMETERS, LK_RETAIN, hv));
    LK_TRY(dot(g, hv, &ghg));
    LK_TRY(dot(g, g, &gg));
    printf("curvature along the gradient %.6f\n", ghg / gg);
    return LK_OK;
}

int main(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    struct network net = {0};
    lk_tensor *x = NULL, *y = NULL;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, network_new(&net));
    LK_TRY_TO(done, curve_new(tape, &x, &y));
    LK_TRY_TO(done, fit(tape, &net, x, y));
    LK_TRY_TO(done, curvature(tape, &net, x, y));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_tape_free(tape);
    network_free(&net);
    lk_tensor_free(x);
    lk_tensor_free(y);
    return st != LK_OK;
}
