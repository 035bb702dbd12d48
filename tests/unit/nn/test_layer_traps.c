/* Every layer on its own samples, and every update rule, in a host that traps: none raises a signal,
 * and flags and traps are left alone. */
#include "traps.h"

#include <lockstep/lockstep.h>

enum { SAMPLES = 6, PIECE = 2, N = 3 * 16384 + 5 };

/* A batch of samples of that shape; indices are all 0. */
static lk_tensor *batch_filled(lk_dtype dtype, lk_shape sample, bool index, int sort)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {SAMPLES}};
    lk_tensor *t;
    void *data;
    for (int d = 0; d < sample.ndim; d++)
        shape.dim[d + 1] = sample.dim[d];
    ASSERT_OK(lk_tensor_zeros(index ? LK_I64 : dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    if (!index)
        traps_fill(dtype, sort, lk_tensor_count(t), data);
    return t;
}

static lk_status layer_pass(lk_model *model, lk_accumulator *sums, lk_tape *tape, lk_tensor *x,
                            lk_tensor *dx)
{
    lk_var in, y, loss;
    lk_pass pass = {.tape = tape, .accumulator = sums, .training = true};
    if (dx)
        LK_TRY(lk_leaf(tape, x, dx, &in));
    else
        LK_TRY(lk_constant(tape, x, &in));
    LK_TRY(lk_model_forward(model, &pass, in, &y));
    LK_TRY(lk_sum(y, NULL, &loss));
    LK_TRY(lk_accumulator_add_loss(sums, loss));
    if (lk_needs_grad(loss))
        LK_TRY(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    return LK_TRACE(lk_model_update_running_stats(model, sums, SAMPLES / PIECE));
}

static void layer_run(const lk_layer *layer, const lk_layer_sample *s, lk_dtype dtype, int sort)
{
    lk_model *model;
    lk_accumulator *sums;
    lk_tape *tape;
    lk_tensor *x = batch_filled(dtype, s->shape, s->below > 0, sort), *dx = NULL;
    const char *name = layer->descriptor.name;
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, name, s->options));
    lk_model_spec spec = {.in = {s->below ? LK_I64 : dtype, s->shape}, .dtype = dtype, .seed = 7};
    TRAPPING(lk_model_build(model, &spec), TRAPS_HOW ", built", TRAPS_HOW_OF(name, dtype, sort));
    TRAPPING(lk_model_hold(model, NULL), TRAPS_HOW ", held", TRAPS_HOW_OF(name, dtype, sort));
    ASSERT_OK(lk_accumulator_new(model, &sums));
    if (!s->below)
        ASSERT_OK(lk_tensor_zeros(dtype, lk_tensor_shape(x), &dx));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, PIECE));
    TRAPPING(layer_pass(model, sums, tape, x, dx), TRAPS_HOW, TRAPS_HOW_OF(name, dtype, sort));
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(model);
    lk_tensor_free(x);
    lk_tensor_free(dx);
}

static void layers_run(lk_dtype dtype, int sort)
{
    for (int i = 0; lk_layers[i]; i++)
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            layer_run(lk_layers[i], s, dtype, sort);
}

TEST(layers_do_not_trap)
{
    traps_each(layers_run);
}

static void rule_run(const char *name, lk_dtype dtype, int sort)
{
    lk_slab *w, *g;
    lk_optimizer *o;
    ASSERT_OK(lk_slab_new_tensor("a", dtype, LK_SHAPE(N), &w));
    ASSERT_OK(lk_slab_new_like(w, &g));
    traps_fill(dtype, sort, N, lk_slab_data(w));
    traps_fill(dtype, sort, N, lk_slab_data(g));
    TRAPPING(lk_optimizer_new(w, name, NULL, &o), TRAPS_HOW, TRAPS_HOW_OF(name, dtype, sort));
    for (int64_t step = 0; step < 3; step++) {
        lk_optimizer_input s = {.grads = g,
                                .at = {.step = step, .steps_per_epoch = 2, .epochs = 3}};
        TRAPPING(lk_optimizer_step(o, &s, NULL), TRAPS_HOW, TRAPS_HOW_OF(name, dtype, sort));
    }
    lk_optimizer_free(o);
    lk_slab_free(w);
    lk_slab_free(g);
}

static void rules_run(lk_dtype dtype, int sort)
{
    for (int i = 0; lk_update_rules[i]; i++)
        rule_run(lk_update_rules[i]->descriptor.name, dtype, sort);
}

TEST(update_rules_do_not_trap)
{
    traps_each(rules_run);
}
