/* Every op of the registry when memory runs out, on its own samples: forward, backward and the
 * recorded backward.  Every allocation fails in turn. */
#include "faults.h"

#include <lockstep/lockstep.h>

/* An op with its inputs, and what it gives: outputs, and gradients of all of them together. */
typedef struct trial {
    const lk_op *op;
    const lk_op_sample *sample;
    bool twice; /* differentiate the gradients again */
    lk_tape *tape;
    lk_var x[LK_SAMPLE_MAX_IN], y[LK_MAX_OUT], g[LK_SAMPLE_MAX_IN];
    int n_g;
} trial;

static lk_status draw(const trial *t, int i, lk_tensor *to)
{
    const lk_op_sample_input *in = &t->sample->in[i];
    lk_rng rng = lk_rng_start(i, t->op->name, "every op");
    bool usual = in->lo == 0 && in->hi == 0;
    double lo = usual ? -1 : in->lo, hi = usual ? 1 : in->hi;
    void *data = NULL;
    LK_TRY(lk_tensor_writable_data(to, &data));
    for (int64_t e = 0; e < lk_tensor_count(to); e++) {
        double u;
        int64_t k;
        lk_rng_at at = {.element = e};
        LK_TRY(lk_rng_uniform_f64(rng, at, 1, &u));
        if (in->kind == LK_SAMPLE_INDEX) {
            LK_TRY(lk_rng_below(rng, at, (int64_t)(hi - lo), 1, &k));
            ((int64_t *)data)[e] = (int64_t)lo + k;
        } else {
            ((double *)data)[e] = lo + (hi - lo) * u;
        }
    }
    return LK_OK;
}

static lk_status put_input(trial *t, int i)
{
    lk_status st;
    lk_tensor *x = NULL;
    lk_op_sample_kind kind = t->sample->in[i].kind;
    LK_TRY(lk_tensor_new(kind == LK_SAMPLE_INDEX ? LK_I64 : LK_F64, t->sample->in[i].shape, &x));
    LK_TRY_TO(done, draw(t, i, x));
    LK_TRY_TO(done, kind == LK_SAMPLE_REAL ? lk_leaf(t->tape, x, NULL, &t->x[i])
                                           : lk_constant(t->tape, x, &t->x[i]));
done:
    lk_tensor_free(x);
    return st;
}

/* t->g = the gradients of the sum of all elements of `of`, for the real inputs. */
static lk_status differentiate(trial *t, const lk_var *of, int n, unsigned flags)
{
    lk_var from[LK_SAMPLE_MAX_IN + LK_MAX_OUT], seed[LK_SAMPLE_MAX_IN + LK_MAX_OUT];
    lk_var wrt[LK_SAMPLE_MAX_IN], g[LK_SAMPLE_MAX_IN];
    int n_from = 0;
    t->n_g = 0;
    for (int j = 0; j < n; j++) {
        if (!lk_needs_grad(of[j]))
            continue;
        LK_TRY(lk_full(t->tape, lk_dtype_of(of[j]), lk_shape_of(of[j]), 1.5, &seed[n_from]));
        from[n_from++] = of[j];
    }
    for (int i = 0; i < t->sample->n_in; i++)
        if (t->sample->in[i].kind == LK_SAMPLE_REAL)
            wrt[t->n_g++] = t->x[i];
    LK_TRY(lk_grad(t->tape, from, seed, n_from, wrt, t->n_g, flags, g));
    memcpy(t->g, g, sizeof g);
    return LK_OK;
}

static lk_status run(trial *t)
{
    lk_var g[LK_SAMPLE_MAX_IN];
    LK_TRY(lk_tape_new(&t->tape));
    LK_TRY(lk_tape_set_shard_size(t->tape, t->sample->shard_size));
    for (int i = 0; i < t->sample->n_in; i++)
        LK_TRY(put_input(t, i));
    LK_TRY(lk_apply(t->tape, t->op, t->x, t->sample->n_in, t->sample->attr, t->y));
    LK_TRY(differentiate(t, t->y, t->op->n_out, t->twice ? LK_RECORD : LK_RETAIN_GRAPH));
    memcpy(g, t->g, sizeof g);
    if (t->twice)
        LK_TRY(differentiate(t, g, t->n_g, LK_RETAIN_GRAPH));
    return LK_OK;
}

/* Whether an op has a sample number n; one without gradients has none. */
static bool has_sample(const lk_op *op, int n)
{
    return op->samples && op->samples[n].n_in > 0;
}

static trial scene;

static lk_status scenario(void)
{
    trial t = scene;
    lk_status st = run(&t);
    lk_tape_free(t.tape);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_OK(lk_threads_set(1));
    for (int k = 0; lk_ops[k]; k++)
        for (int n = 0; has_sample(lk_ops[k], n); n++)
            for (int twice = 0; twice < 2; twice++) {
                scene = (trial){.op = lk_ops[k],
                                .sample = &lk_ops[k]->samples[n],

                                .twice = twice};
                ASSERT_TRUE(test_every_allocation_fails(scenario) > 2);
            }
    ASSERT_OK(lk_threads_set(0));
}
