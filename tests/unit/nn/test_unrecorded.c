/* A pass on a tape that does not record: values go when the next layer has run, and nothing goes that somebody
 * may still read. */
#include "drawn.h"
#include "faults.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SAMPLES = 6, SEED = 7, WIDE = 256, DEEP = 24, MOST = 1 << 16 };

static lk_tensor *drawn(lk_shape sample, int64_t below)
{
    return test_drawn(lk_rng_start(SEED, "test", "x"), LK_F32, test_batch(SAMPLES, sample), below);
}

static lk_model *built(lk_model *m, lk_shape shape, int64_t below)
{
    lk_model_spec spec = {.in = {below ? LK_I64 : LK_F32, shape}, .dtype = LK_F32, .seed = SEED};
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

static lk_tape *tape_of(bool records)
{
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    (void)lk_tape_set_recording(tape, records);
    return tape;
}

/* The bytes of a value. */
static size_t bytes_of(lk_var v, char out[MOST])
{
    const lk_tensor *t = NULL;
    lk_tensor *dense = NULL;
    ASSERT_OK(lk_value(v, &t));
    size_t n = (size_t)lk_tensor_count(t) * lk_dtype_size(lk_tensor_dtype(t));
    ASSERT_TRUE(n <= MOST);
    ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), &dense));
    memcpy(out, lk_tensor_data(dense), n);
    lk_tensor_free(dense);
    return n;
}

static char kept[MOST], gone[MOST];

/* The peak of a pass that records, or does not, in values of SAMPLES x WIDE; what comes out goes to `out`. */
static int64_t peak_of(lk_model *m, lk_tensor *x, bool records, char *out, size_t *n)
{
    lk_tape *tape = tape_of(records);
    lk_accumulator *sums = NULL;
    lk_var vx, y;
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_constant(tape, x, &vx));
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = records ? sums : NULL},
                               vx, &y));
    *n = bytes_of(y, out);
    int64_t peak = lk_tape_stats_of(tape).peak_bytes;
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    return peak / ((int64_t)SAMPLES * WIDE * 4);
}

static void peaks_expect(lk_model *m, int64_t at_least, int64_t at_most)
{
    size_t n, same;
    lk_tensor *x = drawn(LK_SHAPE(WIDE), 0);
    (void)built(m, LK_SHAPE(WIDE), 0);
    int64_t records = peak_of(m, x, true, kept, &n), without = peak_of(m, x, false, gone, &same);
    ASSERT_TRUE(n == same && memcmp(kept, gone, n) == 0);
    if (records < at_least || without > at_most)
        TEST_FAIL("%lld values recorded, at least %lld; %lld not recorded, at most %lld",
                  (long long)records, (long long)at_least, (long long)without, (long long)at_most);
    lk_tensor_free(x);
    lk_model_free(m);
}

TEST(a_deep_list_has_the_values_of_two_layers)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (int i = 0; i < DEEP; i++) {
        ASSERT_OK(lk_model_add(m, "linear", "units=256"));
        ASSERT_OK(lk_model_add(m, i % 2 ? "elu" : "softplus", NULL));
        ASSERT_OK(lk_model_add(m, "dropout", "rate=0.5")); /* which gives what it gets */
    }
    peaks_expect(m, (int64_t)2 * DEEP, 3);
}

TEST(lists_within_layers_have_so_too)
{
    char options[4096];
    size_t at = (size_t)snprintf(options, sizeof options, "layers=elu");
    lk_model *m = NULL;
    for (int i = 0; i < DEEP; i++)
        at += (size_t)snprintf(options + at, sizeof options - at, ",linear(units=256),elu");
    snprintf(options + at, sizeof options - at, ",residual(layers=linear(units=256),elu)");
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "residual", options));
    ASSERT_OK(lk_model_add(m, "residual", options));
    peaks_expect(m, (int64_t)4 * DEEP, 6);
}

/* What a pass gives of a layer's sample, between others that make it go. */
static size_t sample_pass(lk_model *m, lk_tensor *x, bool records, char *out)
{
    lk_tape *tape = tape_of(records);
    lk_accumulator *sums = NULL;
    lk_var vx, y;
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_constant(tape, x, &vx));
    int64_t before = lk_tape_stats_of(tape).values;
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = records ? sums : NULL},
                               vx, &y));
    if (!records) { /* parameters, state and constants are the program's; a value a layer */
        int64_t params = lk_slab_layout_slices(lk_slab_layout_of(lk_accumulator_slab(sums)));
        ASSERT_TRUE(lk_tape_stats_of(tape).values <= before + params + lk_model_layers(m) + 8);
    }
    size_t n = bytes_of(y, out);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    return n;
}

TEST(every_layer_gives_the_same_bits)
{
    for (int i = 0; lk_layers[i]; i++)
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++) {
            char own[600], options[1500];
            lk_model *m = NULL;
            if (s->options && strstr(s->options, "tie="))
                continue; /* names a layer that is not here */
            const char *name = lk_layers[i]->descriptor.name;
            snprintf(own, sizeof own, "%s(%s)", name, s->options ? s->options : "");
            snprintf(options, sizeof options, "layers=%s,tanh shortcut=%s,dropout(rate=0.1)", own,
                     own);
            ASSERT_OK(lk_model_new(&m));
            if (!s->below)
                ASSERT_OK(lk_model_add(m, "tanh", NULL));
            ASSERT_OK(lk_model_add(m, "residual", options));
            ASSERT_OK(lk_model_add(m, "relu", NULL));
            (void)built(m, s->shape, s->below);
            lk_tensor *x = drawn(s->shape, s->below);
            size_t n = sample_pass(m, x, true, kept), same = sample_pass(m, x, false, gone);
            if (n != same || memcmp(kept, gone, n) != 0)
                TEST_FAIL("%s: other bits without a record", own);
            lk_tensor_free(x);
            lk_model_free(m);
        }
}

/* ---- what stays ---- */

static lk_var noted[2]; /* by the layer below: its input, and what it makes */
static bool names;      /* it names what it makes to lk_retain_value() */

static lk_status noting_build(lk_build *build, const void *options, lk_tensor_type in,
                              lk_tensor_type *out)
{
    (void)build;
    (void)options;
    *out = in;
    return LK_OK;
}

static lk_status noting_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    (void)pass;
    (void)layer;
    noted[0] = x;
    LK_TRY(lk_affine(x, 2, 0, &noted[1]));
    if (names)
        LK_TRY(lk_retain_value(noted[1]));
    return LK_TRACE(lk_affine(noted[1], 1, 1, out));
}

static lk_var held; /* the program's, which the layer below gives */

static lk_status giving_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    (void)pass;
    (void)layer;
    (void)x;
    *out = held;
    return LK_OK;
}

static const lk_layer noting = {.descriptor = {.name = "noting"},
                                .reach = LK_REACH_ELEMENT,
                                .build = noting_build,
                                .forward = noting_forward};
static const lk_layer giving = {
    .descriptor = {.name = "giving"}, .build = noting_build, .forward = giving_forward};

static void add_own(lk_model *m, const lk_layer *layer)
{
    ASSERT_OK(lk_model_add_config(m, &(lk_config){.descriptor = &layer->descriptor}));
}

static double first_of(lk_var v)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    return (double)((const float *)lk_tensor_data(t))[0];
}

TEST(what_the_program_has_stays)
{
    lk_model *m = NULL;
    lk_tape *tape = tape_of(false);
    lk_tensor *x = drawn(LK_SHAPE(WIDE), 0);
    lk_var vx, y;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "dropout", "rate=0.5")); /* gives x itself */
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    add_own(m, &giving);
    ASSERT_OK(lk_model_add(m, "dropout", "rate=0.5"));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    (void)built(m, LK_SHAPE(WIDE), 0);
    ASSERT_OK(lk_constant(tape, x, &y));
    ASSERT_OK(lk_affine(y, 3, 0, &vx)); /* elements of the tape, of values of the program */
    ASSERT_OK(lk_affine(y, 5, 0, &held));
    double want = first_of(y);
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape}, vx, &y));
    ASSERT_TRUE(first_of(vx) == (double)(float)(3 * want));
    ASSERT_TRUE(first_of(held) == (double)(float)(5 * want));
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_model_free(m);
}

TEST(what_a_layer_names_stays_and_the_rest_goes)
{
    for (int named = 0; named < 2; named++) {
        const lk_tensor *t = NULL;
        lk_model *m = NULL;
        lk_tape *tape = tape_of(false);
        lk_tensor *x = drawn(LK_SHAPE(WIDE), 0);
        lk_var vx, y;
        names = named;
        ASSERT_OK(lk_model_new(&m));
        ASSERT_OK(lk_model_add(m, "tanh", NULL));
        add_own(m, &noting);
        ASSERT_OK(lk_model_add(m, "tanh", NULL));
        (void)built(m, LK_SHAPE(WIDE), 0);
        ASSERT_OK(lk_constant(tape, x, &vx));
        ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape}, vx, &y));
        ASSERT_FAILS(lk_value(noted[0], &t), LK_ESTATE, "lk_retain_value()");
        if (named)
            ASSERT_OK(lk_value(noted[1], &t));
        else
            ASSERT_FAILS(lk_value(noted[1], &t), LK_ESTATE, "its value is gone");
        lk_tape_free(tape);
        lk_tensor_free(x);
        lk_model_free(m);
    }
}

enum { CARRIES = 4, TERMS = 2 };

/* Carries and terms of a model of layers that have both. */
static size_t carries_pass(lk_model *m, lk_tensor *x, bool records, char *out)
{
    static const bool counts[TERMS] = {true, true};
    lk_tape *tape = tape_of(records);
    lk_accumulator *sums = NULL;
    lk_var vx, y, at[CARRIES], terms[TERMS];
    lk_list last = {.at = at, .room = CARRIES};
    size_t n = 0;
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_constant(tape, x, &vx));
    lk_pass pass = {.tape = tape,
                    .accumulator = records ? sums : NULL,
                    .terms = &(lk_pass_terms){.counts = counts, .leaves = 1, .value = terms}};
    ASSERT_OK(lk_model_forward_carry(m, &pass, vx, NULL, &last, &y));
    for (int i = 0; i < last.n; i++)
        n += bytes_of(at[i], out + n);
    for (int i = 0; i < TERMS; i++)
        n += bytes_of(terms[i], out + n);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    return n;
}

TEST(carries_and_terms_stay)
{
    lk_model *m = NULL;
    lk_tensor *x = drawn(LK_SHAPE(5, 3), 0);
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "residual",
                           "layers=lstm(units=4 output=all),penalty(of=abs),tanh "
                           "shortcut=linear(units=4)"));
    ASSERT_OK(lk_model_add(m, "penalty", "of=squares"));
    ASSERT_OK(lk_model_add(m, "lstm", "units=3")); /* whose output is a carry as well */
    ASSERT_OK(lk_model_add(m, "linear", "units=2"));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    (void)built(m, LK_SHAPE(5, 3), 0);
    size_t n = carries_pass(m, x, true, kept);
    ASSERT_EQ(n, sizeof(float) * (SAMPLES * (4 + 4 + 3 + 3) + TERMS));
    ASSERT_EQ(carries_pass(m, x, false, gone), n);
    ASSERT_TRUE(memcmp(kept, gone, n) == 0);
    lk_tensor_free(x);
    lk_model_free(m);
}

struct inside {
    lk_model *model;
    lk_var x;
};

static lk_status pass_inside(lk_tape *tape, void *arg, lk_var *out)
{
    const struct inside *in = arg;
    lk_var at[CARRIES];
    lk_list last = {.at = at, .room = CARRIES};
    return LK_TRACE(
        lk_model_forward_carry(in->model, &(lk_pass){.tape = tape}, in->x, NULL, &last, out));
}

TEST(a_pass_in_a_segment_leaves_what_the_segment_gives)
{
    lk_model *m = NULL;
    lk_tape *tape = tape_of(false);
    lk_tensor *x = drawn(LK_SHAPE(5, 3), 0);
    lk_var y;
    struct inside in;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "lstm", "units=4 output=all"));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    in.model = built(m, LK_SHAPE(5, 3), 0);
    ASSERT_OK(lk_constant(tape, x, &in.x));
    int64_t params = lk_slab_layout_slices(lk_slab_layout_of(lk_model_params(m)));
    for (int i = 0; i < 3; i++) {
        lk_tape_stats before = lk_tape_stats_of(tape);
        ASSERT_OK(lk_recompute(tape, pass_inside, &in, 1, &y));
        lk_tape_stats after = lk_tape_stats_of(tape);
        ASSERT_EQ(after.values - before.values, params + 1); /* and no carry */
        ASSERT_TRUE(after.live_bytes - before.live_bytes <= SAMPLES * 5 * 4 * 4 + 64);
    }
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_model_free(m);
}

/* ---- failures ---- */

static lk_tensor *fault_x;

static lk_status life_run(lk_model *m, lk_tape *tape)
{
    lk_var x, y;
    (void)lk_tape_set_recording(tape, false);
    LK_TRY(lk_model_add(m, "conv", "filters=3 kernel=3 padding=1"));
    LK_TRY(lk_model_add(m, "residual",
                        "layers=batch_norm,relu,conv(filters=3 kernel=3 padding=1),penalty"));
    LK_TRY(lk_model_add(m, "linear", "units=2"));
    LK_TRY(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(8, 4, 2)}, .seed = SEED}));
    LK_TRY(lk_model_hold(m, NULL));
    LK_TRY(lk_constant(tape, fault_x, &x));
    return LK_TRACE(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y));
}

static lk_status life(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_tape *tape = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, life_run(m, tape));
done:
    lk_tape_free(tape);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    fault_x = drawn(LK_SHAPE(8, 4, 2), 0);
    ASSERT_TRUE(test_every_allocation_fails(life) > 50);
    lk_tensor_free(fault_x);
}
