/* Every layer, on its own samples: gradients against differences, and the same bits however the
 * batch is cut and whoever computes it. */
#include "drawn.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>
#include <lockstep/thread.h>

enum { SAMPLES = 6, PIECE = 2, SEED = 7 };

/* A model of one layer, and an input for it. */
struct bench {
    lk_model *model;
    lk_accumulator *sums;
    lk_tensor *x, *dx, *weights; /* weights of the outputs in the loss */
    lk_tape *tape;
};

static lk_tensor *drawn(lk_dtype dtype, lk_shape sample, int64_t below, const char *purpose)
{
    return test_drawn(lk_rng_start(SEED, "test", purpose), dtype, test_batch(SAMPLES, sample),
                      below);
}

static struct bench bench_new(const lk_layer *layer, const lk_layer_sample *s, lk_dtype dtype)
{
    struct bench b = {0};
    ASSERT_OK(lk_model_new(&b.model));
    ASSERT_OK(lk_model_add(b.model, layer->descriptor.name, s->options));
    lk_model_spec spec = {
        .in = {s->below ? LK_I64 : dtype, s->shape}, .dtype = dtype, .seed = SEED};
    ASSERT_OK(lk_model_build(b.model, &spec));
    ASSERT_OK(lk_model_hold(b.model, NULL));
    ASSERT_OK(lk_accumulator_new(b.model, &b.sums));
    b.x = drawn(dtype, s->shape, s->below, "x");
    if (!s->below)
        ASSERT_OK(lk_tensor_zeros(dtype, lk_tensor_shape(b.x), &b.dx));
    b.weights = drawn(dtype, lk_model_out(b.model).shape, 0, "weights");
    ASSERT_OK(lk_tape_new(&b.tape));
    ASSERT_OK(lk_tape_set_shard_size(b.tape, PIECE));
    return b;
}

static void bench_free(struct bench *b)
{
    lk_tape_free(b->tape);
    lk_accumulator_free(b->sums);
    lk_model_free(b->model);
    lk_tensor_free(b->x);
    lk_tensor_free(b->dx);
    lk_tensor_free(b->weights);
}

static lk_tensor *rows(lk_tensor *t, int64_t first, int64_t last)
{
    lk_tensor *part = NULL;
    ASSERT_OK(lk_tensor_slice(t, 0, first, last, 1, &part));
    return part;
}

/* The loss of samples first <= i < last: the sum of weights * y; gradients if wanted. */
static double loss_of(struct bench *b, lk_accumulator *sums, int64_t first, int64_t last,
                      bool backward)
{
    lk_tensor *x = rows(b->x, first, last), *w = rows(b->weights, first, last),
              *dx = b->dx ? rows(b->dx, first, last) : NULL;
    lk_var vx, vw, y, product, loss;
    double value = 0;
    if (dx && backward)
        ASSERT_OK(lk_leaf(b->tape, x, dx, &vx));
    else
        ASSERT_OK(lk_constant(b->tape, x, &vx));
    ASSERT_OK(lk_constant(b->tape, w, &vw));
    lk_pass pass = {
        .tape = b->tape, .accumulator = sums, .training = true, .step = 3, .first = first};
    ASSERT_OK(lk_model_forward(b->model, &pass, vx, &y));
    lk_tensor_type out = lk_model_out(b->model);
    ASSERT_EQ(lk_shape_of(y).ndim, out.shape.ndim + 1);
    for (int i = 0; i < out.shape.ndim; i++)
        ASSERT_EQ(lk_shape_of(y).dim[i + 1], out.shape.dim[i]);
    ASSERT_OK(lk_mul(y, vw, &product));
    ASSERT_OK(lk_sum(product, NULL, &loss));
    ASSERT_OK(lk_item(loss, &value));
    if (sums)
        ASSERT_OK(lk_accumulator_add_loss(sums, loss));
    if (backward && lk_needs_grad(loss))
        ASSERT_OK(lk_backward(b->tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_reset(b->tape);
    lk_tensor_free(x);
    lk_tensor_free(w);
    lk_tensor_free(dx);
    return value;
}

/* Differences of the loss with respect to elements of `data`, against `gradient`. */
static void compare(struct bench *b, const char *what, double *data, const double *gradient,
                    int64_t n)
{
    const double h = 1e-4;
    int64_t stride = n > 12 ? n / 12 : 1;
    for (int64_t i = 0; i < n; i += stride) {
        double at = data[i], up, down, up2, down2;
        data[i] = at + h;
        up = loss_of(b, NULL, 0, SAMPLES, false);
        data[i] = at - h;
        down = loss_of(b, NULL, 0, SAMPLES, false);
        data[i] = at + 2 * h;
        up2 = loss_of(b, NULL, 0, SAMPLES, false);
        data[i] = at - 2 * h;
        down2 = loss_of(b, NULL, 0, SAMPLES, false);
        data[i] = at;
        double difference = (8 * (up - down) - (up2 - down2)) / (12 * h);
        if (!(fabs(difference - gradient[i]) <= 1e-6 * (1 + fabs(difference))))
            TEST_FAIL("%s of %s, element %lld: %.12g, differences say %.12g", what, test_current,
                      (long long)i, gradient[i], difference);
    }
}

static void check_gradients(const lk_layer *layer, const lk_layer_sample *s)
{
    struct bench b = bench_new(layer, s, LK_F64);
    loss_of(&b, b.sums, 0, SAMPLES, true);
    ASSERT_OK(lk_accumulator_join_uses(b.sums));
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(b.model));
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        compare(&b, slice.name,
                (double *)(void *)((char *)lk_slab_data(lk_model_params(b.model)) + slice.offset),
                (const double *)(const void *)((char *)lk_slab_data(lk_accumulator_slab(b.sums)) +
                                               slice.offset),
                slice.count);
    }
    if (b.dx) {
        void *data = NULL;
        ASSERT_OK(lk_tensor_writable_data(b.x, &data));
        compare(&b, "the input", data, lk_tensor_data(b.dx), lk_tensor_count(b.x));
    }
    bench_free(&b);
}

/* All that a pass over the whole batch, or over its halves, leaves in the sums. */
static uint64_t hash_of(struct bench *b, bool cut)
{
    lk_accumulator *later = NULL;
    lk_hash h = lk_hash_start();
    ASSERT_OK(lk_accumulator_new(b->model, &later));
    lk_accumulator_clear(b->sums);
    if (cut || lk_model_has_weight_reuse(b->model)) {
        /* Three pieces: the tree is (0 + 1) + 2. */
        loss_of(b, b->sums, 0, PIECE, true);
        loss_of(b, later, PIECE, 2 * PIECE, true);
        ASSERT_OK(lk_accumulator_add(b->sums, later));
        lk_accumulator_clear(later);
        loss_of(b, later, 2 * PIECE, SAMPLES, true);
        ASSERT_OK(lk_accumulator_add(b->sums, later));
    } else {
        loss_of(b, b->sums, 0, SAMPLES, true);
    }
    ASSERT_OK(lk_accumulator_join_uses(b->sums));
    lk_slab_hash(lk_accumulator_slab(b->sums), &h);
    lk_accumulator_free(later);
    return lk_hash_value(&h);
}

static void check_bits(const lk_layer *layer, const lk_layer_sample *s)
{
    struct bench b = bench_new(layer, s, LK_F32);
    uint64_t expected = hash_of(&b, false);
    if (hash_of(&b, true) != expected)
        TEST_FAIL("%s %s: other bits when the batch is cut", layer->descriptor.name,
                  s->options ? s->options : "");
    for (lk_isa isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa = (lk_isa)(isa + 1))
        for (int threads = 1; threads <= 3 && lk_isa_is_available(isa); threads++) {
            ASSERT_OK(lk_isa_set(isa));
            ASSERT_OK(lk_threads_set(threads));
            if (hash_of(&b, false) != expected)
                TEST_FAIL("%s: other bits with %s and %d threads", layer->descriptor.name,
                          lk_isa_name(isa), threads);
        }
    bench_free(&b);
}

TEST(every_layer_has_the_right_gradients)
{
    for (int i = 0; lk_layers[i]; i++) {
        test_current = lk_layers[i]->descriptor.name;
        ASSERT_TRUE(lk_layers[i]->samples && lk_layers[i]->samples->shape.ndim >= 0);
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            check_gradients(lk_layers[i], s);
    }
}

TEST(every_layer_gives_the_same_bits)
{
    for (int i = 0; lk_layers[i]; i++)
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            check_bits(lk_layers[i], s);
}
