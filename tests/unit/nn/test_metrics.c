/* Metrics and losses on numbers that can be counted by hand. */
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/loss.h>
#include <lockstep/metric.h>

static lk_tensor *reals(lk_shape shape, const double *values)
{
    lk_tensor *t = NULL, *wrapped = NULL;
    ASSERT_OK(lk_tensor_wrap_const(LK_F64, shape, values, NULL, NULL, &wrapped));
    ASSERT_OK(lk_tensor_clone(wrapped, LK_F32, &t));
    lk_tensor_free(wrapped);
    return t;
}

static lk_tensor *labels(int64_t n, const int64_t *values)
{
    lk_tensor *t = NULL;
    ASSERT_OK(lk_tensor_wrap_const(LK_I64, LK_SHAPE(n), values, NULL, NULL, &t));
    return t;
}

static const double scores[] = {0.1, 0.7, 0.2, /* 1 */ 0.5, 0.3, 0.2,  /* 0 */
                                0.2, 0.3, 0.5, /* 2 */ 0.4, 0.4, 0.2}; /* 0, the first */
static const int64_t truth[] = {1, 0, 1, 1};

/* The value of a metric of the scores, and its JSON if it has one. */
static double value_of(const char *name, const char *options, const char **json, lk_arena *arena)
{
    lk_config choice;
    double number[2 * 65536] = {0};
    ASSERT_OK(lk_config_parse(&lk_registry_metric, name, options, arena, &choice));
    const lk_metric *m = (const lk_metric *)(const void *)choice.descriptor;
    lk_tensor_type out = {LK_F32, LK_SHAPE(3)}, target = {LK_I64, LK_SCALAR};
    ASSERT_OK(m->check(choice.options, out, target));
    ASSERT_TRUE(m->numbers(choice.options, out) <= 2 * 65536);
    lk_tensor *y = reals(LK_SHAPE(4, 3), scores), *t = labels(4, truth);
    ASSERT_OK(m->add(choice.options, y, t, number));
    if (json)
        ASSERT_OK(m->json(choice.options, out, number, arena, json));
    lk_tensor_free(y);
    lk_tensor_free(t);
    return m->value ? m->value(choice.options, out, number) : (double)NAN;
}

TEST(metrics_count_hits)
{
    lk_arena *arena = NULL;
    const char *json = NULL;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_TRUE(value_of("accuracy", NULL, NULL, arena) == 0.5);
    ASSERT_TRUE(value_of("misclassification", NULL, NULL, arena) == 0.5);
    ASSERT_TRUE(value_of("top_k", "k=1", NULL, arena) == 0.5);
    ASSERT_TRUE(value_of("top_k", "k=2", NULL, arena) == 1);
    ASSERT_TRUE(isnan(value_of("confusion", NULL, &json, arena)));
    ASSERT_TRUE(strcmp(json, "[[1,0,0],[1,1,1],[0,0,0]]") == 0);
    /* Class 1 scores 0.7, 0.3, 0.4; the other 0.3: wins 2, ties 1, of 3 pairs. */
    ASSERT_NEAR(value_of("auc", "class=1", NULL, arena), 2.5 / 3, 1e-15);
    lk_arena_free(arena);
}

TEST(a_label_that_is_no_class_is_refused)
{
    double number[2] = {0};
    lk_config choice;
    lk_arena *arena = NULL;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_config_parse(&lk_registry_metric, "accuracy", NULL, arena, &choice));
    const lk_metric *m = (const lk_metric *)(const void *)choice.descriptor;
    lk_tensor *y = reals(LK_SHAPE(2, 3), scores), *t = labels(2, (int64_t[]){0, 3});
    ASSERT_FAILS(m->add(NULL, y, t, number), LK_EINVAL, "label 3 of sample position 1");
    ASSERT_FAILS(m->check(NULL, (lk_tensor_type){LK_F32, LK_SHAPE(3)},
                          (lk_tensor_type){LK_I64, LK_SHAPE(2)}),
                 LK_ESHAPE, "[3]");
    lk_tensor_free(y);
    lk_tensor_free(t);
    lk_arena_free(arena);
}

/* The loss of 2 samples, summed. */
static double loss_of(const char *name, lk_tensor *y, lk_tensor *target)
{
    lk_config choice;
    lk_arena *arena = NULL;
    lk_tape *tape = NULL;
    lk_var vy, vt, loss;
    double value = 0;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, name, NULL, arena, &choice));
    const lk_loss *cost = (const lk_loss *)(const void *)choice.descriptor;
    ASSERT_OK(lk_constant(tape, y, &vy));
    ASSERT_OK(lk_constant(tape, target, &vt));
    ASSERT_OK(cost->apply(choice.options, vy, vt, &loss));
    ASSERT_OK(lk_item(loss, &value));
    lk_shape shape = lk_tensor_shape(y);
    lk_tensor_type sample = {LK_F32, {.ndim = shape.ndim - 1}};
    for (int i = 1; i < shape.ndim; i++)
        sample.shape.dim[i - 1] = shape.dim[i];
    if (cost->parts)
        value /= (double)cost->parts(sample);
    lk_tape_free(tape);
    lk_arena_free(arena);
    return value;
}

TEST(losses_are_sums_over_samples)
{
    lk_tensor *y = reals(LK_SHAPE(2, 2), (double[]){1, 2, 3, 5});
    lk_tensor *t = reals(LK_SHAPE(2, 2), (double[]){0, 0, 1, 1});
    lk_tensor *l = labels(2, (int64_t[]){0, 1});
    ASSERT_NEAR(loss_of("mean_squared_error", y, t), 2.5 + 10, 1e-6);
    ASSERT_NEAR(loss_of("sum_squared_error", y, t), 2.5 + 10, 1e-6);
    ASSERT_NEAR(loss_of("softmax_cross_entropy", y, l), log(1 + exp(1)) + log(1 + exp(-2)), 1e-6);
    double by_hand = 0.5 *
                     (log(1 + exp(1)) + log(1 + exp(2)) + log(1 + exp(-3)) + log(1 + exp(-5)));
    ASSERT_NEAR(loss_of("logistic_cross_entropy", y, t), by_hand, 1e-6);
    lk_tensor_free(y);
    lk_tensor_free(t);
    lk_tensor_free(l);
}

TEST(positions_of_a_sample_are_averaged)
{
    lk_tensor *y = reals(LK_SHAPE(1, 2, 2), (double[]){1, 2, 3, 5}),
              *flat = labels(2, (int64_t[]){0, 1}), *l = NULL;
    ASSERT_OK(lk_tensor_reshape(flat, LK_SHAPE(1, 2), &l));
    ASSERT_NEAR(loss_of("softmax_cross_entropy", y, l), 0.5 * (log(1 + exp(1)) + log(1 + exp(-2))),
                1e-6);
    lk_tensor_free(y);
    lk_tensor_free(l);
    lk_tensor_free(flat);
}

TEST(losses_refuse_what_does_not_fit)
{
    lk_tensor_type ten = {LK_F32, LK_SHAPE(10)}, label = {LK_I64, LK_SCALAR},
                   row = {LK_I64, LK_SHAPE(4)};
    const lk_descriptor *entry = NULL;
    ASSERT_OK(lk_descriptor_find(&lk_registry_loss, "softmax_cross_entropy", &entry));
    const lk_loss *cost = (const lk_loss *)(const void *)entry;
    ASSERT_OK(cost->check(NULL, ten, label));
    ASSERT_OK(cost->check(NULL, ten, ten));
    ASSERT_FAILS(cost->check(NULL, ten, row), LK_ESHAPE, "[10]");
    ASSERT_OK(lk_descriptor_find(&lk_registry_loss, "mean_squared_error", &entry));
    cost = (const lk_loss *)(const void *)entry;
    ASSERT_FAILS(cost->check(NULL, ten, label), LK_EDTYPE, "one_hot");
}
