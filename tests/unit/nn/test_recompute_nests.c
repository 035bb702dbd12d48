/* Passes in segments, lk_pass.recompute: every layer within blocks within blocks gives the bits of a pass that
 * keeps its values, and every allocation of such a pass may fail. */
#include "drawn.h"
#include "faults.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SAMPLES = 6, PIECE = 2, SEED = 7, MOST_BYTES = 1 << 20 };

static const int64_t segments[] = {2, 3, 5, 100000};

/* All that a pass leaves: loss, gradients, statistics of the batch. */
typedef struct left {
    size_t n;
    char bytes[MOST_BYTES];
} left;

static left kept, again;

static lk_tensor *drawn(lk_shape sample, int64_t below, const char *purpose)
{
    return test_drawn(lk_rng_start(SEED, "test", purpose), LK_F32, test_batch(SAMPLES, sample),
                      below);
}

static void append(left *to, const void *bytes, int64_t n)
{
    ASSERT_TRUE(to->n + (size_t)n <= sizeof to->bytes);
    memcpy(to->bytes + to->n, bytes, (size_t)n);
    to->n += (size_t)n;
}

/* A pass forward and back, twice on one tape; the second allocates nothing. */
static void pass_run(lk_model *m, lk_tensor *x, lk_tensor *weights, int64_t recompute, left *to)
{
    lk_tape *tape = NULL;
    lk_accumulator *sums = NULL;
    lk_tensor *dx = NULL;
    int64_t calls = 0;
    double value = 0;
    bool real = lk_dtype_is_real(lk_tensor_dtype(x));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, PIECE));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    if (real)
        ASSERT_OK(lk_tensor_zeros(LK_F32, lk_tensor_shape(x), &dx));
    for (int i = 0; i < 2; i++) {
        lk_var vx, w, y, loss;
        lk_pass pass = {
            .tape = tape, .accumulator = sums, .training = true, .step = 3, .recompute = recompute};
        calls = lk_alloc_stats_now().calls;
        lk_tape_reset(tape);
        ASSERT_OK(real ? lk_leaf(tape, x, dx, &vx) : lk_constant(tape, x, &vx));
        ASSERT_OK(lk_constant(tape, weights, &w));
        ASSERT_OK(lk_model_forward(m, &pass, vx, &y));
        ASSERT_OK(lk_mul(y, w, &y));
        ASSERT_OK(lk_sum(y, NULL, &loss));
        ASSERT_OK(lk_item(loss, &value));
        if (lk_needs_grad(loss))
            ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    to->n = 0;
    append(to, &value, sizeof value);
    lk_slab *slab = lk_accumulator_slab(sums);
    append(to, lk_slab_data(slab), lk_slab_layout_bytes(lk_slab_layout_of(slab)));
    if (real)
        append(to, lk_tensor_data(dx), lk_tensor_count(dx) * (int64_t)sizeof(float));
    lk_tensor_free(dx);
    lk_accumulator_free(sums);
    lk_tape_free(tape);
}

static void compare(lk_model *m, lk_shape shape, int64_t below, const char *what)
{
    lk_model_spec spec = {.in = {below ? LK_I64 : LK_F32, shape}, .dtype = LK_F32, .seed = SEED};
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    lk_tensor *x = drawn(shape, below, "x"), *weights = drawn(lk_model_out(m).shape, 0, "weights");
    pass_run(m, x, weights, 0, &kept);
    for (size_t i = 0; i < sizeof segments / sizeof *segments; i++) {
        pass_run(m, x, weights, segments[i], &again);
        if (again.n != kept.n || memcmp(again.bytes, kept.bytes, kept.n) != 0)
            TEST_FAIL("%s: other bits with recompute %lld", what, (long long)segments[i]);
    }
    lk_tensor_free(x);
    lk_tensor_free(weights);
}

/* The layer in the lists of a block within a block. */
static void check_layer(const lk_layer *layer, const lk_layer_sample *s)
{
    char own[600], options[4000];
    lk_model *m = NULL;
    if (s->options && strstr(s->options, "tie="))
        return; /* names a layer outside: below */
    snprintf(own, sizeof own, "%s(%s)", layer->descriptor.name, s->options ? s->options : "");
    snprintf(options, sizeof options,
             "layers=residual(layers=%s,tanh shortcut=%s,relu),tanh,dropout(rate=0.3),batch_norm "
             "shortcut=%s,dropout(rate=0)",
             own, own, own);
    ASSERT_OK(lk_model_new(&m));
    if (!s->below)
        ASSERT_OK(lk_model_add(m, "tanh", NULL));
    ASSERT_OK(lk_model_add(m, "residual", options));
    ASSERT_OK(lk_model_add(m, "dropout", "rate=0.2"));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    compare(m, s->shape, s->below, own);
    lk_model_free(m);
}

TEST(every_layer_in_a_nest_has_the_same_bits)
{
    for (int i = 0; lk_layers[i]; i++)
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            check_layer(lk_layers[i], s);
}

#define CONV "conv(filters=3 kernel=3 padding=1"

/* Three levels with skips, a block that ends its list, parameters that layers share across and within blocks,
 * and layers that leave a value as it is. */
static lk_status nest_make(lk_model *m)
{
    LK_TRY(lk_model_add(m, "conv", "filters=3 kernel=3 padding=1"));
    LK_TRY(lk_model_add(m, "relu", NULL));
    LK_TRY(lk_model_add(
        m, "residual",
        "layers=maxpool(size=2)," CONV
        " name=a),batch_norm,relu,residual(layers=avgpool(size=2)," CONV
        "),batch_norm,relu,residual(layers=dropout(rate=0)," CONV
        " tie=residual1.a.weight)),conv_transpose(filters=3 kernel=2 stride=2),residual("
        "layers=layer_norm,tanh) join=concat)," CONV
        "),relu,conv_transpose(filters=3 kernel=2 stride=2) join=concat"));
    LK_TRY(lk_model_add(m, "conv", "filters=3 kernel=3 padding=1"));
    LK_TRY(lk_model_add(m, "residual",
                        "layers=batch_norm(statistics=batch),relu," CONV " name=b)," CONV
                        " tie=residual2.b.weight),dropout(rate=0.5) shortcut=linear(units=3)"));
    return LK_TRACE(lk_model_add(m, "linear", "units=2"));
}

static const lk_shape picture = LK_DIMS(8, 4, 2);

TEST(skips_ties_and_statistics_have_the_same_bits)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(nest_make(m));
    compare(m, picture, 0, "a nest");
    lk_model_free(m);
}

/* ---- failures ---- */

static lk_tensor *fault_x;

static lk_status nest_pass(lk_model *m, lk_tape *tape, lk_accumulator *sums)
{
    lk_var x, y;
    lk_pass pass = {.tape = tape, .accumulator = sums, .training = true, .recompute = 6};
    LK_TRY(lk_constant(tape, fault_x, &x));
    LK_TRY(lk_model_forward(m, &pass, x, &y));
    LK_TRY(lk_sum(y, NULL, &y));
    return LK_TRACE(lk_backward(tape, &(lk_seed){y, NULL}, 1, 0));
}

static lk_status nest_life(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_tape *tape = NULL;
    lk_accumulator *sums = NULL;
    lk_model_spec spec = {.in = {LK_F32, picture}, .dtype = LK_F32, .seed = SEED};
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, nest_make(m));
    LK_TRY_TO(done, lk_model_build(m, &spec));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, nest_pass(m, tape, sums));
done:
    if (st != LK_OK) { /* a layer is named once, however deep it lies */
        const char *first = strstr(lk_error_message(), "layer ");
        ASSERT_TRUE(!first || !strstr(first + 1, "layer "));
    }
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    int64_t bytes = lk_alloc_stats_now().live_bytes;
    fault_x = drawn(picture, 0, "x");
    ASSERT_TRUE(test_every_allocation_fails(nest_life) > 300);
    lk_tensor_free(fault_x);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, bytes);
}
