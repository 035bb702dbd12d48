/* The gradient check between ranks: backward against differences of the sum of all ranks' losses.
 *
 * All ranks note the same numbers, so all have the same result.
 */
#include "base/fpenv.h"
#include "dist/common/check.h"

#include <math.h>
#include <stdio.h>

static const double LEAST_SCALE = 1e-3, SINGLE = 1e-4;

/* ---- comparison ---- */

/* Whether `error` is the worst yet by what is allowed; `*worst` is the largest of its kind. */
static bool worst_update(lk__node_check *k, double *worst, double error)
{
    const lk_gradcheck_result *r = k->result;
    if (isnan(error))
        error = HUGE_VAL; /* larger than all others, and it stays so */
    double most = fmax(fmax(r->first, r->second), r->adjoint) / k->tolerance;
    most = fmax(fmax(most, r->single / SINGLE), 0);
    if (error > *worst)
        *worst = error;
    return error / (worst == &r->single ? SINGLE : k->tolerance) > most;
}

static const char *group_text(const lk__node_check *k)
{
    return k->comm == k->all ? "" : ", split";
}

/* Where a tensor belongs, for messages. */
typedef struct place {
    const char *what; /* "input" or "cotangent" */
    int number;
    bool second;
} place;

/* Compare <grad, u> with differences along u, when `mover`, or all ranks if it is negative, move
 * their `t` (NULL: none here). */
static lk_status compare_along(lk__node_check *k, place at, int mover, lk_tensor *t,
                               const lk_tensor *grad, const lk_tensor *u, double *error)
{
    lk_gradcheck_result *r = k->result;
    double numeric, n[2] = {0, 0}; /* <grad, u>, and its scale */
    char mover_text[32] = "all ranks";
    if (mover >= 0 && mover != lk_comm_rank(k->all))
        t = NULL;
    LK_TRY(lk__check_differentiate(k, at.second, t, u, &numeric));
    for (int64_t e = 0; t && e < t->count; e++) {
        double term = lk__check_elements(grad)[e] * lk__check_elements(u)[e];
        n[0] += term;
        n[1] += fabs(term);
    }
    LK_TRY(lk__check_total(k, n, 2));
    *error = fabs(numeric - n[0]) / fmax(LEAST_SCALE + n[1], fabs(numeric));
    r->numbers++;
    if (mover >= 0)
        snprintf(mover_text, sizeof mover_text, "rank %d", mover);
    if (worst_update(k, at.second ? &r->second : &r->first, *error))
        snprintf(r->worst, sizeof r->worst,
                 "%s derivative, sample %d (%s%s), %s %d of %s: %.9g by differences, %.9g by "
                 "backward (error %.1e)",
                 at.second ? "second" : "first", k->number, k->sample->name, group_text(k), at.what,
                 at.number, mover_text, numeric, n[0], *error);
    return LK_OK;
}

/* Compare `grad` of the tensor `t` on all ranks at once; if it is wrong, rank by rank, to say where. */
static lk_status compare(lk__node_check *k, place at, lk_tensor *t, const lk_tensor *grad)
{
    lk_status st = LK_OK;
    lk_tensor *u = NULL;
    double error;
    if (t)
        LK_TRY_TO(done, lk__check_draw(k, LK_DRAW_U + 10 * at.second + at.number, t->shape, &u));
    LK_TRY_TO(done, compare_along(k, at, -1, t, grad, u, &error));
    for (int r = 0; !(error <= k->tolerance) && r < lk_comm_size(k->all); r++) {
        double own;
        LK_TRY_TO(done, compare_along(k, at, r, t, grad, u, &own));
    }
done:
    lk_tensor_free(u);
    return st;
}

/* <c, F x> and <F* c, x>, summed over ranks, of the evaluation at `p`. */
static lk_status check_identity(lk__node_check *k, const lk__check_values *v,
                                const lk__check_point *p, double *worst)
{
    lk_gradcheck_result *r = k->result;
    long double fx = 0, fc = 0, scale = 0;
    for (int j = 0; j < k->sample->n_out; j++)
        if (v->c[j])
            LK_TRY(lk__check_dot(p->y[j], v->c[j], &fx, &scale));
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY(lk__check_dot(p->g[i], v->x[i], &fc, &scale));
    double n[3] = {(double)fx, (double)fc, (double)scale / 2};
    LK_TRY(lk__check_total(k, n, 3));
    double error = fabs(n[0] - n[1]) / fmax(n[2], LEAST_SCALE);
    if (worst_update(k, worst, error))
        snprintf(r->worst, sizeof r->worst,
                 "adjoint%s, sample %d (%s%s): <c, F x> is %.9g, <F* c, x> is %.9g (error %.1e)",
                 worst == &r->single ? " in f32" : "", k->number, k->sample->name, group_text(k),
                 n[0], n[1], error);
    return LK_OK;
}

static lk_status check_first(lk__node_check *k)
{
    lk__check_point p;
    LK_TRY(lk__check_forward(k, &k->v, &p));
    LK_TRY(lk__check_backward(k, &k->v, &p, LK_RETAIN_GRAPH));
    if (k->sample->is_linear)
        LK_TRY(check_identity(k, &k->v, &p, &k->result->adjoint));
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY(lk__check_take(p.g[i], &k->g[i]));
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY(compare(k, (place){"input", i, false}, k->v.x[i], k->g[i]));
    return LK_OK;
}

/* dS/dx and dS/dc: the gradients of g, from which S is made with d. */
static lk_status differentiate_twice(lk__node_check *k, lk_tensor **dx, lk_tensor **dc)
{
    lk__check_point p;
    lk_var of[LK_CHECK_IN], seed[LK_CHECK_IN], wrt[LK_CHECK_IN + LK_CHECK_OUT],
        out[LK_CHECK_IN + LK_CHECK_OUT];
    lk_tensor **to[LK_CHECK_IN + LK_CHECK_OUT];
    int n_of = 0, n = 0;
    LK_TRY(lk__check_forward(k, &k->v, &p));
    LK_TRY(lk__check_backward(k, &k->v, &p, LK_RECORD));
    for (int i = 0; i < k->sample->n_in; i++) {
        to[n] = &dx[i];
        wrt[n++] = p.x[i];
        if (!lk_needs_grad(p.g[i]))
            continue;
        of[n_of] = p.g[i];
        LK_TRY(lk_constant(k->tape, k->d[i], &seed[n_of++]));
    }
    for (int j = 0; j < k->sample->n_out; j++)
        if (k->v.c[j]) {
            to[n] = &dc[j];
            wrt[n++] = p.c[j];
        }
    LK_TRY(lk_grad(k->tape, of, seed, n_of, wrt, n, LK_RETAIN_GRAPH, out));
    for (int m = 0; m < n; m++)
        LK_TRY(lk__check_take(out[m], to[m]));
    return LK_OK;
}

static lk_status check_second(lk__node_check *k)
{
    lk_status st;
    lk_tensor *dx[LK_CHECK_IN] = {NULL}, *dc[LK_CHECK_OUT] = {NULL};
    LK_TRY_TO(done, differentiate_twice(k, dx, dc));
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY_TO(done, compare(k, (place){"input", i, true}, k->v.x[i], dx[i]));
    for (int j = 0; j < k->sample->n_out; j++)
        LK_TRY_TO(done, compare(k, (place){"cotangent", j, true}, k->v.c[j], dc[j]));
done:
    for (int i = 0; i < LK_CHECK_IN; i++)
        lk_tensor_free(dx[i]);
    for (int j = 0; j < LK_CHECK_OUT; j++)
        lk_tensor_free(dc[j]);
    return st;
}

/* The gradients in f32 against those in f64. */
static lk_status compare_single(lk__node_check *k, const lk__check_point *p)
{
    lk_gradcheck_result *r = k->result;
    double n[2] = {0, LEAST_SCALE}; /* the largest difference and the largest element */
    for (int i = 0; i < k->sample->n_in; i++) {
        lk_tensor *g = NULL;
        LK_TRY(lk__check_take(p->g[i], &g));
        for (int64_t e = 0; e < g->count; e++) {
            double apart = fabs(lk__check_elements(g)[e] - lk__check_elements(k->g[i])[e]);
            n[0] = isnan(apart) ? HUGE_VAL : fmax(n[0], apart);
            n[1] = fmax(n[1], fabs(lk__check_elements(k->g[i])[e]));
        }
        lk_tensor_free(g);
    }
    LK_TRY(lk_allreduce(k->all, NULL, n, 2, LK_F64, LK_REDUCE_MAX, "gradcheck"));
    if (worst_update(k, &r->single, n[0] / n[1]))
        snprintf(r->worst, sizeof r->worst,
                 "first derivative in f32, sample %d (%s%s): it is %.9g off that in f64", k->number,
                 k->sample->name, group_text(k), n[0]);
    return LK_OK;
}

static lk_status check_single(lk__node_check *k)
{
    lk_status st;
    lk__check_point p;
    lk__check_values v = {{NULL}, {NULL}};
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY_TO(done, lk_tensor_clone(k->v.x[i], LK_F32, &v.x[i]));
    for (int j = 0; j < k->sample->n_out; j++)
        if (k->v.c[j])
            LK_TRY_TO(done, lk_tensor_clone(k->v.c[j], LK_F32, &v.c[j]));
    LK_TRY_TO(done, lk__check_forward(k, &v, &p));
    LK_TRY_TO(done, lk__check_backward(k, &v, &p, LK_RETAIN_GRAPH));
    LK_TRY_TO(done, compare_single(k, &p));
    if (k->sample->is_linear)
        LK_TRY_TO(done, check_identity(k, &v, &p, &k->result->single));
done:
    lk_tape_reset(k->tape);
    for (int i = 0; i < LK_CHECK_IN; i++)
        lk_tensor_free(v.x[i]);
    for (int j = 0; j < LK_CHECK_OUT; j++)
        lk_tensor_free(v.c[j]);
    return st;
}

/* ---- samples ---- */

static lk_status check_sample(lk__node_check *k)
{
    LK_TRY(lk__check_start(k));
    LK_TRY(check_first(k));
    LK_TRY(check_second(k));
    LK_TRY(check_single(k));
    k->result->samples++;
    return LK_OK;
}

/* All samples, on the groups that `comm` is this rank's of. */
static lk_status check_on(lk_comm *all, lk_comm *comm, const lk_dist_check *node, lk_rng rng,
                          double tolerance, lk_gradcheck_result *out)
{
    for (int n = 0; node->samples[n].name; n++) {
        lk__node_check k = {.all = all,
                            .comm = comm,
                            .sample = &node->samples[n],
                            .number = n,
                            .rng = rng,
                            .result = out,
                            .tolerance = tolerance};
        lk_status st = check_sample(&k);
        lk__check_free(&k);
        LK_TRY(st);
    }
    return LK_OK;
}

int lk_dist_root(const lk_dist_sample *sample, const lk_comm *comm)
{
    int size = lk_comm_size(comm);
    return (sample->root % size + size) % size;
}

lk_status lk_gradcheck_dist(lk_comm *comm, const lk_dist_check *check, int64_t seed,
                            double tolerance, lk_gradcheck_result *out)
{
    LK_FP_GUARD_LONG();
    *out = (lk_gradcheck_result){.first = -1, .adjoint = -1, .second = -1, .single = -1};
    LK_CHECK(comm && check && check->name, LK_EINVAL, "%s",
             comm ? "check is NULL, or has no name" : "comm is NULL");
    LK_CHECK(check->samples && check->samples[0].name, LK_EINVAL, "check \"%s\" has no samples",
             check->name);
    lk_rng rng = lk_rng_start(seed, check->name, "gradcheck");
    LK_TRY(check_on(comm, comm, check, rng, tolerance, out));
    if (lk_comm_size(comm) > 1) {
        int rank = lk_comm_rank(comm);
        lk_comm *half = NULL;
        LK_TRY(lk_comm_split(comm, rank % 2, -rank, &half));
        lk_status st = check_on(comm, half, check, rng, tolerance, out);
        lk_comm_close(half);
        LK_TRY(st);
    }
    out->pass = out->numbers > 0 && out->first <= tolerance && out->adjoint <= tolerance &&
                out->second <= tolerance && out->single <= SINGLE;
    return LK_OK;
}
