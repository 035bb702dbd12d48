/* Terms, the losses that layers add: their values and gradients against plain loops, what runs for which of
 * them, and what is refused.
 */
#include "faults.h"
#include "nn/model.h"

#include <lockstep/op.h>

enum { SAMPLES = 5, PIECE = 2, IN = 4, UNITS = 3 };

static lk_model *model_new(const char *const *layers)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (; *layers; layers += 2)
        ASSERT_OK(lk_model_add(m, layers[0], layers[1]));
    return m;
}

static lk_model *model_of(lk_dtype dtype, const char *const *layers)
{
    lk_model *m = model_new(layers);
    ASSERT_OK(lk_model_build(
        m, &(lk_model_spec){.in = {dtype, LK_SHAPE(IN)}, .dtype = dtype, .seed = 3}));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

static lk_tensor *x_new(void)
{
    lk_tensor *x = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(SAMPLES, IN), &x));
    ASSERT_OK(lk_tensor_writable_data(x, &data));
    ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(1, "x", "test"), (lk_rng_at){0}, SAMPLES * IN, data));
    return x;
}

/* ---- values and gradients ---- */

/* A layer before, a code whose `decode` has its weight turned, and what it costs. */
static const char *const net[] = {"linear",
                                  "units=4 name=first",
                                  "autoencoder",
                                  "name=code encode=linear(units=3 bias=false name=in),tanh "
                                  "decode=linear(units=4 transpose=true tie=code.in.weight) "
                                  "weight=0.25",
                                  "penalty",
                                  "name=sparse of=abs weight=0.5",
                                  "penalty",
                                  "name=small of=squares weight=-0.125",
                                  "penalty",
                                  "name=sum",
                                  NULL};

enum { CODE, SPARSE, SMALL, PLAIN, TERMS };

/* Where the parameters begin, as elements, in the order of the layers. */
struct params {
    double *first, *first_bias, *in, *decode_bias;
};

static struct params params_of(const lk_slab *slab)
{
    static const char *const name[] = {"first.weight", "first.bias", "code.in.weight",
                                       "code.decode.linear1.bias"};
    double *at[4];
    for (int i = 0; i < 4; i++) {
        int64_t slice;
        lk_slab_slice s;
        ASSERT_OK(lk_slab_layout_find(lk_slab_layout_of(slab), name[i], &slice));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), slice, &s));
        at[i] = (double *)(void *)((char *)lk_slab_data(slab) + s.offset);
    }
    return (struct params){at[0], at[1], at[2], at[3]};
}

/* What the net is, in plain loops: its terms, weights among them, of which `target` [SAMPLES][IN] is what decode
 * is to give; NULL: what comes in there, which goes to `seen`. */
static void plain(const struct params *p, const double *x, const double *target, double *seen,
                  double term[TERMS])
{
    memset(term, 0, TERMS * sizeof *term);
    for (int s = 0; s < SAMPLES; s++) {
        double h[IN], y[UNITS];
        for (int j = 0; j < IN; j++) {
            h[j] = p->first_bias[j];
            for (int i = 0; i < IN; i++)
                h[j] += x[s * IN + i] * p->first[i * IN + j];
            if (seen)
                seen[s * IN + j] = h[j];
        }
        for (int k = 0; k < UNITS; k++) {
            double sum = 0;
            for (int j = 0; j < IN; j++)
                sum += h[j] * p->in[j * UNITS + k];
            y[k] = tanh(sum);
            term[SPARSE] += 0.5 * fabs(y[k]);
            term[SMALL] -= 0.125 * y[k] * y[k];
            term[PLAIN] += y[k];
        }
        for (int j = 0; j < IN; j++) {
            double again = p->decode_bias[j];
            for (int k = 0; k < UNITS; k++)
                again += y[k] * p->in[j * UNITS + k];
            double off = again - (target ? target[s * IN + j] : h[j]);
            term[CODE] += 0.25 * off * off / 2;
        }
    }
}

/* The terms of a pass over x with gradients of their sum in `sums`, or without if that is NULL. */
static void terms_run(lk_model *m, lk_tensor *x, const bool *counts, lk_accumulator *sums,
                      double *out)
{
    lk_tape *tape = NULL;
    lk_var vx, y, value[TERMS];
    lk_seed seed[TERMS];
    lk_tensor *weight[TERMS] = {NULL};
    int n = 0;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, PIECE));
    ASSERT_OK(lk_constant(tape, x, &vx));
    lk_pass_terms terms = {.counts = counts, .only = true, .leaves = 1, .value = value};
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = sums, .terms = &terms},
                               vx, &y));
    for (int64_t i = 0; i < lk_model_terms(m); i++) {
        lk_term_info info;
        ASSERT_OK(lk_model_term(m, i, &info));
        ASSERT_EQ(lk_is_var(value[i]), counts[i]);
        if (!counts[i])
            continue;
        ASSERT_OK(lk_item(value[i], &out[i]));
        out[i] *= info.weight / (double)info.parts;
        ASSERT_OK(lk_tensor_zeros(lk_dtype_of(value[i]), LK_SCALAR, &weight[n]));
        ASSERT_OK(lk_tensor_fill_f64(weight[n], info.weight / (double)info.parts));
        seed[n] = (lk_seed){value[i], weight[n]};
        n++;
    }
    if (sums)
        ASSERT_OK(lk_backward(tape, seed, n, 0));
    for (int i = 0; i < n; i++)
        lk_tensor_free(weight[i]);
    lk_tape_free(tape);
}

static bool is_near(double a, double b, double within)
{
    return fabs(a - b) <= within * (1 + fabs(b));
}

TEST(values_are_those_of_plain_loops)
{
    static const bool all[TERMS] = {true, true, true, true};
    lk_model *m = model_of(LK_F64, net);
    lk_tensor *x = x_new();
    double got[TERMS], want[TERMS];
    struct params p = params_of(lk_model_params(m));
    ASSERT_EQ(lk_model_terms(m), TERMS);
    terms_run(m, x, all, NULL, got);
    plain(&p, lk_tensor_data(x), NULL, NULL, want);
    for (int i = 0; i < TERMS; i++)
        ASSERT_TRUE(is_near(got[i], want[i], 1e-13) && want[i] != 0);
    lk_tensor_free(x);
    lk_model_free(m);
}

/* By differences of the plain loops, in which what decode is to give stays as it is. */
static void expect_gradients(const bool *counts)
{
    const double step = 1e-6;
    lk_model *m = model_of(LK_F64, net);
    lk_accumulator *sums = NULL;
    lk_tensor *x = x_new();
    double terms[TERMS], target[SAMPLES * IN];
    struct params p = params_of(lk_model_params(m));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    lk_accumulator_begin(sums);
    terms_run(m, x, counts, sums, terms);
    ASSERT_OK(lk_accumulator_join_uses(sums));
    struct params grad = params_of(lk_accumulator_slab(sums));
    plain(&p, lk_tensor_data(x), NULL, target, terms);
    double *at[] = {p.first, p.first_bias, p.in, p.decode_bias},
           *of[] = {grad.first, grad.first_bias, grad.in, grad.decode_bias};
    const int n[] = {IN * IN, IN, IN * UNITS, IN};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n[k]; i++) {
            double was = at[k][i], low[TERMS], high[TERMS], want = 0;
            at[k][i] = was - step;
            plain(&p, lk_tensor_data(x), target, NULL, low);
            at[k][i] = was + step;
            plain(&p, lk_tensor_data(x), target, NULL, high);
            at[k][i] = was;
            for (int t = 0; t < TERMS; t++)
                want += counts[t] ? (high[t] - low[t]) / (2 * step) : 0;
            if (!is_near(of[k][i], want, 1e-7))
                TEST_FAIL("parameter %d, element %d: %.12g, not %.12g", k, i, of[k][i], want);
        }
    lk_tensor_free(x);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

TEST(gradients_are_those_of_plain_loops)
{
    expect_gradients((const bool[]){true, true, true, true});
    expect_gradients((const bool[]){true, false, false, false});
    expect_gradients((const bool[]){false, true, false, true});
}

/* Passes over some shards each, joined by the tree, have the bits of one over all. */
TEST(losses_of_terms_do_not_depend_on_the_cut)
{
    lk_model *m = model_of(LK_F64, net);
    lk_accumulator *whole = NULL, *lower = NULL, *upper = NULL;
    lk_tensor *x = x_new();
    ASSERT_OK(lk_accumulator_new(m, &whole));
    ASSERT_OK(lk_accumulator_new(m, &lower));
    ASSERT_OK(lk_accumulator_new(m, &upper));
    lk_accumulator *to[] = {whole, lower, upper};
    const int64_t first[] = {0, 0, 4}, n[] = {SAMPLES, 4, SAMPLES - 4};
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, PIECE));
    for (int k = 0; k < 3; k++) {
        lk_tensor *part = NULL;
        lk_var vx, y, value[TERMS];
        const bool counts[TERMS] = {true, true, true, true};
        lk_pass_terms terms = {.counts = counts, .leaves = 1, .value = value};
        ASSERT_OK(lk_tensor_slice(x, 0, first[k], first[k] + n[k], 1, &part));
        ASSERT_OK(lk_constant(tape, part, &vx));
        ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .terms = &terms}, vx, &y));
        for (int i = 0; i < TERMS; i++)
            ASSERT_OK(lk__accumulator_add_term(to[k], i, 0, value[i]));
        lk_tape_reset(tape);
        lk_tensor_free(part);
    }
    ASSERT_OK(lk_accumulator_add(lower, upper));
    for (int i = 0; i < TERMS; i++) {
        double a = lk__accumulator_term(whole, i, 0), b = lk__accumulator_term(lower, i, 0);
        ASSERT_TRUE(memcmp(&a, &b, sizeof a) == 0 && a != 0);
    }
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_accumulator_free(whole);
    lk_accumulator_free(lower);
    lk_accumulator_free(upper);
    lk_model_free(m);
}

/* ---- what runs ---- */

static const char *const nested[] = {
    "residual",
    "layers=autoencoder(encode=penalty,tanh decode=penalty,linear(units=4) name=inner),tanh "
    "name=out",
    "linear",
    "units=3",
    "penalty",
    "name=end",
    "linear",
    "units=2",
    NULL};

/* A letter for each layer: whether it runs. */
static const char *runs_text(const lk_model *m, const bool *counts, bool loss)
{
    static char text[16];
    bool runs[16];
    int64_t n = lk_model_layers(m);
    ASSERT_TRUE(n < 16);
    lk__model_runs(m, counts, loss, runs);
    for (int64_t i = 0; i < n; i++)
        text[i] = runs[i] ? '1' : '0';
    text[n] = '\0';
    return text;
}

/* Terms come in the order of layers, not in that in which these are complete: out, out.inner, its two lists
 * and what is in them, out.tanh, linear1, end, linear2. */
TEST(layers_run_for_what_counts)
{
    static const char *const name[] = {"out.inner", "out.inner.penalty1",
                                       "out.inner.decode.penalty1", "end"};
    lk_model *m = model_of(LK_F64, nested);
    lk_term_info info;
    ASSERT_EQ(lk_model_terms(m), 4);
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(lk_model_term(m, i, &info));
        ASSERT_EQ(strcmp(info.name, name[i]), 0);
    }
    ASSERT_FAILS(lk_model_term(m, 4, &info), LK_EINVAL, "term 4 of 4");
    ASSERT_EQ(lk_model_layers(m), 10);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){1, 1, 1, 1}, true), "1111111111"), 0);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){0, 1, 0, 1}, true), "1111001111"), 0);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){0, 0, 0, 0}, true), "1111001111"), 0);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){0, 0, 0, 1}, false), "1111001110"), 0);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){1, 0, 0, 0}, false), "1111111000"), 0);
    ASSERT_EQ(strcmp(runs_text(m, (const bool[]){0, 0, 0, 0}, false), "0000000000"), 0);
    lk_model_free(m);
}

/* The first layer whose output is not finite, where only some terms count. */
static const char *first_bad(lk_model *m, lk_tensor *x, const bool *counts, bool only)
{
    static char layer[64];
    lk_tape *tape = NULL;
    lk_var vx, y, value[TERMS];
    lk_pass_terms terms = {.counts = counts, .only = only, .leaves = 1, .value = value};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &vx));
    ASSERT_OK(lk_model_find_nonfinite(m, &(lk_pass){.tape = tape, .terms = &terms}, vx, layer,
                                      sizeof layer, &y));
    lk_tape_free(tape);
    return layer;
}

/* What does not count is not computed: parameters there can be anything. */
TEST(what_does_not_count_does_not_run)
{
    static const bool others[] = {false, true, true, true}, code[] = {true, false, false, false};
    lk_model *m = model_of(LK_F64, net);
    lk_tensor *x = x_new();
    struct params p = params_of(lk_model_params(m));
    p.decode_bias[1] = (double)NAN;
    ASSERT_EQ(strcmp(first_bad(m, x, others, false), ""), 0);
    ASSERT_EQ(strcmp(first_bad(m, x, code, false), "code.decode.linear1"), 0);
    lk_model_free(m);
    m = model_of(LK_F64, (const char *const[]){"penalty", "name=a", "linear", "units=2", "penalty",
                                               "name=b", NULL});
    *(double *)lk_slab_data(lk_model_params(m)) = (double)NAN;
    ASSERT_EQ(strcmp(first_bad(m, x, (const bool[]){true, false}, true), ""), 0);
    ASSERT_EQ(strcmp(first_bad(m, x, (const bool[]){true, false}, false), "linear1"), 0);
    ASSERT_EQ(strcmp(first_bad(m, x, (const bool[]){false, true}, true), "linear1"), 0);
    lk_tensor_free(x);
    lk_model_free(m);
}

/* ---- layers of a program ---- */

static lk_status own_build(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    (void)options;
    *out = in;
    return LK_TRACE(lk_build_term(build, &(lk_term){.of = in, .weight = 2}));
}

static lk_status own_twice(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    LK_TRY(own_build(build, options, in, out));
    return LK_TRACE(own_build(build, options, in, out));
}

static lk_status own_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    *out = x;
    return LK_TRACE(lk_pass_term(pass, layer, x, LK_NO_VAR));
}

static lk_status own_forgets(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    (void)pass;
    (void)layer;
    *out = x;
    return LK_OK;
}

static lk_status own_targets(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    *out = x;
    return LK_TRACE(lk_pass_term(pass, layer, x, x));
}

static lk_status own_changes(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    lk_var part;
    *out = x;
    LK_TRY(lk_slice(x, 1, 0, 1, 1, &part));
    return LK_TRACE(lk_pass_term(pass, layer, part, LK_NO_VAR));
}

static lk_status own_run(const lk_layer *layer, double *value)
{
    lk_model *m = NULL;
    lk_tensor *x = x_new();
    lk_tape *tape = NULL;
    lk_var vx, y, term = LK_NO_VAR;
    lk_pass_terms terms = {.counts = (const bool[]){true}, .leaves = 1, .value = &term};
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add_config(m, &(lk_config){.descriptor = &layer->descriptor}));
    lk_status st = lk_model_build(m, &(lk_model_spec){.in = {LK_F64, LK_SHAPE(IN)}});
    if (st == LK_OK)
        st = lk_model_hold(m, NULL);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &vx));
    if (st == LK_OK)
        st = lk_model_forward(m, &(lk_pass){.tape = tape, .terms = &terms}, vx, &y);
    if (st == LK_OK)
        st = lk_item(term, value);
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_model_free(m);
    return st;
}

TEST(a_program_can_write_a_layer_with_a_term)
{
    double value = 0, want = 0;
    lk_tensor *x = x_new();
    const double *at = lk_tensor_data(x);
    lk_layer own = {.descriptor = {.name = "own"}, .build = own_build, .forward = own_forward};
    for (int i = 0; i < SAMPLES * IN; i++)
        want += at[i];
    lk_tensor_free(x);
    ASSERT_OK(own_run(&own, &value));
    ASSERT_TRUE(is_near(value, want, 1e-14));
    own.forward = own_forgets;
    ASSERT_FAILS(own_run(&own, &value), LK_ESTATE, "layer own1 has a term, and gave none");
    own.forward = own_targets;
    ASSERT_FAILS(own_run(&own, &value), LK_EINVAL, "layer own1: a term with a target");
    own.forward = own_changes;
    ASSERT_FAILS(own_run(&own, &value), LK_ESHAPE,
                 "layer own1: a term of [5,1], declared for [5,4]");
    own.build = own_twice;
    ASSERT_FAILS(own_run(&own, &value), LK_EINVAL, "a second term");
}

/* ---- what is refused ---- */

static void expect_refused(const char *type, const char *options, lk_status st, const char *why)
{
    lk_model *m = model_new((const char *const[]){type, options, NULL});
    ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(IN)}}), st, why);
    lk_model_free(m);
}

TEST(layers_that_do_not_fit_are_refused)
{
    expect_refused("autoencoder", "encode=linear(units=3) decode=linear(units=5)", LK_ESHAPE,
                   "layer autoencoder1 of f32[4]: decode gives f32[5] of what encode makes, [3], "
                   "and not x again, which is f32[4]");
    expect_refused("penalty", "name=loss", LK_EINVAL, "give the layer another name");
    expect_refused("autoencoder",
                   "encode=linear(units=3 name=a) decode=linear(units=4 tie=autoencoder1.a.weight)",
                   LK_ESHAPE, "its option transpose turns it");
    expect_refused("autoencoder", "encode=tanh decode=linear(units=4 tie=autoencoder1.b.weight)",
                   LK_EINVAL, "which no layer before it has");
}

TEST(terms_of_segments_are_refused)
{
    lk_model *m = model_of(LK_F64, net);
    lk_accumulator *sums = NULL;
    lk_tensor *x = x_new();
    lk_tape *tape = NULL;
    lk_var vx, y, value[TERMS];
    bool counts[TERMS] = {false, true};
    lk_pass_terms terms = {.counts = counts, .leaves = 1, .value = value};
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &vx));
    lk_pass pass = {.tape = tape, .accumulator = sums, .terms = &terms, .recompute = 2};
    ASSERT_FAILS(lk_model_forward(m, &pass, vx, &y), LK_ENOTSUP, "leave out recompute");
    counts[SPARSE] = false;
    ASSERT_OK(lk_model_forward(m, &pass, vx, &y));
    terms.value = NULL;
    ASSERT_FAILS(lk_model_forward(m, &pass, vx, &y), LK_EINVAL, "terms without room");
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

static lk_status build_and_pass(void)
{
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    lk_tensor *x = NULL;
    lk_tape *tape = NULL;
    lk_var vx, y, value[TERMS];
    lk_status st;
    const bool counts[TERMS] = {true, true, true, true};
    lk_pass_terms terms = {.counts = counts, .leaves = 1, .value = value};
    LK_TRY_TO(done, lk_model_new(&m));
    for (const char *const *layer = net; *layer; layer += 2)
        LK_TRY_TO(done, lk_model_add(m, layer[0], layer[1]));
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(IN)}}));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
    LK_TRY_TO(done, lk_tensor_zeros(LK_F32, LK_SHAPE(SAMPLES, IN), &x));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_constant(tape, x, &vx));
    LK_TRY_TO(done, lk_model_forward(
                        m, &(lk_pass){.tape = tape, .accumulator = sums, .terms = &terms}, vx, &y));
    for (int i = 0; i < TERMS; i++)
        LK_TRY_TO(done, lk__accumulator_add_term(sums, i, 0, value[i]));
done:
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_can_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(build_and_pass) > 20);
}
