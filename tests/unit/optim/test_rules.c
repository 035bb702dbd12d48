/* Optimizers: each rule against its formula in double precision, and the same bits everywhere. */
#include "faults.h"
#include "real.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/optim.h>
#include <lockstep/thread.h>

enum { N = 20011, STEPS = 5 }; /* several tasks for the threads */

/* Parameters and gradients of a small problem: the gradient is a fixed function of w and step. */
struct problem {
    lk_slab *w, *g;
};

static struct problem problem_new(lk_dtype dtype)
{
    struct problem p = {0};
    ASSERT_OK(lk_slab_new_tensor("a", dtype, LK_SHAPE(N), &p.w));
    ASSERT_OK(lk_slab_new_like(p.w, &p.g));
    return p;
}

static void problem_free(struct problem *p)
{
    lk_slab_free(p->w);
    lk_slab_free(p->g);
}

static double start_at(int i)
{
    return 0.1 * (i % 37 - 18) + 0.03;
}

static double gradient_at(int i, int64_t step, double w)
{
    return 0.5 * w + 0.2 * sin(1.7 * i + (double)step);
}

/* STEPS steps of the optimizer from the start; p->w holds the result. */
static void steps_from_start(struct problem *p, lk_dtype dtype, lk_optimizer *o)
{
    lk_slab_zero(p->w);
    lk_slab_zero(p->g);
    for (int i = 0; i < N; i++)
        real_set(dtype, lk_slab_data(p->w), i, start_at(i));
    for (int64_t s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++)
            real_set(dtype, lk_slab_data(p->g), i,
                     gradient_at(i, s, real_get(dtype, lk_slab_data(p->w), i)));
        ASSERT_OK(lk_optimizer_step(
            o,
            &(lk_optimizer_input){.grads = p->g,
                                  .at = {.step = s, .steps_per_epoch = 2, .epochs = 3}},
            NULL));
    }
}

/* The same of a rule by its name. */
static void run(struct problem *p, lk_dtype dtype, const char *rule, const char *options)
{
    lk_optimizer *o = NULL;
    ASSERT_OK(lk_optimizer_new(p->w, rule, options, &o));
    steps_from_start(p, dtype, o);
    lk_optimizer_free(o);
}

/* One element's way, by the textbook: a rule gets w, h, t (from 1) and two numbers of state. */
typedef double textbook(double w, double h, int64_t t, double *m, double *v);

static double sgd(double w, double h, int64_t t, double *m, double *v)
{
    (void)t, (void)m, (void)v;
    return w - 0.1 * h;
}

static double momentum(double w, double h, int64_t t, double *m, double *v)
{
    (void)t, (void)v;
    *m = 0.9 * *m + h;
    return w - 0.1 * *m;
}

static double nesterov(double w, double h, int64_t t, double *m, double *v)
{
    (void)t, (void)v;
    *m = 0.9 * *m + h;
    return w - 0.1 * (h + 0.9 * *m);
}

static double adam(double w, double h, int64_t t, double *m, double *v)
{
    *m = 0.9 * *m + 0.1 * h;
    *v = 0.999 * *v + 0.001 * h * h;
    double mean = *m / (1 - pow(0.9, (double)t)), square = *v / (1 - pow(0.999, (double)t));
    return w - 0.01 * mean / (sqrt(square) + 1e-8);
}

static double adamw(double w, double h, int64_t t, double *m, double *v)
{
    return adam(w, h, t, m, v) - 0.01 * 0.1 * w;
}

static double adamax(double w, double h, int64_t t, double *m, double *v)
{
    *m = 0.9 * *m + 0.1 * h;
    *v = fmax(0.999 * *v, fabs(h));
    return w - 0.01 / (1 - pow(0.9, (double)t)) * *m / (*v + 1e-8);
}

static double nadam(double w, double h, int64_t t, double *m, double *v)
{
    double product = 1, now = 0, next;
    for (int64_t k = 1; k <= t; k++)
        product *= now = 0.9 * (1 - 0.5 * pow(0.96, 0.004 * (double)k));
    next = 0.9 * (1 - 0.5 * pow(0.96, 0.004 * (double)(t + 1)));
    *m = 0.9 * *m + 0.1 * h;
    *v = 0.999 * *v + 0.001 * h * h;
    double mean = next * *m / (1 - product * next) + (1 - now) * h / (1 - product);
    return w - 0.01 * mean / (sqrt(*v / (1 - pow(0.999, (double)t))) + 1e-8);
}

static double rmsprop(double w, double h, int64_t t, double *m, double *v)
{
    (void)t, (void)m;
    *v = 0.9 * *v + 0.1 * h * h;
    return w - 0.01 * h / (sqrt(*v) + 1e-7);
}

static double rmsprop_momentum(double w, double h, int64_t t, double *m, double *v)
{
    (void)t;
    *v = 0.9 * *v + 0.1 * h * h;
    *m = 0.5 * *m + h / (sqrt(*v) + 1e-7);
    return w - 0.01 * *m;
}

static double adagrad(double w, double h, int64_t t, double *m, double *v)
{
    (void)m;
    if (t == 1)
        *v = 0.1;
    *v += h * h;
    return w - 0.01 * h / (sqrt(*v) + 1e-10);
}

static double adadelta(double w, double h, int64_t t, double *m, double *v)
{
    (void)t;
    *v = 0.95 * *v + 0.05 * h * h;
    double d = h * sqrt(*m + 1e-8) / sqrt(*v + 1e-8);
    *m = 0.95 * *m + 0.05 * d * d;
    return w - d;
}

static const struct {
    const char *rule, *options;
    textbook *by_hand;
    double decay, clip;
} rules[] = {
    {"sgd", "rate=0.1", sgd, 0, 0},
    {"sgd", "rate=0.1 decay=0.01 clip=0.3", sgd, 0.01, 0.3},
    {"sgd", "rate=0.1 momentum=0.9", momentum, 0, 0},
    {"sgd", "rate=0.1 momentum=0.9 nesterov=true", nesterov, 0, 0},
    {"adam", "rate=0.01", adam, 0, 0},
    {"adam", "rate=0.01 decay=0.1", adam, 0.1, 0},
    {"adamw", "rate=0.01 decay=0.1", adamw, 0, 0},
    {"adamax", "rate=0.01", adamax, 0, 0},
    {"nadam", "rate=0.01", nadam, 0, 0},
    {"rmsprop", "rate=0.01", rmsprop, 0, 0},
    {"rmsprop", "rate=0.01 momentum=0.5", rmsprop_momentum, 0, 0},
    {"adagrad", "rate=0.01 start=0.1", adagrad, 0, 0},
    {"adadelta", "", adadelta, 0, 0},
};

TEST(every_rule_follows_its_formula)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1))
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            struct problem p = problem_new(dtype);
            run(&p, dtype, rules[r].rule, rules[r].options);
            for (int i = 0; i < N; i++) {
                double w = start_at(i), m = 0, v = 0;
                for (int64_t s = 0; s < STEPS; s++) {
                    double h = gradient_at(i, s, w);
                    if (rules[r].clip > 0)
                        h = fmax(-rules[r].clip, fmin(rules[r].clip, h));
                    h += rules[r].decay * w;
                    w = rules[r].by_hand(w, h, s + 1, &m, &v);
                }
                double got = real_get(dtype, lk_slab_data(p.w), i);
                if (!(fabs(got - w) <= (dtype == LK_F32 ? 2e-6 : 1e-13) * (1 + fabs(w))))
                    TEST_FAIL("%s %s, element %d: %.15g, by hand %.15g", rules[r].rule,
                              rules[r].options, i, got, w);
            }
            problem_free(&p);
        }
}

TEST(every_rule_is_tested)
{
    for (int i = 0; lk_update_rules[i]; i++) {
        bool found = strcmp(lk_update_rules[i]->descriptor.name, "lbfgs") == 0;
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
            found = found || strcmp(rules[r].rule, lk_update_rules[i]->descriptor.name) == 0;
        if (!found)
            TEST_FAIL("no row for %s", lk_update_rules[i]->descriptor.name);
    }
}

TEST(the_bits_are_the_same_everywhere)
{
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        struct problem p = problem_new(LK_F32);
        static float expected[N];
        ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
        run(&p, LK_F32, rules[r].rule, rules[r].options);
        memcpy(expected, lk_slab_data(p.w), sizeof expected);
        for (lk_isa isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa = (lk_isa)(isa + 1))
            for (int threads = 1; threads <= 2 && lk_isa_is_available(isa); threads++) {
                ASSERT_OK(lk_isa_set(isa));
                ASSERT_OK(lk_threads_set(threads));
                run(&p, LK_F32, rules[r].rule, rules[r].options);
                ASSERT_SAME_BITS(expected, lk_slab_data(p.w), sizeof expected);
            }
        problem_free(&p);
    }
}

/* Parameters and all state, whether the options were a text, which is gone, or a config. */
TEST(text_and_config_give_the_same_bits)
{
    const size_t bytes = N * sizeof(float);
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        struct problem p = problem_new(LK_F32), q = problem_new(LK_F32);
        lk_optimizer *by_text = NULL, *by_config = NULL;
        lk_arena *arena = NULL;
        lk_config config;
        char name[64], text[256];
        snprintf(name, sizeof name, "%s", rules[r].rule);
        snprintf(text, sizeof text, "%s schedule=cosine(to=0.1)", rules[r].options);
        ASSERT_OK(lk_arena_new(&arena));
        ASSERT_OK(lk_config_parse(&lk_registry_optimizer, name, text, arena, &config));
        ASSERT_OK(lk_optimizer_new_config(q.w, &config, &by_config));
        ASSERT_OK(lk_optimizer_new(p.w, name, text, &by_text));
        memset(name, 'x', sizeof name);
        memset(text, 'x', sizeof text);
        steps_from_start(&p, LK_F32, by_text);
        steps_from_start(&q, LK_F32, by_config);
        ASSERT_SAME_BITS(lk_slab_data(p.w), lk_slab_data(q.w), bytes);
        const char *a, *b;
        for (int i = 0; lk_optimizer_slab(by_text, i, &a); i++)
            ASSERT_SAME_BITS(lk_slab_data(lk_optimizer_slab(by_text, i, &a)),
                             lk_slab_data(lk_optimizer_slab(by_config, i, &b)), bytes);
        lk_optimizer_free(by_text);
        lk_optimizer_free(by_config);
        lk_arena_free(arena);
        problem_free(&p);
        problem_free(&q);
    }
}

TEST(wrong_names_and_options_are_told_with_their_place)
{
    static const char *const wrong[][3] = {
        {"adm", NULL, "unknown optimizer \"adm\"; did you mean \"adam\"?"},
        {NULL, NULL, "the name of the optimizer is NULL"},
        {"adam", "rtae=0.003",
         "options, column 1: optimizer adam has no option \"rtae\"; did you mean \"rate\"?"},
        {"adam", "decay=0.1 rate=fast",
         "options, column 16: optimizer adam: rate: \"fast\" is not a number"},
        {"adam", "rate=-1",
         "options, column 6: optimizer adam: rate: \"-1\" is out of range, it must be"},
        {"sgd", "rate=0.1 schedule=cosin",
         "options, column 19: optimizer sgd: schedule: unknown schedule \"cosin\"; did you mean "
         "\"cosine\"?"},
        {"sgd", "schedule=cosine(too=0.1)",
         "options, column 17: optimizer sgd: schedule: schedule cosine has no option \"too\"; did "
         "you "
         "mean \"to\"?"},
    };
    struct problem p = problem_new(LK_F32);
    lk_optimizer *o = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT_FAILS(lk_optimizer_new(p.w, wrong[i][0], wrong[i][1], &o), LK_EINVAL, wrong[i][2]);
        ASSERT_TRUE(!o);
    }
    ASSERT_FAILS(lk_optimizer_new(NULL, "adam", NULL, &o), LK_EINVAL, "params is NULL");
    ASSERT_FAILS(lk_optimizer_new_config(p.w, NULL, &o), LK_EINVAL, "rule is NULL");
    problem_free(&p);
}

static lk_status make_and_free(void)
{
    lk_slab *w = NULL;
    lk_optimizer *o = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_slab_new_tensor("a", LK_F32, LK_SHAPE(N), &w));
    LK_TRY_TO(done, lk_optimizer_new(w, "adam", "rate=0.1 schedule=cosine(to=0.1)", &o));
done:
    lk_optimizer_free(o);
    lk_slab_free(w);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(make_and_free) >= 8);
}

TEST(lbfgs_finds_the_minimum_of_a_parabola)
{
    struct problem p = problem_new(LK_F64);
    lk_optimizer *o = NULL;
    ASSERT_OK(lk_optimizer_new(p.w, "lbfgs", "history=10", &o));
    double *w = lk_slab_data(p.w), *g = lk_slab_data(p.g);
    for (int i = 0; i < N; i++)
        w[i] = start_at(i);
    for (int64_t s = 0; s < 40; s++) {
        for (int i = 0; i < N; i++)
            g[i] = (1 + i % 5) * (w[i] - i % 7);
        ASSERT_OK(lk_optimizer_step(
            o, &(lk_optimizer_input){.grads = p.g, .at = {.step = s, .steps_per_epoch = 1}}, NULL));
    }
    for (int i = 0; i < N; i++)
        ASSERT_NEAR(w[i], i % 7, 1e-8);
    lk_optimizer_free(o);
    problem_free(&p);
}

TEST(the_norm_is_clipped)
{
    struct problem p = problem_new(LK_F64);
    lk_optimizer *o = NULL;
    lk_optimizer_report report;
    ASSERT_OK(lk_optimizer_new(p.w, "sgd", "rate=1 clip_norm=2.5", &o));
    double *g = lk_slab_data(p.g);
    g[0] = 3;
    g[5] = -4;
    lk_optimizer_input step = {.grads = p.g, .at = {.step = 0, .steps_per_epoch = 1}};
    ASSERT_OK(lk_optimizer_step(o, &step, &report));
    ASSERT_TRUE(report.norm == 5 && report.rate == 1);
    ASSERT_TRUE(((double *)lk_slab_data(p.w))[0] == -1.5);
    ASSERT_TRUE(((double *)lk_slab_data(p.w))[5] == 2);
    g[0] = 0.3;
    g[5] = -0.4;
    lk_slab_zero(p.w);
    ASSERT_OK(lk_optimizer_step(o, &step, &report));
    ASSERT_TRUE(((double *)lk_slab_data(p.w))[5] == 0.4);
    lk_optimizer_free(o);
    problem_free(&p);
}

static double factor(const char *name, const char *options, int64_t step)
{
    lk_arena *arena = NULL;
    lk_config choice;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_config_parse(&lk_registry_schedule, name, options, arena, &choice));
    double value = lk_schedule_factor(
        &choice, &(lk_schedule_point){.step = step, .steps_per_epoch = 10, .epochs = 4});
    lk_arena_free(arena);
    return value;
}

TEST(schedules_change_with_time)
{
    ASSERT_TRUE(factor("step", "epochs=2 factor=0.5", 19) == 1);
    ASSERT_TRUE(factor("step", "epochs=2 factor=0.5", 20) == 0.5);
    ASSERT_TRUE(factor("step", "at=1,3 factor=0.5", 30) == 0.25);
    ASSERT_TRUE(factor("linear", "", 0) == 1 && factor("linear", "", 20) == 0.5);
    ASSERT_TRUE(factor("linear", "from=2 to=4 start=1 end=2", 15) == 3);
    ASSERT_TRUE(factor("linear", "", 400) == 0);
    ASSERT_NEAR(factor("cosine", "", 20), 0.5, 1e-15);
    ASSERT_NEAR(factor("cosine", "to=0.1", 10), 0.1 + 0.45 * (1 + cos(0.25 * 3.14159265358979)),
                1e-14);
    ASSERT_TRUE(factor("cosine", "", 40) == 0);
    ASSERT_TRUE(factor("warmup", "epochs=2", 10) == 0.5 && factor("warmup", "epochs=2", 30) == 1);
    ASSERT_TRUE(factor("warmup", "epochs=2 then=linear", 10) == 0.5 * 0.75);
    ASSERT_TRUE(factor("inverse", "decay=0.1", 10) == 0.5);
    const char *monotone = "initial=0.5 saturated=1 start=1 saturate=3";
    ASSERT_TRUE(factor("linear_monotone", monotone, 9) == 0.5);
    ASSERT_TRUE(factor("linear_monotone", monotone, 25) == 0.75);
    ASSERT_TRUE(factor("linear_monotone", monotone, 30) == 1);
}

TEST(without_epochs_each_step_is_one)
{
    const char *const text = "rate=1 schedule=step(epochs=2 factor=0.5)";
    struct problem p = problem_new(LK_F64);
    lk_optimizer *o = NULL;
    lk_optimizer_report report;
    ASSERT_OK(lk_optimizer_new(p.w, "sgd", text, &o));
    for (int64_t s = 0; s < 4; s++) {
        lk_optimizer_input step = {.grads = p.g, .at = {.step = s}};
        ASSERT_OK(lk_optimizer_step(o, &step, &report));
        ASSERT_TRUE(report.rate == (s < 2 ? 1 : 0.5));
    }
    lk_optimizer_free(o);
    problem_free(&p);
}

TEST(gradients_of_another_layout_are_refused)
{
    struct problem p = problem_new(LK_F32), q = problem_new(LK_F64);
    lk_optimizer *o = NULL;
    ASSERT_OK(lk_optimizer_new(p.w, "adam", NULL, &o));
    ASSERT_FAILS(lk_optimizer_step(
                     o, &(lk_optimizer_input){.grads = q.g, .at = {.steps_per_epoch = 1}}, NULL),
                 LK_EINVAL, "\"a\" f64[20011]");
    lk_optimizer *none = NULL;
    ASSERT_FAILS(lk_optimizer_new(p.w, "sgd", "nesterov=true", &none), LK_EINVAL, "momentum");
    lk_optimizer_free(o);
    problem_free(&p);
    problem_free(&q);
}

/* ---- ranges ---- */

static lk_status read_slab(void *context, int64_t first, int64_t n, void *out)
{
    memcpy(out, (const float *)lk_slab_data(context) + first, (size_t)n * sizeof(float));
    return LK_OK;
}

static lk_status read_nothing(void *context, int64_t first, int64_t n, void *out)
{
    (void)context, (void)first, (void)n, (void)out;
    return LK_RAISE(LK_EIO, "there is nothing");
}

/* Element-wise rules update what is held; a number over all parameters is refused. */
TEST(a_part_of_the_parameters_is_not_taken_for_all)
{
    lk_slab_layout *layout = NULL;
    lk_slab *w = NULL;
    lk_optimizer *o = NULL;
    double norm;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add_box(layout, "a", LK_F32, LK_SHAPE(N), LK_SHAPE(N),
                                     &(lk_box){1, {2}, {3}}));
    ASSERT_OK(lk_slab_new(layout, &w));
    ASSERT_OK(lk_optimizer_new(w, "adam", NULL, &o));
    lk_optimizer_free(o);
    ASSERT_FAILS(lk_optimizer_new(w, "adam", "clip_norm=1", &o), LK_ENOTSUP,
                 "of a there is f32[2:5] here, a part");
    ASSERT_FAILS(lk_optimizer_new(w, "lbfgs", NULL, &o), LK_ENOTSUP,
                 "lbfgs needs all parameters at once");
    ASSERT_FAILS(lk_gradient_norm(w, w, &norm), LK_ENOTSUP, "a part");
    lk_slab_free(w);
    lk_slab_layout_free(layout);
}

/* What the other of two ranks has, of each tensor; a rank without it cannot step. */
typedef struct elsewhere {
    lk_slab *grads;
    int calls;
} elsewhere;

static lk_status join_other(void *context, double *sum, int64_t n)
{
    elsewhere *other = context;
    double norm;
    ASSERT_EQ(n, 2);
    ASSERT_EQ((int64_t)sum[1], 0);
    LK_TRY(lk_gradient_norm(other->grads, other->grads, &norm));
    sum[1] = norm * norm;
    other->calls++;
    return LK_OK;
}

/* Of two tensors one is held by another rank: the norm is that of both. */
TEST(sums_of_tensors_elsewhere_are_joined)
{
    lk_slab_layout *layout = NULL;
    lk_slab *w = NULL, *g = NULL;
    elsewhere other = {.calls = 0};
    lk_optimizer *o = NULL;
    lk_optimizer_report report;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "a", LK_F32, LK_SHAPE(1)));
    ASSERT_OK(lk_slab_layout_add_box(layout, "b", LK_F32, LK_SHAPE(1), LK_SHAPE(1),
                                     &(lk_box){1, {0}, {0}}));
    ASSERT_OK(lk_slab_new(layout, &w));
    ASSERT_OK(lk_slab_new(layout, &g));
    ASSERT_OK(lk_slab_new_tensor("b", LK_F32, LK_SHAPE(1), &other.grads));
    *(float *)lk_slab_data(g) = 3;
    *(float *)lk_slab_data(other.grads) = 4;
    ASSERT_OK(lk_optimizer_new(w, "sgd", "rate=1 momentum=0 clip_norm=1", &o));
    lk_optimizer_input step = {.grads = g};
    ASSERT_FAILS(lk_optimizer_step(o, &step, &report), LK_ENOTSUP,
                 "a number over all parameters: of b there is f32[0:0] here, a part");
    step.join_sums = join_other;
    step.context = &other;
    ASSERT_OK(lk_optimizer_step(o, &step, &report));
    ASSERT_NEAR(report.norm, 5, 0);
    ASSERT_NEAR(*(float *)lk_slab_data(w), -0.6f, 0);
    ASSERT_EQ(other.calls, 1);
    lk_optimizer_free(o);
    lk_slab_free(other.grads);
    lk_slab_free(g);
    lk_slab_free(w);
    lk_slab_layout_free(layout);
}

/* STEPS steps of p, whole or in ranges that end at these elements. */
static void steps_run(struct problem *p, const char *rule, const int64_t *end, int n)
{
    lk_optimizer *o = NULL;
    ASSERT_OK(lk_optimizer_new(p->w, rule, "decay=0.01", &o));
    for (int i = 0; i < N; i++) {
        real_set(LK_F32, lk_slab_data(p->w), i, start_at(i));
        real_set(LK_F32, lk_slab_data(p->g), i, gradient_at(i, 0, start_at(i)));
    }
    for (int64_t s = 0; s < STEPS; s++) {
        lk_optimizer_input step = {.grads = p->g, .at = {.step = s, .steps_per_epoch = 1}};
        if (n == 0)
            ASSERT_OK(lk_optimizer_step(o, &step, NULL));
        step.read_gradient = read_slab;
        step.context = p->g;
        for (int i = 0; i < n; i++) {
            step.first = i > 0 ? end[i - 1] : 0;
            step.n = end[i] - step.first;
            ASSERT_OK(lk_optimizer_step(o, &step, NULL));
        }
    }
    lk_optimizer_free(o);
}

TEST(ranges_give_the_same_bits)
{
    struct problem p = problem_new(LK_F32), q = problem_new(LK_F32);
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(p.w)),
            all = bytes / (int64_t)sizeof(float);
    const int64_t end[] = {0, 16, 4096, 11200, all};
    for (int i = 0; i < 2; i++) {
        const char *rule = i == 0 ? "sgd" : "adam";
        steps_run(&p, rule, NULL, 0);
        steps_run(&q, rule, end, 5);
        ASSERT_TRUE(memcmp(lk_slab_data(p.w), lk_slab_data(q.w), (size_t)bytes) == 0);
    }
    problem_free(&p);
    problem_free(&q);
}

TEST(wrong_ranges_are_refused)
{
    struct problem p = problem_new(LK_F32);
    lk_optimizer *o = NULL;
    lk_optimizer_input step = {
        .read_gradient = read_slab, .context = p.g, .at = {.steps_per_epoch = 1}};
    ASSERT_OK(lk_optimizer_new(p.w, "adam", NULL, &o));
    step.first = 8;
    step.n = 16;
    ASSERT_FAILS(lk_optimizer_step(o, &step, NULL), LK_EINVAL, "borders of 64 bytes");
    step.first = 1 << 20;
    ASSERT_FAILS(lk_optimizer_step(o, &step, NULL), LK_EINVAL, "elements 1048576");
    step.first = 0;
    step.read_gradient = read_nothing;
    ASSERT_FAILS(lk_optimizer_step(o, &step, NULL), LK_EIO, "adam could not update");
    lk_optimizer_free(o);
    problem_free(&p);
}

TEST(a_step_allocates_nothing)
{
    struct problem p = problem_new(LK_F32);
    lk_optimizer *o = NULL;
    ASSERT_OK(lk_optimizer_new(p.w, "lbfgs", "clip_norm=1", &o));
    int64_t before = lk_alloc_stats_now().calls;
    for (int64_t s = 0; s < 3; s++)
        ASSERT_OK(lk_optimizer_step(
            o, &(lk_optimizer_input){.grads = p.g, .at = {.step = s, .steps_per_epoch = 1}}, NULL));
    ASSERT_EQ(lk_alloc_stats_now().calls, before);
    lk_optimizer_free(o);
    problem_free(&p);
}
