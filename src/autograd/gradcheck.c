/* The gradient check: backward against central differences.
 *
 * A check owns one tensor for each input, one for each output's cotangent, and one for each input's
 * direction d.  Evaluating it at a point is a pass over a fresh tape; a derivative is four of them.
 */
#include "base/fpenv.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/gradcheck.h>
#include <lockstep/rng.h>

#include <math.h>
#include <stdio.h>

static const double STEP = 1e-4, LEAST_SCALE = 1e-3;

typedef struct check {
    const lk_op *op;
    const lk_op_sample *sample;
    int number; /* of the sample */
    lk_tape *tape;
    lk_tensor *x[LK_SAMPLE_MAX_IN], *d[LK_SAMPLE_MAX_IN], *c[LK_MAX_OUT];
    lk_gradcheck_result *result;
} check;

/* What one evaluation has on the tape. */
typedef struct point {
    lk_var x[LK_SAMPLE_MAX_IN], y[LK_MAX_OUT], c[LK_MAX_OUT], g[LK_SAMPLE_MAX_IN];
} point;

static double *elements(const lk_tensor *t)
{
    return (double *)(void *)lk__tensor_start(t);
}

static bool is_real(const check *k, int i)
{
    return k->sample->in[i].kind == LK_SAMPLE_REAL;
}

/* ---- inputs ---- */

/* Uniform draws in (lo, hi). */
static lk_status draw(lk_rng rng, int64_t place, double lo, double hi, lk_tensor *t)
{
    LK_TRY(lk_rng_uniform_f64(rng, (lk_rng_at){.sample = place}, t->count, elements(t)));
    for (int64_t e = 0; e < t->count; e++)
        elements(t)[e] = lo + (hi - lo) * elements(t)[e];
    return LK_OK;
}

static lk_status draw_index(lk_rng rng, int64_t place, const lk_op_sample_input *in, lk_tensor *t)
{
    int64_t *index = (int64_t *)(void *)lk__tensor_start(t);
    LK_TRY(lk_rng_below(rng, (lk_rng_at){.sample = place}, (int64_t)(in->hi - in->lo), t->count,
                        index));
    for (int64_t e = 0; e < t->count; e++)
        index[e] += (int64_t)in->lo;
    return LK_OK;
}

/* Spread the elements of all real inputs: each its own place of an even number of places in the
 * range, a little off its middle, so that no two are near each other and none is near the centre. */
static lk_status draw_spread(check *k, lk_rng rng)
{
    int64_t total = 0, at = 0;
    for (int i = 0; i < k->sample->n_in; i++)
        total += is_real(k, i) ? k->x[i]->count : 0;
    int64_t places = total + total % 2;
    for (int i = 0; i < k->sample->n_in; i++) {
        const lk_op_sample_input *in = &k->sample->in[i];
        double lo = in->lo, hi = in->hi;
        if (lo == 0 && hi == 0) {
            lo = -1;
            hi = 1;
        }
        if (in->kind == LK_SAMPLE_INDEX)
            LK_TRY(draw_index(rng, i, in, k->x[i]));
        else
            LK_TRY(draw(rng, i, in->kind == LK_SAMPLE_REAL ? -0.15 : lo,
                        in->kind == LK_SAMPLE_REAL ? 0.15 : hi, k->x[i]));
        for (int64_t e = 0; is_real(k, i) && e < k->x[i]->count; e++) {
            int64_t place;
            LK_TRY(lk_rng_permute(rng, k->number, places, at++, 1, &place));
            double *v = &elements(k->x[i])[e];
            *v = lo + (hi - lo) * ((double)place + 0.5 + *v) / (double)places;
        }
    }
    return LK_OK;
}

static lk_status inputs_make(check *k, lk_rng rng)
{
    const lk_op_sample *s = k->sample;
    for (int i = 0; i < s->n_in; i++) {
        lk_dtype dtype = s->in[i].kind == LK_SAMPLE_INDEX ? LK_I64 : LK_F64;
        LK_TRY(lk_tensor_new(dtype, s->in[i].shape, &k->x[i]));
        LK_TRY(lk_tensor_new(LK_F64, s->in[i].shape, &k->d[i]));
        LK_TRY(draw(rng, 100 + i, -1, 1, k->d[i]));
    }
    return LK_TRACE(draw_spread(k, rng));
}

/* ---- evaluation ---- */

/* y of the inputs as they are now, on an empty tape. */
static lk_status forward(check *k, point *p)
{
    const lk_op_sample *s = k->sample;
    *p = (point){0};
    lk_tape_reset(k->tape);
    for (int i = 0; i < s->n_in; i++)
        LK_TRY(is_real(k, i) ? lk_leaf(k->tape, k->x[i], NULL, &p->x[i])
                             : lk_constant(k->tape, k->x[i], &p->x[i]));
    return LK_TRACE(lk_apply(k->tape, k->op, p->x, s->n_in, s->attr, p->y));
}

/* Whether output `j` has a gradient to check. */
static bool counts(const check *k, int j)
{
    return k->c[j] != NULL;
}

/* Make a cotangent for each output that has a gradient. */
static lk_status cotangents_make(check *k, lk_rng rng)
{
    point p;
    bool any = false;
    LK_TRY(forward(k, &p));
    for (int j = 0; j < k->op->n_out; j++) {
        if (lk_dtype_of(p.y[j]) != LK_F64 || !lk_needs_grad(p.y[j]))
            continue;
        LK_TRY(lk_tensor_new(LK_F64, lk_shape_of(p.y[j]), &k->c[j]));
        LK_TRY(draw(rng, 200 + j, -1, 1, k->c[j]));
        any = true;
    }
    LK_CHECK(any, LK_EINVAL, "sample %d of op \"%s\" gives no output with a gradient", k->number,
             k->op->name);
    return LK_OK;
}

/* g = dL/dx as variables; recorded ones depend on x and c. */
static lk_status backward(check *k, point *p, unsigned flags)
{
    lk_var of[LK_MAX_OUT], seed[LK_MAX_OUT], wrt[LK_SAMPLE_MAX_IN], g[LK_SAMPLE_MAX_IN];
    int n_of = 0, n = 0;
    for (int j = 0; j < k->op->n_out; j++) {
        if (!counts(k, j))
            continue;
        LK_TRY(lk_leaf(k->tape, k->c[j], NULL, &p->c[j]));
        of[n_of] = p->y[j];
        seed[n_of++] = p->c[j];
    }
    for (int i = 0; i < k->sample->n_in; i++)
        if (is_real(k, i))
            wrt[n++] = p->x[i];
    LK_TRY(lk_grad(k->tape, of, seed, n_of, wrt, n, flags, g));
    n = 0;
    for (int i = 0; i < k->sample->n_in; i++)
        if (is_real(k, i))
            p->g[i] = g[n++];
    return LK_OK;
}

/* A copy of a variable's elements that the caller frees. */
static lk_status take(lk_var v, lk_tensor **out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(v, &t));
    return LK_TRACE(lk_tensor_clone(t, LK_F64, out));
}

/* sum of a * b; in long double, so that differences of sums are as good as differences of terms. */
static lk_status dot(lk_var a, const lk_tensor *b, long double *sum)
{
    lk_tensor *t = NULL;
    LK_TRY(take(a, &t));
    for (int64_t e = 0; e < t->count; e++)
        *sum += (long double)elements(t)[e] * (long double)elements(b)[e];
    lk_tensor_free(t);
    return LK_OK;
}

/* L, or S if `second`, of the inputs as they are now. */
static lk_status evaluate(check *k, bool second, long double *out)
{
    point p;
    *out = 0;
    LK_TRY(forward(k, &p));
    if (second)
        LK_TRY(backward(k, &p, 0));
    for (int j = 0; !second && j < k->op->n_out; j++)
        if (counts(k, j))
            LK_TRY(dot(p.y[j], k->c[j], out));
    for (int i = 0; second && i < k->sample->n_in; i++)
        if (is_real(k, i))
            LK_TRY(dot(p.g[i], k->d[i], out));
    return LK_OK;
}

/* dL/dv or dS/dv of one element by differences. */
static lk_status differentiate(check *k, bool second, double *v, double *out)
{
    static const int offset[4] = {1, -1, 2, -2};
    long double f[4];
    double at = *v, h = STEP * (fabs(at) > 1 ? fabs(at) : 1);
    for (int m = 0; m < 4; m++) {
        *v = at + offset[m] * h;
        lk_status st = evaluate(k, second, &f[m]);
        *v = at;
        LK_TRY(st);
    }
    *out = (double)((8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * (long double)h));
    return LK_OK;
}

/* ---- comparison ---- */

/* Where a number belongs, for messages. */
typedef struct place {
    const char *what; /* "input" or "cotangent" */
    int number;
    bool second;
} place;

static void worst_update(check *k, place at, int64_t e, double error, double numeric,
                         double analytic)
{
    lk_gradcheck_result *r = k->result;
    double *worst = at.second ? &r->second : &r->first;
    if (isnan(error))
        error = HUGE_VAL; /* larger than all others, and it stays so */
    bool largest = error > fmax(fmax(r->first, r->second), fmax(r->adjoint, 0));
    if (error > *worst)
        *worst = error;
    if (largest)
        snprintf(r->worst, sizeof r->worst,
                 "%s derivative, sample %d, %s %d, element %lld: %.9g by differences, %.9g by "
                 "backward (error %.1e)",
                 at.second ? "second" : "first", k->number, at.what, at.number, (long long)e,
                 numeric, analytic, error);
}

/* Compare the gradient `by_backward` with differences along each element of `v`. */
static lk_status compare(check *k, place at, const lk_tensor *v, const lk_tensor *by_backward)
{
    lk_status st;
    double *numeric = NULL, scale = LEAST_SCALE;
    LK_TRY(lk_alloc(&numeric, v->count, sizeof *numeric));
    for (int64_t e = 0; e < v->count; e++) {
        LK_TRY_TO(done, differentiate(k, at.second, &elements(v)[e], &numeric[e]));
        if (isfinite(numeric[e]) && isfinite(elements(by_backward)[e]))
            scale = fmax(scale, fmax(fabs(numeric[e]), fabs(elements(by_backward)[e])));
    }
    st = LK_OK;
    for (int64_t e = 0; e < v->count; e++) {
        double a = elements(by_backward)[e];
        worst_update(k, at, e, fabs(a - numeric[e]) / scale, numeric[e], a);
        k->result->numbers++;
    }
done:
    lk_free(numeric);
    return st;
}

/* g: the gradients, NULL where an input is not real. */
static lk_status check_adjoint(check *k, lk_tensor *const *g)
{
    long double forward_sum = 0, backward_sum = 0, scale = 0;
    LK_TRY(evaluate(k, false, &forward_sum));
    for (int i = 0; i < k->sample->n_in; i++)
        for (int64_t e = 0; g[i] && e < k->x[i]->count; e++) {
            long double term = (long double)elements(g[i])[e] * (long double)elements(k->x[i])[e];
            backward_sum += term;
            scale += fabsl(term);
        }
    scale = fmaxl(scale, fabsl(forward_sum));
    if (scale == 0)
        scale = 1;
    double error = (double)(fabsl(forward_sum - backward_sum) / scale);
    lk_gradcheck_result *r = k->result;
    if (isnan(error))
        error = HUGE_VAL;
    if (error > fmax(fmax(r->first, r->second), fmax(r->adjoint, 0)))
        snprintf(r->worst, sizeof r->worst,
                 "adjoint, sample %d: <c, F x> is %.9g, <F* c, x> is %.9g (error %.1e)", k->number,
                 (double)forward_sum, (double)backward_sum, error);
    if (error > r->adjoint)
        r->adjoint = error;
    return LK_OK;
}

static lk_status check_first(check *k)
{
    lk_status st;
    point p;
    lk_tensor *g[LK_SAMPLE_MAX_IN] = {NULL};
    LK_TRY_TO(done, forward(k, &p));
    LK_TRY_TO(done, backward(k, &p, 0));
    for (int i = 0; i < k->sample->n_in; i++)
        if (is_real(k, i))
            LK_TRY_TO(done, take(p.g[i], &g[i]));
    for (int i = 0; i < k->sample->n_in; i++)
        if (is_real(k, i))
            LK_TRY_TO(done, compare(k, (place){"input", i, false}, k->x[i], g[i]));
    if (k->op->flags & LK_OP_LINEAR)
        LK_TRY_TO(done, check_adjoint(k, g));
done:
    for (int i = 0; i < k->sample->n_in; i++)
        lk_tensor_free(g[i]);
    return st;
}

/* dS/dx and dS/dc: the gradients of g, from which S is made with d. */
static lk_status differentiate_twice(check *k, point *p, lk_tensor **dx, lk_tensor **dc)
{
    lk_var of[LK_SAMPLE_MAX_IN], seed[LK_SAMPLE_MAX_IN], wrt[LK_SAMPLE_MAX_IN + LK_MAX_OUT];
    lk_var out[LK_SAMPLE_MAX_IN + LK_MAX_OUT];
    lk_tensor **to[LK_SAMPLE_MAX_IN + LK_MAX_OUT];
    int n_of = 0, n = 0;
    LK_TRY(forward(k, p));
    LK_TRY(backward(k, p, LK_RECORD));
    for (int i = 0; i < k->sample->n_in; i++) {
        if (!is_real(k, i))
            continue;
        to[n] = &dx[i];
        wrt[n++] = p->x[i];
        if (!lk_needs_grad(p->g[i]))
            continue;
        of[n_of] = p->g[i];
        LK_TRY(lk_constant(k->tape, k->d[i], &seed[n_of++]));
    }
    for (int j = 0; j < k->op->n_out; j++)
        if (counts(k, j)) {
            to[n] = &dc[j];
            wrt[n++] = p->c[j];
        }
    LK_TRY(lk_grad(k->tape, of, seed, n_of, wrt, n, LK_RETAIN_GRAPH, out));
    for (int m = 0; m < n; m++)
        LK_TRY(take(out[m], to[m]));
    return LK_OK;
}

static lk_status check_second(check *k)
{
    lk_status st;
    point p;
    lk_tensor *dx[LK_SAMPLE_MAX_IN] = {NULL}, *dc[LK_MAX_OUT] = {NULL};
    LK_TRY_TO(done, differentiate_twice(k, &p, dx, dc));
    for (int i = 0; i < k->sample->n_in; i++)
        if (is_real(k, i))
            LK_TRY_TO(done, compare(k, (place){"input", i, true}, k->x[i], dx[i]));
    for (int j = 0; j < k->op->n_out; j++)
        if (counts(k, j))
            LK_TRY_TO(done, compare(k, (place){"cotangent", j, true}, k->c[j], dc[j]));
done:
    for (int i = 0; i < LK_SAMPLE_MAX_IN; i++)
        lk_tensor_free(dx[i]);
    for (int j = 0; j < LK_MAX_OUT; j++)
        lk_tensor_free(dc[j]);
    return st;
}

static lk_status check_sample(check *k, lk_rng rng)
{
    LK_TRY(lk_tape_new(&k->tape));
    LK_TRY(lk_tape_set_shard_size(k->tape, k->sample->shard_size));
    LK_TRY(inputs_make(k, rng));
    LK_TRY(cotangents_make(k, rng));
    LK_TRY(check_first(k));
    if (!(k->op->flags & LK_OP_FIRST_ORDER))
        LK_TRY(check_second(k));
    k->result->samples++;
    return LK_OK;
}

static void check_free(check *k)
{
    lk_tape_free(k->tape);
    for (int i = 0; i < LK_SAMPLE_MAX_IN; i++) {
        lk_tensor_free(k->x[i]);
        lk_tensor_free(k->d[i]);
    }
    for (int j = 0; j < LK_MAX_OUT; j++) {
        lk_tensor_free(k->c[j]);
    }
}

lk_status lk_gradcheck(const lk_op *op, int64_t seed, double tolerance, lk_gradcheck_result *out)
{
    LK_FP_GUARD_LONG();
    *out = (lk_gradcheck_result){.first = -1, .adjoint = -1, .second = -1, .single = -1};
    LK_CHECK(op && op->name, LK_EINVAL, "op is NULL, or has no name");
    LK_CHECK(op->backward, LK_EINVAL, "op \"%s\" has no backward to check", op->name);
    LK_CHECK(op->samples && op->samples[0].n_in > 0, LK_EINVAL, "op \"%s\" has no samples",
             op->name);
    lk_rng rng = lk_rng_start(seed, op->name, "gradcheck");
    for (int n = 0; op->samples[n].n_in > 0; n++) {
        check k = {.op = op, .sample = &op->samples[n], .number = n, .result = out};
        lk_status st = check_sample(&k, rng);
        check_free(&k);
        LK_TRY(st);
    }
    out->pass = out->numbers > 0 && out->first <= tolerance && out->adjoint <= tolerance &&
                out->second <= tolerance;
    return LK_OK;
}
