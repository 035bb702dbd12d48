/* Linear regression on points that the ranks share, with one step of L-BFGS.
 *
 * Each rank has some of 10000 points of y = 0.1 + x - 2 x^2, and the three numbers are to be found
 * from [0, 1, 2] on.  All that is distributed is in loss(): the mean of the ranks' parameters, and the
 * sum of their losses.  So the gradient, and every step of the optimizer, is the same to the bit on
 * every rank, and on any number of ranks up to rounding, as the sums over points are cut elsewhere.
 *
 * Started by mpirun it is one of its ranks, otherwise it runs on 4 threads.
 */
#include <lockstep/lockstep.h>

#include <math.h>
#include <string.h>

enum { POINTS = 10000, N = 3 };

static const double truth[N] = {0.1, 1, -2};

/* (p2 x + p1) x + p0 */
static lk_status curve(lk_var x, lk_var p, lk_var *out)
{
    lk_var c[N];
    for (int i = 0; i < N; i++)
        LK_TRY(lk_slice(p, 0, i, i + 1, 1, &c[i]));
    LK_TRY(lk_mul(c[2], x, out));
    LK_TRY(lk_add(*out, c[1], out));
    LK_TRY(lk_mul(*out, x, out));
    return LK_TRACE(lk_add(*out, c[0], out));
}

/* The loss at p of all points, of which this rank of `comm` has some; in g its gradient. */
static lk_status loss(lk_comm *comm, lk_tape *tape, const double *points, const double *p,
                      double *g, double *value)
{
    lk_range own = lk_range_split(POINTS, lk_comm_rank(comm), lk_comm_size(comm));
    lk_var x, y, params, out;
    lk_tape_reset(tape);
    memset(g, 0, N * sizeof *g);
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(own.n), points + own.first, &x));
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(N), truth, &y));
    LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(N), p, g, &params));
    LK_TRY(lk_affine(x, 2, 0, &x));
    LK_TRY(curve(x, y, &y));
    LK_TRY(lk_dist_allreduce(comm, params, LK_REDUCE_AVG, "parameters", &params));
    LK_TRY(curve(x, params, &out));
    LK_TRY(lk_mean_squared_error(out, y, LK_LOSS_SUM, &out));
    LK_TRY(lk_dist_allreduce(comm, out, LK_REDUCE_SUM, "loss", &out));
    LK_TRY(lk_item(out, value));
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = out}, 1, 0));
}

/* The gradient on all ranks together and on each alone, then one step (20 iterations) of L-BFGS. */
static lk_status regression(lk_comm *comm, void *arg)
{
    lk_status st;
    lk_comm *self = NULL;
    lk_tape *tape = NULL;
    lk_slab *params = NULL, *grads = NULL;
    lk_optimizer *lbfgs = NULL;
    double points[POINTS], alone[N], value, whole, apart = 0;
    (void)arg;
    LK_TRY_TO(done, lk_comm_open("self", &self));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_slab_new_tensor("p", LK_F64, LK_SHAPE(N), &params));
    LK_TRY_TO(done, lk_slab_new_like(params, &grads));
    LK_TRY_TO(done, lk_optimizer_new(params, "lbfgs", NULL, &lbfgs));
    LK_TRY_TO(done, lk_rng_uniform_f64(lk_rng_start(42, "regression", "x"), (lk_rng_at){0}, POINTS,
                                       points));

    double *p = memcpy(lk_slab_data(params), (double[N]){0, 1, 2}, N * sizeof *p);
    double *g = lk_slab_data(grads);
    LK_TRY_TO(done, loss(self, tape, points, p, alone, &whole));
    LK_TRY_TO(done, loss(comm, tape, points, p, g, &value));
    for (int i = 0; i < N; i++)
        apart += fabs(g[i] / alone[i] - 1);

    for (lk_optimizer_input step = {.grads = grads}; step.at.step < 20; step.at.step++) {
        LK_TRY_TO(done, lk_optimizer_step(lbfgs, &step, NULL));
        LK_TRY_TO(done, loss(comm, tape, points, p, g, &value));
    }

    if (lk_comm_rank(comm) == 0) {
        printf("loss at [0, 1, 2]: %.6f\n", whole);
        printf("gradient: [%.6f, %.6f, %.6f]\n", alone[0], alone[1], alone[2]);
        printf("on all ranks together: %s\n", apart <= 1e-12 ? "the same to 12 digits" : "another");
        printf("after one step: [%.6f, %.6f, %.6f]\n", p[0], p[1], p[2]);
    }
done:
    lk_optimizer_free(lbfgs);
    lk_slab_free(params);
    lk_slab_free(grads);
    lk_tape_free(tape);
    lk_comm_close(self);
    return st;
}

int main(void)
{
    return lk_run_main(4, regression, NULL, stderr);
}
