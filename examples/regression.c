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

enum { POINTS = 10000, N = 3, ITERATIONS = 20 };

/* What a rank has: some of the points, and parameters with their gradient. */
struct problem {
    lk_comm *comm;
    lk_tape *tape;
    double truth[N], p[N], g[N];
    lk_tensor *x, *true_params, *params, *grad; /* the last three are the arrays above */
};

static lk_status problem_new(lk_comm *comm, struct problem *q)
{
    lk_run own = lk_run_of(POINTS, lk_comm_rank(comm), lk_comm_size(comm));
    void *x;
    *q = (struct problem){.comm = comm, .truth = {0.1, 1, -2}, .p = {0, 1, 2}};
    LK_TRY(lk_tape_new(&q->tape));
    LK_TRY(lk_tensor_wrap(LK_F64, LK_SHAPE(N), q->truth, NULL, NULL, &q->true_params));
    LK_TRY(lk_tensor_wrap(LK_F64, LK_SHAPE(N), q->p, NULL, NULL, &q->params));
    LK_TRY(lk_tensor_wrap(LK_F64, LK_SHAPE(N), q->g, NULL, NULL, &q->grad));
    LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(own.n), &q->x));
    LK_TRY(lk_tensor_writable_data(q->x, &x));
    /* Point i is the same number whoever draws it. */
    LK_TRY(lk_rng_uniform_f64(lk_rng_start(42, "regression", "x"),
                              (lk_rng_at){.element = own.first}, own.n, x));
    return LK_OK;
}

static void problem_free(struct problem *q)
{
    lk_tape_free(q->tape);
    lk_tensor_free(q->x);
    lk_tensor_free(q->true_params);
    lk_tensor_free(q->params);
    lk_tensor_free(q->grad);
}

/* (p2 x + p1) x + p0 */
static lk_status curve(lk_var x, lk_var p, lk_var *out)
{
    lk_var c[N];
    for (int i = 0; i < N; i++)
        LK_TRY(lk_slice(p, 0, i, i + 1, 1, &c[i]));
    LK_TRY(lk_mul(c[2], x, out));
    LK_TRY(lk_add(*out, c[1], out));
    LK_TRY(lk_mul(*out, x, out));
    LK_TRY(lk_add(*out, c[0], out));
    return LK_OK;
}

/* The loss of all ranks at q->p; in q->g its gradient. */
static lk_status loss(struct problem *q, double *value)
{
    lk_var p, x, y, out;
    lk_tape_reset(q->tape);
    memset(q->g, 0, sizeof q->g);
    LK_TRY(lk_leaf(q->tape, q->params, q->grad, &p));
    LK_TRY(lk_constant(q->tape, q->true_params, &y));
    LK_TRY(lk_constant(q->tape, q->x, &x));
    LK_TRY(lk_affine(x, 2, 0, &x));
    LK_TRY(curve(x, y, &y));
    LK_TRY(lk_dist_allreduce(q->comm, p, LK_FOLD_AVG, "parameters", &p));
    LK_TRY(curve(x, p, &out));
    LK_TRY(lk_sub(y, out, &out));
    LK_TRY(lk_square(out, &out));
    LK_TRY(lk_sum(out, NULL, &out));
    LK_TRY(lk_dist_allreduce(q->comm, out, LK_FOLD_SUM, "loss", &out));
    LK_TRY(lk_item(out, value));
    LK_TRY(lk_backward(q->tape, &(lk_seed){.of = out}, 1, 0));
    return LK_OK;
}

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void add(double *a, double factor, const double *b)
{
    for (int i = 0; i < N; i++)
        a[i] += factor * b[i];
}

/* One step of L-BFGS: up to ITERATIONS iterations without a line search.  s[k] and y[k] are what
 * iteration k has changed in the parameters and in the gradient. */
static lk_status lbfgs_step(struct problem *q, double rate, double *value)
{
    double s[ITERATIONS][N], y[ITERATIONS][N], d[N], alpha[ITERATIONS];
    LK_TRY(loss(q, value));
    for (int n = 0; n < ITERATIONS && sqrt(dot(q->g, q->g)) > 1e-7; n++) {
        double t = rate, scale = 1;
        for (int i = 0; i < N; i++)
            d[i] = -q->g[i];
        if (n == 0) /* nothing is known of the curvature: go a short way */
            t *= fmin(1, 1 / (fabs(d[0]) + fabs(d[1]) + fabs(d[2])));
        for (int k = n - 1; k >= 0; k--) {
            alpha[k] = dot(s[k], d) / dot(s[k], y[k]);
            add(d, -alpha[k], y[k]);
        }
        if (n > 0)
            scale = dot(s[n - 1], y[n - 1]) / dot(y[n - 1], y[n - 1]);
        for (int i = 0; i < N; i++)
            d[i] *= scale;
        for (int k = 0; k < n; k++)
            add(d, alpha[k] - dot(y[k], d) / dot(s[k], y[k]), s[k]);
        for (int i = 0; i < N; i++) {
            s[n][i] = t * d[i];
            y[n][i] = -q->g[i];
        }
        add(q->p, 1, s[n]);
        LK_TRY(loss(q, value));
        add(y[n], 1, q->g);
        if (!(dot(s[n], y[n]) > 1e-10)) /* too little has changed to tell the curvature */
            break;
    }
    return LK_OK;
}

/* The same on all ranks and on one: every rank solves the whole problem besides, alone. */
static lk_status regression(lk_comm *comm, void *arg)
{
    lk_status st;
    struct problem all = {0}, own = {0};
    lk_comm *self = NULL;
    double value = 0, whole = 0, difference[N];
    (void)arg;
    LK_TRY_TO(done, lk_comm_open("self", &self));
    LK_TRY_TO(done, problem_new(comm, &all));
    LK_TRY_TO(done, problem_new(self, &own));
    LK_TRY_TO(done, loss(&all, &value));
    LK_TRY_TO(done, loss(&own, &whole));
    memcpy(difference, all.g, sizeof difference);
    add(difference, -1, own.g);
    bool same = sqrt(dot(difference, difference)) <= 1e-12 * sqrt(dot(own.g, own.g));
    LK_TRY_TO(done, lbfgs_step(&all, 1, &value));
    if (lk_comm_rank(comm) == 0) {
        printf("loss at [0, 1, 2]: %.6f\n", whole);
        printf("gradient: [%.6f, %.6f, %.6f]\n", own.g[0], own.g[1], own.g[2]);
        printf("on all ranks together: %s\n", same ? "the same to 12 digits" : "another");
        printf("after one step: [%.6f, %.6f, %.6f]\n", all.p[0], all.p[1], all.p[2]);
    }
done:
    problem_free(&all);
    problem_free(&own);
    lk_comm_free(self);
    return st;
}

int main(void)
{
    lk_status st;
    lk_comm *comm = NULL;
    LK_TRY_TO(done, lk_comm_open(NULL, &comm));
    if (strcmp(lk_comm_transport(comm), "mpi") == 0)
        LK_TRY_TO(done, regression(comm, NULL));
    else
        LK_TRY_TO(done, lk_run_local(4, regression, NULL));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_comm_free(comm);
    return st != LK_OK;
}
