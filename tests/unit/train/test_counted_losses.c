/* Which losses of a trainer count: that of the experiment and those that layers add, together, apart and by
 * name; what is refused, and what a loss that is not finite is blamed on.
 */
#include "faults.h"
#include "training.h"

#include <lockstep/make_parallel.h>

#include <sched.h>

enum { SAMPLES = 20, IN = 4 };

static float features[SAMPLES * IN];
static int64_t labels[SAMPLES];

/* With "y" if `targets` says so. */
static lk_status set_make(bool targets, lk_dataset **out)
{
    lk_dataset_info info = {.name = "a test",
                            .classes = targets ? 2 : 0,
                            .n_fields = targets ? 2 : 1,
                            .field = {{.name = "x"}, {.name = "y"}}};
    lk_tensor *value[2] = {NULL};
    lk_status st;
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % 2;
    LK_TRY(
        lk_rng_uniform_f32(lk_rng_start(3, "x", "test"), (lk_rng_at){0}, SAMPLES * IN, features));
    LK_TRY_TO(done, lk_tensor_wrap(LK_F32, LK_SHAPE(SAMPLES, IN), features, NULL, NULL, &value[0]));
    LK_TRY_TO(done, lk_tensor_wrap(LK_I64, LK_SHAPE(SAMPLES), labels, NULL, NULL, &value[1]));
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, value, out));
done:
    lk_tensor_free(value[0]);
    lk_tensor_free(value[1]);
    return st;
}

static const char *const net[] = {
    "linear",
    "units=4 name=first",
    "autoencoder",
    "name=code encode=linear(units=3 name=in),penalty(name=inner of=squares) "
    "decode=penalty(name=deep),linear(units=4 transpose=true tie=code.in.weight)",
    "tanh",
    NULL,
    "penalty",
    "name=sparse of=abs weight=0.5",
    "linear",
    "units=2 name=last",
    NULL};

static lk_status parts_make(struct training *t, bool targets)
{
    LK_TRY(set_make(targets, &t->set));
    LK_TRY(lk_loader_new(t->set, "batch=8 shards=4 prefetch=0", 1, &t->loader));
    LK_TRY(lk_model_new(&t->model));
    for (const char *const *layer = net; *layer; layer += 2)
        LK_TRY(lk_model_add(t->model, layer[0], layer[1]));
    LK_TRY(lk_model_build(t->model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(IN)}, .seed = 1}));
    return LK_TRACE(lk_model_hold(t->model, NULL));
}

static lk_status trainer_make(struct training *t, const char *losses, const lk_trainer_spec *more)
{
    char text[256];
    lk_trainer_spec spec = {.model = t->model, .train = t->loader, .epochs = 9};
    if (more) {
        spec.recompute = more->recompute;
        spec.parallel_model = more->parallel_model;
    }
    snprintf(text, sizeof text,
             "loss=softmax_cross_entropy metrics=accuracy optimizer=sgd(rate=0.1)%s%s",
             losses[0] ? " losses=" : "", losses);
    return LK_TRACE(lk_trainer_new(&spec, text, &t->trainer));
}

static struct training training_of(bool targets, const char *losses)
{
    struct training t = {.arena = NULL};
    ASSERT_OK(parts_make(&t, targets));
    ASSERT_OK(trainer_make(&t, losses, NULL));
    return t;
}

/* "loss code sparse". */
static const char *names_of(const struct training *t)
{
    static char text[256];
    const char *name;
    size_t at = 0;
    text[0] = '\0';
    for (int64_t i = 0; (name = lk_trainer_loss(t->trainer, i)); i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", name);
    return text;
}

TEST(names_say_what_counts)
{
    static const char *const cases[][2] = {
        {"", "loss code code.inner code.decode.deep sparse"},
        {"sparse,loss", "loss sparse"},
        {"code", "code"},
        {"code.decode.deep,code,code.inner", "code code.inner code.decode.deep"}};
    for (int i = 0; i < 4; i++) {
        bool lower;
        struct training t = training_of(true, cases[i][0]);
        ASSERT_EQ(strcmp(names_of(&t), cases[i][1]), 0);
        ASSERT_EQ(lk_trainer_metric(t.trainer, 0, &lower) != NULL, i < 2);
        training_free(&t);
    }
}

static void expect_refused(const char *losses, const lk_trainer_spec *more, lk_status st,
                           const char *why)
{
    struct training t = {.arena = NULL};
    ASSERT_OK(parts_make(&t, true));
    ASSERT_FAILS(trainer_make(&t, losses, more), st, why);
    training_free(&t);
}

TEST(what_cannot_count_is_refused)
{
    expect_refused("loss,codes", NULL, LK_EINVAL,
                   "losses: \"codes\" is none of this model, which has loss, code, code.inner, "
                   "code.decode.deep, sparse");
    expect_refused("last", NULL, LK_EINVAL, "losses: \"last\" is none");
    expect_refused("code.decode.deep", NULL, LK_EINVAL,
                   "the layer of \"code.decode.deep\" runs only for the loss of the one that it is "
                   "within");
    expect_refused("loss,loss", NULL, LK_EINVAL, "loss");
    expect_refused("", &(lk_trainer_spec){.recompute = 2}, LK_ENOTSUP,
                   "the loss of layer code counts, and train.recompute 2");
    expect_refused("loss,sparse", &(lk_trainer_spec){.recompute = 2}, LK_ENOTSUP,
                   "the loss of layer sparse counts");
}

/* What does not count does not matter, so these do train. */
TEST(segments_do_without_losses_of_layers)
{
    struct training kept = training_of(true, "loss"), again = {.arena = NULL};
    lk_step_report a, b;
    ASSERT_OK(parts_make(&again, true));
    ASSERT_OK(trainer_make(&again, "loss", &(lk_trainer_spec){.recompute = 3}));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_trainer_step(kept.trainer, &a));
        ASSERT_OK(lk_trainer_step(again.trainer, &b));
        ASSERT_TRUE(memcmp(&a.loss, &b.loss, sizeof a.loss) == 0);
    }
    training_free(&kept);
    training_free(&again);
}

static int first_cpu(void)
{
    cpu_set_t mask;
    int cpu = 0;
    CPU_ZERO(&mask);
    ASSERT_TRUE(sched_getaffinity(0, sizeof mask, &mask) == 0);
    while (!CPU_ISSET((size_t)cpu, &mask))
        cpu++;
    return cpu;
}

TEST(devices_have_no_losses_of_layers)
{
    struct training t = {.arena = NULL};
    lk_parallel_model *p = NULL;
    char devices[64];
    lk_tape *tape = NULL;
    lk_var x, y, value[5];
    lk_tensor *in = NULL;
    snprintf(devices, sizeof devices, "cpu:%d,cpu:%d", first_cpu(), first_cpu());
    ASSERT_OK(parts_make(&t, true));
    ASSERT_OK(lk_make_parallel(t.model, devices, NULL, &p));
    lk_trainer_spec more = {.parallel_model = p};
    ASSERT_FAILS(trainer_make(&t, "", &more), LK_ENOTSUP,
                 "the loss of layer code counts, which a model on several devices does not have");
    ASSERT_OK(trainer_make(&t, "loss", &more));
    ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    lk_trainer_free(t.trainer);
    t.trainer = NULL;
    lk_pass_terms terms = {
        .counts = (const bool[]){1, 0, 0, 0}, .only = true, .leaves = 1, .value = value};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(3, IN), &in));
    ASSERT_OK(lk_constant(tape, in, &x));
    ASSERT_FAILS(lk_parallel_model_forward(p, &(lk_pass){.tape = tape, .terms = &terms}, x, &y),
                 LK_ENOTSUP, "gives no terms");
    lk_tape_free(tape);
    lk_tensor_free(in);
    lk_parallel_model_free(p);
    training_free(&t);
}

/* Without "y", by what layers add alone: what is behind them stays, and the loss falls. */
TEST(losses_of_layers_need_no_targets)
{
    struct training t = training_of(false, "code");
    lk_step_report first = {0}, last = {0};
    lk_eval seen, score;
    char before[64], after[64];
    int64_t slice;
    lk_slab_slice s;
    lk_slab *params = lk_model_params(t.model);
    ASSERT_OK(lk_slab_layout_find(lk_slab_layout_of(params), "last.weight", &slice));
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(params), slice, &s));
    ASSERT_TRUE(s.bytes <= 64);
    memcpy(before, (char *)lk_slab_data(params) + s.offset, (size_t)s.bytes);
    ASSERT_OK(lk_trainer_step(t.trainer, &first));
    for (int i = 0; i < 60; i++)
        ASSERT_OK(lk_trainer_step(t.trainer, &last));
    memcpy(after, (char *)lk_slab_data(params) + s.offset, (size_t)s.bytes);
    ASSERT_EQ(memcmp(before, after, (size_t)s.bytes), 0);
    ASSERT_TRUE(last.loss < first.loss / 2);
    ASSERT_OK(lk_trainer_train_metrics(t.trainer, &seen));
    ASSERT_OK(lk_trainer_evaluate(t.trainer, t.loader, &score));
    ASSERT_TRUE(seen.loss == seen.losses[0] && score.loss == score.losses[0]);
    ASSERT_TRUE(score.loss > 0 && score.loss < first.loss);
    lk_trainer_free(t.trainer);
    t.trainer = NULL;
    ASSERT_FAILS(trainer_make(&t, "loss,code", NULL), LK_EINVAL, "no field \"y\"");
    training_free(&t);
}

/* Two steps by `rate` of a model whose only loss is a code's by `weight`; its parameters go to `out`. */
static double code_train(const char *weight, const char *rate, const char *kind, float *out)
{
    struct training t = {.arena = NULL};
    lk_step_report report;
    char layer[160], text[160];
    ASSERT_OK(set_make(false, &t.set));
    ASSERT_OK(lk_loader_new(t.set, "batch=8 shards=4 prefetch=0", 1, &t.loader));
    ASSERT_OK(lk_model_new(&t.model));
    snprintf(layer, sizeof layer,
             "name=code encode=linear(units=3) decode=linear(units=4) weight=%s loss=%s", weight,
             kind);
    ASSERT_OK(lk_model_add(t.model, "autoencoder", layer));
    ASSERT_OK(lk_model_build(t.model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(IN)}, .seed = 1}));
    lk_trainer_spec spec = {.model = t.model, .train = t.loader, .epochs = 9};
    snprintf(text, sizeof text, "loss=mean_squared_error optimizer=sgd(rate=%s) losses=code", rate);
    ASSERT_OK(lk_trainer_new(&spec, text, &t.trainer));
    ASSERT_OK(lk_trainer_step(t.trainer, &report));
    ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    memcpy(out, lk_slab_data(lk_model_params(t.model)), 64 * sizeof *out);
    training_free(&t);
    return report.loss;
}

/* Half the weight is half the rate, and a mean of 4 squares half of the sum of half of each. */
TEST(gradients_have_weight_and_parts)
{
    float one[64], other[64];
    double loss = code_train("1", "0.25", "sum_squared_error", one),
           half = code_train("0.5", "0.5", "sum_squared_error", other);
    ASSERT_EQ(memcmp(one, other, sizeof one), 0);
    ASSERT_TRUE(half == loss / 2);
    half = code_train("1", "0.5", "mean_squared_error", other);
    ASSERT_EQ(memcmp(one, other, sizeof one), 0);
    ASSERT_TRUE(half == loss / 2);
    (void)code_train("1", "0.5", "sum_squared_error", other);
    ASSERT_TRUE(memcmp(one, other, sizeof one) != 0);
}

/* What no parameter has a share in is told, and moves nothing. */
TEST(a_loss_of_the_data_alone_counts)
{
    static const char *const losses[] = {"loss", "", "raw"};
    float params[3][32];
    double first[3];
    for (int k = 0; k < 3; k++) {
        struct training t = {.arena = NULL};
        lk_step_report report;
        ASSERT_OK(set_make(true, &t.set));
        ASSERT_OK(lk_loader_new(t.set, "batch=8 shards=4 prefetch=0", 1, &t.loader));
        ASSERT_OK(lk_model_new(&t.model));
        ASSERT_OK(lk_model_add(t.model, "penalty", "name=raw of=squares"));
        ASSERT_OK(lk_model_add(t.model, "linear", "units=2"));
        ASSERT_OK(
            lk_model_build(t.model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(IN)}, .seed = 1}));
        ASSERT_OK(trainer_make(&t, losses[k], NULL));
        ASSERT_OK(lk_trainer_step(t.trainer, &report));
        first[k] = report.loss;
        ASSERT_OK(lk_trainer_step(t.trainer, NULL));
        memcpy(params[k], lk_slab_data(lk_model_params(t.model)), sizeof params[k]);
        training_free(&t);
    }
    ASSERT_EQ(memcmp(params[0], params[1], sizeof params[0]), 0);
    ASSERT_TRUE(memcmp(params[0], params[2], sizeof params[0]) != 0);
    ASSERT_TRUE(first[1] == first[0] + first[2] && first[2] > 0);
}

/* What a step changes of the parameters that losses move. */
static int64_t step_change(const char *losses, double *change, int64_t room)
{
    struct training t = training_of(true, losses);
    lk_slab *params = lk_model_params(t.model);
    int64_t n = lk_slab_layout_bytes(lk_slab_layout_of(params)) / (int64_t)sizeof(float);
    const float *now = lk_slab_data(params);
    ASSERT_TRUE(n <= room);
    for (int64_t i = 0; i < n; i++)
        change[i] = -(double)now[i];
    ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    for (int64_t i = 0; i < n; i++)
        change[i] += (double)now[i];
    training_free(&t);
    return n;
}

/* Of several losses, each with its own weight, a step is the sum of what each would do alone. */
TEST(a_step_follows_the_sum_of_losses)
{
    enum { ROOM = 256 };
    static const char *const name[] = {"loss", "code", "sparse", "code.inner"};
    double all[ROOM], one[ROOM], sum[ROOM] = {0};
    int64_t n = step_change("loss,code,sparse,code.inner", all, ROOM);
    for (int k = 0; k < 4; k++) {
        ASSERT_EQ(step_change(name[k], one, ROOM), n);
        for (int64_t i = 0; i < n; i++)
            sum[i] += one[i];
    }
    for (int64_t i = 0; i < n; i++)
        ASSERT_NEAR(all[i], sum[i], 1e-6);
}

/* ---- what is not finite ---- */

static void param_set(const lk_model *m, const char *name, float value)
{
    int64_t slice;
    lk_slab_slice s;
    lk_slab *params = lk_model_params(m);
    ASSERT_OK(lk_slab_layout_find(lk_slab_layout_of(params), name, &slice));
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(params), slice, &s));
    *(float *)(void *)((char *)lk_slab_data(params) + s.offset) = value;
}

/* A square that is too large is no output of a layer; what `decode` gives is, and counts only with its loss. */
TEST(a_loss_that_is_not_finite_is_named)
{
    struct training t = training_of(true, "code.inner");
    param_set(t.model, "code.in.bias", 1e30F);
    ASSERT_FAILS(lk_trainer_step(t.trainer, NULL), LK_ENAN,
                 "step 0: the loss is inf: the output of all layers is finite, the loss that layer "
                 "code.inner adds is not");
    training_free(&t);
    t = training_of(true, "loss,code");
    param_set(t.model, "code.in.bias", 3e38F);
    param_set(t.model, "code.decode.linear1.bias", 3e38F);
    param_set(t.model, "code.in.weight", 2);
    ASSERT_FAILS(lk_trainer_step(t.trainer, NULL), LK_ENAN,
                 "the first tensor that is not finite is the output of layer code.decode.linear1");
    training_free(&t);
}

static lk_status step_once(void)
{
    struct training t = {.arena = NULL};
    lk_eval score;
    lk_status st;
    LK_TRY_TO(done, parts_make(&t, true));
    LK_TRY_TO(done, trainer_make(&t, "", NULL));
    LK_TRY_TO(done, lk_trainer_step(t.trainer, NULL));
    LK_TRY_TO(done, lk_trainer_evaluate(t.trainer, t.loader, &score));
done:
    training_free(&t);
    return st;
}

TEST(every_allocation_can_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(step_once) > 50);
}
