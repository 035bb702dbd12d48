/* Evaluating a sample of a gradient check between ranks: inputs, forward and backward, differences. */
#include "dist/common/check.h"

#include <math.h>

static const double STEP = 1e-4;

lk_status lk__check_total(const lk__node_check *k, double *v, int n)
{
    return LK_TRACE(lk_allreduce(k->all, NULL, v, n, LK_F64, LK_REDUCE_SUM, "gradcheck"));
}

/* ---- inputs ---- */

lk_status lk__check_draw(const lk__node_check *k, int purpose, lk_shape shape, lk_tensor **out)
{
    lk_rng_at at = {.step = purpose, .sample = lk_comm_rank(k->all)};
    LK_TRY(lk_tensor_new(LK_F64, shape, out));
    LK_TRY(lk_rng_uniform_f64(k->rng, at, (*out)->count, lk__check_elements(*out)));
    for (int64_t e = 0; e < (*out)->count; e++)
        lk__check_elements(*out)[e] = 2 * lk__check_elements(*out)[e] - 1;
    return LK_OK;
}

/* Input `i`: in each element, the ranks have as many places in the range, a little off their middles,
 * so that no two ranks are near each other. */
static lk_status input_make(lk__node_check *k, int i)
{
    const lk_dist_sample *s = k->sample;
    int rank = lk_comm_rank(k->all), size = lk_comm_size(k->all);
    double lo = s->lo, hi = s->hi;
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    lk_shape shape = s->shape(s, lk_comm_rank(k->comm), lk_comm_size(k->comm), i);
    LK_TRY(lk__check_draw(k, LK_DRAW_D + i, shape, &k->d[i]));
    LK_TRY(lk__check_draw(k, LK_DRAW_X + i, shape, &k->v.x[i]));
    for (int64_t e = 0; e < k->v.x[i]->count; e++) {
        int64_t place;
        double *v = &lk__check_elements(k->v.x[i])[e];
        LK_TRY(lk_rng_permute(k->rng, e, size, rank, 1, &place));
        *v = lo + (hi - lo) * ((double)place + 0.5 + 0.3 * *v) / size;
        if (s->has_zeros && (rank + e) % 3 == 0)
            *v = 0;
    }
    return LK_OK;
}

/* ---- evaluation ---- */

static bool has_gradient(lk_var y)
{
    return lk_is_var(y) && lk_dtype_is_real(lk_dtype_of(y)) && lk_needs_grad(y);
}

lk_status lk__check_forward(lk__node_check *k, const lk__check_values *v, lk__check_point *p)
{
    *p = (lk__check_point){0};
    lk_tape_reset(k->tape);
    LK_TRY(lk_barrier(k->all, "evaluation")); /* a message from any rank is then one of this one */
    for (int i = 0; i < k->sample->n_in; i++)
        LK_TRY(lk_leaf(k->tape, v->x[i], NULL, &p->x[i]));
    return LK_TRACE(k->sample->run(k->sample, k->comm, p->x, p->y));
}

lk_status lk__check_backward(lk__node_check *k, const lk__check_values *v, lk__check_point *p,
                             unsigned flags)
{
    lk_var of[LK_CHECK_OUT], seed[LK_CHECK_OUT];
    int n = 0;
    for (int j = 0; j < k->sample->n_out; j++) {
        if (!v->c[j])
            continue;
        LK_TRY(lk_leaf(k->tape, v->c[j], NULL, &p->c[j]));
        of[n] = p->y[j];
        seed[n++] = p->c[j];
    }
    return LK_TRACE(lk_grad(k->tape, of, seed, n, p->x, k->sample->n_in, flags, p->g));
}

lk_status lk__check_take(lk_var v, lk_tensor **out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(v, &t));
    return LK_TRACE(lk_tensor_clone(t, LK_F64, out));
}

lk_status lk__check_dot(lk_var a, const lk_tensor *b, long double *sum, long double *scale)
{
    lk_status st = LK_OK;
    lk_tensor *ta = NULL, *tb = NULL;
    LK_TRY_TO(done, lk__check_take(a, &ta));
    LK_TRY_TO(done, lk_tensor_clone(b, LK_F64, &tb));
    for (int64_t e = 0; e < ta->count; e++) {
        long double term = (long double)lk__check_elements(ta)[e] *
                           (long double)lk__check_elements(tb)[e];
        *sum += term;
        *scale += fabsl(term);
    }
done:
    lk_tensor_free(ta);
    lk_tensor_free(tb);
    return st;
}

/* This rank's part of L, or of S if `second`. */
static lk_status evaluate(lk__node_check *k, bool second, long double *out)
{
    lk__check_point p;
    long double scale = 0;
    *out = 0;
    LK_TRY(lk__check_forward(k, &k->v, &p));
    if (second)
        LK_TRY(lk__check_backward(k, &k->v, &p, 0));
    for (int j = 0; !second && j < k->sample->n_out; j++)
        if (k->v.c[j])
            LK_TRY(lk__check_dot(p.y[j], k->v.c[j], out, &scale));
    for (int i = 0; second && i < k->sample->n_in; i++)
        LK_TRY(lk__check_dot(p.g[i], k->d[i], out, &scale));
    return LK_OK;
}

lk_status lk__check_differentiate(lk__node_check *k, bool second, lk_tensor *t, const lk_tensor *u,
                                  double *out)
{
    lk_status st = LK_OK;
    static const int offset[4] = {1, -1, 2, -2};
    lk_tensor *at = NULL;
    double f[4];
    if (t)
        LK_TRY(lk_tensor_clone(t, LK_F64, &at));
    for (int m = 0; m < 4; m++) {
        long double part;
        for (int64_t e = 0; t && e < t->count; e++)
            lk__check_elements(t)[e] = lk__check_elements(at)[e] +
                                       offset[m] * STEP * lk__check_elements(u)[e];
        LK_TRY_TO(done, evaluate(k, second, &part));
        f[m] = (double)part;
    }
    LK_TRY_TO(done, lk__check_total(k, f, 4));
    *out = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * STEP);
    if (t)
        LK_TRY_TO(done, lk_tensor_copy(at, t));
done:
    lk_tensor_free(at);
    return st;
}

lk_status lk__check_start(lk__node_check *k)
{
    const lk_dist_sample *s = k->sample;
    lk__check_point p;
    double outputs = 0;
    LK_CHECK(s->n_in >= 1 && s->n_in <= LK_CHECK_IN && s->n_out >= 1 && s->n_out <= LK_CHECK_OUT,
             LK_EINVAL,
             "sample %d (%s) has %d inputs and %d outputs; 1 to %d and 1 to %d are possible",
             k->number, s->name, s->n_in, s->n_out, LK_CHECK_IN, LK_CHECK_OUT);
    LK_TRY(lk_tape_new(&k->tape));
    for (int i = 0; i < s->n_in; i++)
        LK_TRY(input_make(k, i));
    LK_TRY(lk__check_forward(k, &k->v, &p));
    for (int j = 0; j < s->n_out; j++) {
        if (!has_gradient(p.y[j]))
            continue;
        LK_TRY(lk__check_draw(k, LK_DRAW_C + j, lk_shape_of(p.y[j]), &k->v.c[j]));
        outputs++;
    }
    LK_TRY(lk__check_total(k, &outputs, 1));
    LK_CHECK(outputs > 0, LK_EINVAL, "sample %d (%s) gives no rank an output with a gradient",
             k->number, s->name);
    return LK_OK;
}

void lk__check_free(lk__node_check *k)
{
    lk_tape_free(k->tape);
    for (int i = 0; i < LK_CHECK_IN; i++) {
        lk_tensor_free(k->v.x[i]);
        lk_tensor_free(k->d[i]);
        lk_tensor_free(k->g[i]);
    }
    for (int j = 0; j < LK_CHECK_OUT; j++)
        lk_tensor_free(k->v.c[j]);
}
