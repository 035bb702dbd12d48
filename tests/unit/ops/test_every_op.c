/* What holds for every op of the registry, on its own samples: f32 is near f64, threads and
 * instruction sets give the same bits, and so do inputs that are views with gaps. */
#include "harness.h"

#include <lockstep/extra/isa.h>
#include <lockstep/lockstep.h>

enum { MAX_OUT = LK_MAX_OUT, MAX_IN = LK_SAMPLE_MAX_IN };

/* Inputs of a sample, and what an op made of them: outputs, then gradients. */
struct run {
    lk_tensor *in[MAX_IN];
    lk_tensor *out[MAX_OUT + MAX_IN];
};

/* The inputs, rounded to f32 so that both types compute with the same numbers. */
static void inputs_make(const lk_op *op, const lk_op_sample *s, lk_dtype real, struct run *r)
{
    lk_rng rng = lk_rng_start(3, op->name, "test");
    for (int i = 0; i < s->n_in; i++) {
        const lk_op_sample_input *in = &s->in[i];
        bool index = in->kind == LK_SAMPLE_INDEX, given = in->lo != 0 || in->hi != 0;
        double lo = given ? in->lo : -1, hi = given ? in->hi : 1;
        lk_tensor *flat, *t;
        ASSERT_OK(lk_tensor_new(index ? LK_I64 : real, in->shape, &t));
        ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(lk_tensor_count(t)), &flat));
        for (int64_t e = 0; e < lk_tensor_count(t); e++) {
            double u;
            lk_rng_at at = {.sample = i, .element = e};
            ASSERT_OK(lk_rng_uniform_f64(rng, at, 1, &u));
            if (index)
                ASSERT_OK(lk_tensor_set_i64(flat, LK_AT(e), (int64_t)(lo + u * (hi - lo))));
            else
                ASSERT_OK(lk_tensor_set_f64(flat, LK_AT(e), (double)(float)(lo + u * (hi - lo))));
        }
        lk_tensor_free(flat);
        r->in[i] = t;
    }
}

/* The same elements with a gap behind each: every other one of an axis twice as long. */
static lk_tensor *with_gaps(const lk_tensor *t)
{
    lk_shape shape = lk_tensor_shape(t);
    lk_tensor *wide, *view;
    if (shape.ndim == 0)
        shape = LK_SHAPE(1);
    shape.dim[shape.ndim - 1] *= 2;
    ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(t), shape, &wide));
    ASSERT_OK(lk_tensor_slice(wide, shape.ndim - 1, 0, shape.dim[shape.ndim - 1], 2, &view));
    lk_tensor_free(wide);
    if (lk_tensor_shape(t).ndim == 0) {
        ASSERT_OK(lk_tensor_select(view, 0, 0, &wide));
        lk_tensor_free(view);
        view = wide;
    }
    ASSERT_OK(lk_tensor_copy(t, view));
    return view;
}

static lk_status take(lk_var v, lk_tensor **out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(v, &t));
    return LK_TRACE(lk_tensor_clone(t, lk_tensor_dtype(t), out));
}

/* A cotangent for output `j`: random, because equal ones cancel where an op subtracts means. */
static lk_status seed_make(lk_var y, int j, lk_var *out)
{
    lk_tensor *flat, *t;
    LK_TRY(lk_tensor_new(lk_dtype_of(y), lk_shape_of(y), &t));
    ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(lk_tensor_count(t)), &flat));
    for (int64_t e = 0; e < lk_tensor_count(t); e++) {
        float u;
        lk_rng_at at = {.sample = j, .element = e};
        ASSERT_OK(lk_rng_uniform_f32(lk_rng_start(3, "cotangent", "test"), at, 1, &u));
        ASSERT_OK(lk_tensor_set_f64(flat, LK_AT(e), (double)u + 0.5));
    }
    lk_tensor_free(flat);
    lk_status st = lk_constant(y.tape, t, out);
    lk_tensor_free(t);
    return st;
}

/* Forward, and backward from random cotangents. */
static lk_status compute(const lk_op *op, const lk_op_sample *s, lk_tape *tape, struct run *r)
{
    lk_var in[MAX_IN], y[MAX_OUT], of[MAX_OUT], seed[MAX_OUT], wrt[MAX_IN], g[MAX_IN];
    int n_of = 0, n = 0;
    LK_TRY(lk_tape_set_shard_size(tape, s->shard_size));
    for (int i = 0; i < s->n_in; i++) {
        bool leaf = s->in[i].kind == LK_SAMPLE_REAL && lk_dtype_is_real(lk_tensor_dtype(r->in[i]));
        LK_TRY(leaf ? lk_leaf(tape, r->in[i], NULL, &in[i]) : lk_constant(tape, r->in[i], &in[i]));
        if (leaf)
            wrt[n++] = in[i];
    }
    LK_TRY(lk_apply(tape, op, in, s->n_in, s->attr, y));
    for (int j = 0; j < op->n_out; j++) {
        LK_TRY(take(y[j], &r->out[j]));
        if (!lk_needs_grad(y[j]))
            continue;
        of[n_of] = y[j];
        LK_TRY(seed_make(y[j], j, &seed[n_of++]));
    }
    if (n_of == 0)
        return LK_OK;
    LK_TRY(lk_grad(tape, of, seed, n_of, wrt, n, 0, g));
    for (int i = 0; i < n; i++)
        LK_TRY(take(g[i], &r->out[op->n_out + i]));
    return LK_OK;
}

static void run_op(const lk_op *op, const lk_op_sample *s, lk_dtype real, bool gaps, struct run *r)
{
    lk_tape *tape;
    *r = (struct run){{NULL}, {NULL}};
    inputs_make(op, s, real, r);
    for (int i = 0; gaps && i < s->n_in; i++) {
        lk_tensor *view = with_gaps(r->in[i]);
        lk_tensor_free(r->in[i]);
        r->in[i] = view;
    }
    ASSERT_OK(lk_tape_new(&tape));
    if (compute(op, s, tape, r) != LK_OK) {
        lk_error_print(stderr);
        TEST_FAIL("op %s in %s", op->name, lk_dtype_name(real));
    }
    lk_tape_free(tape);
}

static void run_free(struct run *r)
{
    for (int i = 0; i < MAX_IN; i++)
        lk_tensor_free(r->in[i]);
    for (int j = 0; j < MAX_OUT + MAX_IN; j++)
        lk_tensor_free(r->out[j]);
}

static void expect_same_bits(const lk_op *op, const struct run *a, const struct run *b,
                             const char *what)
{
    for (int j = 0; j < MAX_OUT + MAX_IN; j++)
        if ((a->out[j] || b->out[j]) &&
            (!a->out[j] || !b->out[j] || !lk_tensor_is_equal(a->out[j], b->out[j])))
            TEST_FAIL("op %s, result %d: %s gives other bits", op->name, j, what);
}

static void expect_near(const lk_op *op, const lk_tensor *a, const lk_tensor *b, int j)
{
    lk_tensor *x, *y;
    double scale = 1e-2;
    if (lk_tensor_dtype(a) == LK_U8) /* what a backward reads, as bytes: not the same of both */
        return;
    ASSERT_OK(lk_tensor_clone(a, LK_F64, &x));
    ASSERT_OK(lk_tensor_clone(b, LK_F64, &y));
    const double *p = lk_tensor_data(x), *q = lk_tensor_data(y);
    for (int64_t e = 0; e < lk_tensor_count(x); e++)
        scale = fmax(scale, fabs(q[e]));
    for (int64_t e = 0; e < lk_tensor_count(x); e++)
        if (!(fabs(p[e] - q[e]) <= 2e-5 * scale))
            TEST_FAIL("op %s, result %d, element %lld: %.9g in f32, %.9g in f64", op->name, j,
                      (long long)e, p[e], q[e]);
    lk_tensor_free(x);
    lk_tensor_free(y);
}

typedef void sample_fn(const lk_op *op, const lk_op_sample *s);

static void for_every_sample(sample_fn *fn)
{
    int samples = 0;
    for (int i = 0; lk_ops[i]; i++) {
        ASSERT_TRUE(lk_ops[i]->summary && lk_ops[i]->summary[0]);
        if (lk_ops[i]->backward && (!lk_ops[i]->samples || lk_ops[i]->samples[0].n_in == 0))
            TEST_FAIL("op %s has no samples", lk_ops[i]->name);
        for (int k = 0; lk_ops[i]->samples && lk_ops[i]->samples[k].n_in > 0; k++, samples++)
            fn(lk_ops[i], &lk_ops[i]->samples[k]);
    }
    ASSERT_TRUE(samples > 100);
}

static void compare_types(const lk_op *op, const lk_op_sample *s)
{
    struct run single, twice;
    run_op(op, s, LK_F32, false, &single);
    run_op(op, s, LK_F64, false, &twice);
    for (int j = 0; j < MAX_OUT + MAX_IN; j++) {
        ASSERT_EQ(!single.out[j], !twice.out[j]);
        if (single.out[j])
            expect_near(op, single.out[j], twice.out[j], j);
    }
    run_free(&single);
    run_free(&twice);
}

static void compare_ways(const lk_op *op, const lk_op_sample *s)
{
    for (lk_dtype t = LK_F32; t <= LK_F64; t++) {
        struct run first, other;
        ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
        ASSERT_OK(lk_threads_set(1));
        run_op(op, s, t, false, &first);
        run_op(op, s, t, true, &other);
        expect_same_bits(op, &first, &other, "an input with gaps");
        run_free(&other);
        for (int isa = 0; isa < LK_N_ISAS; isa++)
            for (int threads = 1; threads <= 4; threads *= 2) {
                if (!lk_isa_is_available((lk_isa)isa))
                    continue;
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                ASSERT_OK(lk_threads_set(threads));
                run_op(op, s, t, false, &other);
                expect_same_bits(op, &first, &other, "a thread or an instruction set");
                run_free(&other);
            }
        run_free(&first);
    }
    ASSERT_OK(lk_threads_set(0));
}

TEST(f32_is_near_f64)
{
    for_every_sample(compare_types);
}

TEST(threads_instruction_sets_and_gaps_give_the_same_bits)
{
    for_every_sample(compare_ways);
}
