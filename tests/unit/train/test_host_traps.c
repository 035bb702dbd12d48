/* What computes outside of ops and kernels, in a host that traps: conversions, options, loaders,
 * losses, metrics and schedules raise no signal, and flags and traps are left alone. */
#include "training.h"
#include "traps.h"

#include <lockstep/lockstep.h>

enum { N = 67, SAMPLES = 30, FEATURES = 6 };

TEST(conversions_do_not_trap)
{
    for (int sort = 0; sort < N_TRAPS_SORTS; sort++)
        for (lk_dtype from = LK_F32; from <= LK_F64; from++)
            for (int to = 0; to < LK_N_DTYPES; to++) {
                lk_tensor *x, *y = NULL;
                void *data;
                ASSERT_OK(lk_tensor_new(from, LK_SHAPE(N), &x));
                ASSERT_OK(lk_tensor_writable_data(x, &data));
                traps_fill(from, sort, N, data);
                traps_begin("%s numbers of %s to %s", traps_sort_name[sort], lk_dtype_name(from),
                            lk_dtype_name((lk_dtype)to));
                lk_status st = lk_tensor_clone(x, (lk_dtype)to, &y);
                traps_end();
                ASSERT_TRUE(st == LK_OK || st == LK_EOVERFLOW || st == LK_EINVAL);
                lk_error_clear();
                lk_tensor_free(x);
                lk_tensor_free(y);
            }
}

TEST(single_elements_do_not_trap)
{
    static const double value[] = {1e308, -1e-320, 0.1, HUGE_VAL};
    for (int to = 0; to < LK_N_DTYPES; to++)
        for (int k = 0; k < 4; k++) {
            lk_tensor *t;
            double back;
            int64_t whole;
            ASSERT_OK(lk_tensor_zeros((lk_dtype)to, LK_SHAPE(3), &t));
            traps_begin("%g as %s", value[k], lk_dtype_name((lk_dtype)to));
            (void)!lk_tensor_fill_f64(t, value[k]);
            (void)!lk_tensor_set_f64(t, LK_AT(1), value[k]);
            (void)!lk_tensor_get_f64(t, LK_AT(1), &back);
            (void)!lk_tensor_get_i64(t, LK_AT(1), &whole);
            (void)!lk_tensor_fill_i64(t, INT64_MAX);
            (void)!lk_tensor_set_i64(t, LK_AT(1), INT64_MIN);
            traps_end();
            lk_error_clear();
            lk_tensor_free(t);
        }
}

TEST(numbers_that_are_no_double_do_not_trap)
{
    static const char *const text[] = {"rate=1e999", "rate=1e-999", "rate=0.1", "rate=1e308"};
    lk_arena *arena;
    ASSERT_OK(lk_arena_new(&arena));
    for (int k = 0; k < 4; k++) {
        lk_config choice;
        traps_begin("the option %s", text[k]);
        lk_status st = lk_config_parse(&lk_registry_optimizer, "sgd", text[k], arena, &choice);
        traps_end();
        ASSERT_EQ(st == LK_OK, k == 2);
        lk_error_clear();
    }
    lk_arena_free(arena);
}

/* Features of one sort, with classes or, for squared errors, the features themselves. */
static lk_dataset *set_new(int sort, bool classes)
{
    static float x[SAMPLES * FEATURES];
    static int64_t y[SAMPLES];
    lk_tensor *features, *targets;
    traps_fill(LK_F32, sort, (int64_t)SAMPLES * FEATURES, x);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i % 2;
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(SAMPLES, FEATURES), x, NULL, NULL, &features));
    if (classes)
        ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(SAMPLES), y, NULL, NULL, &targets));
    else
        ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(SAMPLES, FEATURES), x, NULL, NULL, &targets));
    return training_set(features, targets, classes ? 2 : 0);
}

static lk_status training_make(struct training *t, const char *loss, const char *optimizer)
{
    lk_loader_options options = {
        .batch = 8, .shards = 4, .shuffle = true, .normalise = LK_NORMALISE_STANDARD, .scale = 3};
    char text[512];
    int n = snprintf(text, sizeof text, "loss=%s optimizer=sgd(%s)", loss, optimizer);
    bool classes = strcmp(loss, "softmax_cross_entropy") == 0;
    LK_TRY(lk_loader_new_options(t->set, &options, 1, &t->loader));
    for (int i = 0; classes && lk_metrics[i]; i++) {
        const char *name = lk_metrics[i]->descriptor.name;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s%s", i == 0 ? " metrics=" : ",", name,
                      strcmp(name, "top_k") == 0 ? "(k=1)" : "");
    }
    LK_TRY(lk_model_new(&t->model));
    LK_TRY(lk_model_add(t->model, "linear", "units=5"));
    LK_TRY(lk_model_add(t->model, "batch_norm", NULL));
    LK_TRY(lk_model_add(t->model, "tanh", NULL));
    LK_TRY(lk_model_add(t->model, "linear", classes ? "units=2" : "units=6"));
    lk_field x = lk_loader_field(t->loader, 0);
    LK_TRY(lk_model_build(t->model, &(lk_model_spec){.in = {x.dtype, x.shape}, .seed = 1}));
    LK_TRY(lk_model_hold(t->model, NULL));
    lk_trainer_spec spec = {.model = t->model, .train = t->loader, .epochs = 2};
    return LK_TRACE(lk_trainer_new(&spec, text, &t->trainer));
}

/* Steps until the numbers give out, and a score. */
static lk_status training_run(struct training *t, const char *loss, const char *optimizer)
{
    lk_eval score;
    LK_TRY(training_make(t, loss, optimizer));
    lk_status st = LK_OK;
    for (int i = 0; i < 6 && st == LK_OK; i++)
        st = lk_trainer_step(t->trainer, NULL);
    LK_TRY(lk_trainer_evaluate(t->trainer, t->loader, &score));
    return st;
}

TEST(training_does_not_trap)
{
    static const char *const loss[] = {"softmax_cross_entropy", "mean_squared_error",
                                       "sum_squared_error"};
    static const char *const optimizer[] = {"rate=1e30", "rate=0.1 clip_norm=1",
                                            "rate=0.1 momentum=0.9"};
    int failed = 0;
    for (int sort = 0; sort < N_TRAPS_SORTS; sort++)
        for (int k = 0; k < 3; k++) {
            struct training t = {.set = set_new(sort, k == 0)};
            traps_begin("training with %s on %s numbers", loss[k], traps_sort_name[sort]);
            lk_status st = training_run(&t, loss[k], optimizer[k]);
            traps_end();
            if (st != LK_OK) { /* no number is left: the step and the tensor are named */
                ASSERT_TRUE(strstr(lk_error_message(), "step") != NULL);
                failed++;
            }
            lk_error_clear();
            training_free(&t);
        }
    ASSERT_TRUE(failed > 0);
}

TEST(schedules_do_not_trap)
{
    lk_arena *arena;
    ASSERT_OK(lk_arena_new(&arena));
    for (int i = 0; lk_schedules[i]; i++) {
        lk_config choice;
        if (lk_config_parse(&lk_registry_schedule, lk_schedules[i]->descriptor.name, NULL, arena,
                            &choice) != LK_OK) {
            lk_error_clear(); /* it has no presets */
            continue;
        }
        for (int64_t step = 0; step < 7; step++) {
            traps_begin("the schedule %s", lk_schedules[i]->descriptor.name);
            volatile double factor = lk_schedule_factor(
                &choice, &(lk_schedule_point){.step = step, .steps_per_epoch = 3, .epochs = 2});
            traps_end();
            ASSERT_TRUE(factor >= 0);
        }
    }
    lk_arena_free(arena);
}
