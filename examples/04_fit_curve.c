/* Fit a curve with a small network, then ask for the curvature of the loss.
 *
 * The network is y = tanh(x w1 + b1) w2 + b2 with 16 hidden units; the curve is sin(3 x) at 32
 * points.  Parameters and gradients are arrays of the program, which the tape uses where they are.
 */
#include <lockstep/lockstep.h>

#include <string.h>

enum { POINTS = 32, HIDDEN = 16, STEPS = 3000, PARAMETERS = 4 };

static const char *const names[PARAMETERS] = {"w1", "b1", "w2", "b2"};
static const lk_shape shapes[PARAMETERS] = {LK_DIMS(1, HIDDEN), LK_DIMS(HIDDEN), LK_DIMS(HIDDEN, 1),
                                            LK_DIMS(1)};

/* Parameters and their gradients, of b2 the first number alone; and the points of the curve. */
static double value[PARAMETERS][HIDDEN], grad[PARAMETERS][HIDDEN], x[POINTS], y[POINTS];

/* Draws depend on the seed and the parameter's name, on nothing else.  sin(3 x) is computed with ops,
 * so that the numbers are the same on every machine. */
static lk_status begin(lk_tape *tape)
{
    lk_var v;
    for (int i = 0; i < PARAMETERS; i++) {
        LK_TRY(lk_rng_uniform_f64(lk_rng_start(1, names[i], "init"), (lk_rng_at){0}, HIDDEN,
                                  value[i]));
        for (int k = 0; k < HIDDEN; k++)
            value[i][k] = 2 * value[i][k] - 1;
    }
    for (int i = 0; i < POINTS; i++)
        x[i] = (2.0 * i - (POINTS - 1)) / POINTS;
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(POINTS), x, &v));
    LK_TRY(lk_affine(v, 3, 0, &v));
    LK_TRY(lk_sin(v, &v));
    return LK_TRACE(lk_read(v, LK_F64, POINTS, y));
}

/* Record the loss; p[i] are the parameters on the tape. */
static lk_status forward(lk_tape *tape, lk_var *p, lk_var *loss)
{
    lk_var in, target, h;
    for (int i = 0; i < PARAMETERS; i++)
        LK_TRY(lk_leaf_data(tape, LK_F64, shapes[i], value[i], grad[i], &p[i]));
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(POINTS, 1), x, &in));
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(POINTS, 1), y, &target));
    LK_TRY(lk_linear(in, p[0], p[1], &h));
    LK_TRY(lk_tanh(h, &h));
    LK_TRY(lk_linear(h, p[2], p[3], &h));
    return LK_TRACE(lk_mean_squared_error(h, target, LK_LOSS_DEFAULT, loss));
}

/* Gradient descent; prints the loss now and then. */
static lk_status fit(lk_tape *tape)
{
    for (int step = 0; step <= STEPS; step++) {
        lk_var p[PARAMETERS], loss;
        double item;
        lk_tape_reset(tape);
        memset(grad, 0, sizeof grad);
        LK_TRY(forward(tape, p, &loss));
        LK_TRY(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
        LK_TRY(lk_item(loss, &item));
        if (step % 1000 == 0)
            printf("step %4d  loss %.6f\n", step, item);
        for (int i = 0; i < PARAMETERS; i++)
            for (int k = 0; k < HIDDEN; k++)
                value[i][k] -= 0.2 * grad[i][k];
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
static lk_status curvature(lk_tape *tape)
{
    lk_var p[PARAMETERS], g[PARAMETERS], v[PARAMETERS], hv[PARAMETERS], loss;
    double ghg, gg;
    lk_tape_reset(tape);
    LK_TRY(forward(tape, p, &loss));
    LK_TRY(lk_grad(tape, &loss, NULL, 1, p, PARAMETERS, LK_RECORD, g));
    for (int i = 0; i < PARAMETERS; i++)
        LK_TRY(lk_stop_gradient(g[i], &v[i]));
    LK_TRY(lk_grad(tape, g, v, PARAMETERS, p, PARAMETERS, LK_RETAIN_GRAPH, hv));
    LK_TRY(dot(g, hv, &ghg));
    LK_TRY(dot(g, g, &gg));
    printf("curvature along the gradient %.6f\n", ghg / gg);
    return LK_OK;
}

int main(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, begin(tape));
    LK_TRY_TO(done, fit(tape));
    LK_TRY_TO(done, curvature(tape));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_tape_free(tape);
    return st != LK_OK;
}
