/* lockstep bench devices: steps of a model on several devices, against independent copies of it. */
#include "bench/options.h"
#include "bench/stats.h"
#include "verb.h"

#include <lockstep/extra/clock.h>
#include <lockstep/lockstep.h>

#include <string.h>

enum { MOST_DEVICES = 64 };

struct devices_options {
    bool json;
    double seconds;
    int64_t batch, shards;
    const char *devices, *filter;
};

#define FIELD(name) offsetof(struct devices_options, name)

static const lk_option options[] = {
    {"devices", LK_OPTION_TEXT, FIELD(devices), .value = "NAME,...",
     .help = "two devices or more, such as cpu:0,cpu:1; default: the first two cores"},
    {"batch", LK_OPTION_INT, FIELD(batch), .value = "N", .def = "128", .min = 1, .max = 1e6,
     .help = "samples of a batch, over all devices"},
    {"shards", LK_OPTION_INT, FIELD(shards), .value = "N", .def = "8", .min = 1, .max = 65536,
     .help = "shards of a batch"},
    BENCH_FILTER_OPTION(FIELD(filter), ""),
    BENCH_SECONDS_OPTION(FIELD(seconds), "3", "each case, everybody together"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

/* ---- cases ---- */

struct devices_case {
    const char *name;
    lk_shape sample;
    const char *layers[24]; /* type, options, ... */
};

static const struct devices_case cases[] = {
    {"convnet 32x32x3",
     LK_DIMS(32, 32, 3),
     {"conv", "filters=32 kernel=3,3 pad=same", "relu", NULL, "maxpool", "size=2", "conv",
      "filters=64 kernel=3,3 pad=same", "relu", NULL, "maxpool", "size=2", "flatten", NULL,
      "linear", "units=10"}},
    {"mlp 784-500-10", LK_DIMS(784), {"linear", "units=500", "relu", NULL, "linear", "units=10"}},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

/* ---- one who trains: all devices together, or a copy on one ---- */

struct side {
    lk_model *model;
    lk_parallel_model *parallel; /* NULL: the model itself */
    lk_tape *tape;
    lk_accumulator *sums;
    lk_optimizer *optimizer;
    lk_tensor *x, *label;
    int64_t step;
};

static void side_end(struct side *s)
{
    lk_tape_free(s->tape);
    lk_parallel_model_free(s->parallel);
    lk_accumulator_free(s->sums);
    lk_optimizer_free(s->optimizer);
    lk_model_free(s->model);
    lk_tensor_free(s->x);
    lk_tensor_free(s->label);
}

static lk_status samples_draw(struct side *s, const struct devices_case *c, int64_t n)
{
    lk_shape shape = {.ndim = c->sample.ndim + 1, .dim = {n}};
    void *x = NULL, *label = NULL;
    memcpy(&shape.dim[1], c->sample.dim, (size_t)c->sample.ndim * sizeof shape.dim[0]);
    LK_TRY(lk_tensor_new(LK_F32, shape, &s->x));
    LK_TRY(lk_tensor_new(LK_I64, LK_SHAPE(n), &s->label));
    LK_TRY(lk_tensor_writable_data(s->x, &x));
    LK_TRY(lk_tensor_writable_data(s->label, &label));
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, "x", "bench"), (lk_rng_at){0}, lk_tensor_count(s->x),
                              x));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)label)[i] = i % 10;
    return LK_OK;
}

/* A side of `n` samples in shards of `shard_size`; `devices` NULL: a copy. */
static lk_status side_start(struct side *s, const struct devices_case *c, int64_t n,
                            int64_t shard_size, const char *devices)
{
    const lk_model_spec spec = {.in = {LK_F32, c->sample}, .seed = 1};
    LK_TRY(lk_model_new(&s->model));
    for (int i = 0; c->layers[i]; i += 2)
        LK_TRY(lk_model_add(s->model, c->layers[i], c->layers[i + 1]));
    LK_TRY(lk_model_build(s->model, &spec));
    LK_TRY(lk_model_hold(s->model, NULL));
    LK_TRY(lk_accumulator_new(s->model, &s->sums));
    LK_TRY(lk_optimizer_new(lk_model_params(s->model), "sgd", "rate=0.01 momentum=0.9",
                            &s->optimizer));
    LK_TRY(lk_tape_new(&s->tape));
    LK_TRY(lk_tape_set_shard_size(s->tape, shard_size));
    LK_TRY(samples_draw(s, c, n));
    if (devices)
        LK_TRY(lk_parallel_model_new(s->model, devices, NULL, &s->parallel));
    return LK_OK;
}

static lk_status side_step(struct side *s)
{
    lk_var x, label, y, loss;
    const lk_pass pass = {
        .tape = s->tape, .accumulator = s->sums, .training = true, .step = s->step};
    lk_tape_reset(s->tape);
    lk_accumulator_begin(s->sums);
    LK_TRY(lk_constant(s->tape, s->x, &x));
    LK_TRY(lk_constant(s->tape, s->label, &label));
    if (s->parallel)
        LK_TRY(lk_parallel_model_forward(s->parallel, &pass, x, &y));
    else
        LK_TRY(lk_model_forward(s->model, &pass, x, &y));
    LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
    LK_TRY(lk_backward(s->tape, &(lk_seed){.of = loss}, 1, 0));
    const lk_optimizer_input input = {.grads = lk_accumulator_slab(s->sums),
                                      .at = {.step = s->step++}};
    return LK_TRACE(lk_optimizer_step(s->optimizer, &input, NULL));
}

static lk_status side_time(struct side *s, int repeats, double *seconds)
{
    int64_t start = lk_clock_ns();
    for (int i = 0; i < repeats; i++)
        LK_TRY(side_step(s));
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / repeats;
    return LK_OK;
}

/* ---- copies, each on its device, all at once ---- */

struct race {
    int n, repeats;
    lk_device device[MOST_DEVICES];
    struct side copy[MOST_DEVICES], all;
    double seconds[MOST_DEVICES];
};

static lk_status copy_run(lk_comm *comm, void *arg)
{
    struct race *r = arg;
    int i = lk_comm_rank(comm);
    LK_TRY(lk_device_bind(&r->device[i]));
    LK_TRY(side_step(&r->copy[i])); /* so that its memory is there, and near */
    LK_TRY(lk_barrier(comm, "begin"));
    return LK_TRACE(side_time(&r->copy[i], r->repeats, &r->seconds[i]));
}

/* What a step of the slowest takes. */
static lk_status copies_time(struct race *r, double *seconds)
{
    LK_TRY(lk_run_local(r->n, copy_run, r));
    *seconds = 0;
    for (int i = 0; i < r->n; i++)
        *seconds = r->seconds[i] > *seconds ? r->seconds[i] : *seconds;
    return LK_OK;
}

struct figures {
    bench_figure all, copies, ratio;
    int rounds;
};

static lk_status measure(struct race *r, double seconds, struct figures *f)
{
    static double all[BENCH_MAX_ROUNDS], copies[BENCH_MAX_ROUNDS];
    double once;
    int n = 0;
    LK_TRY(side_time(&r->all, 2, &once));
    r->repeats = once < 0.05 ? (int)(0.1 / (once + 1e-9)) + 1 : 2;
    double end = bench_now() + seconds;
    while (bench_goes_on(n, end)) {
        LK_TRY(side_step(&r->all));
        LK_TRY(side_time(&r->all, r->repeats, &all[n]));
        LK_TRY(copies_time(r, &copies[n++]));
    }
    f->rounds = n;
    f->all = bench_median(all, n);
    f->copies = bench_median(copies, n);
    f->ratio = bench_ratio(copies, all, n);
    return LK_OK;
}

static lk_status case_run(struct race *r, const struct devices_options *o,
                          const struct devices_case *c, const char *devices, struct figures *f)
{
    lk_status st;
    int64_t shard_size = (o->batch - 1) / o->shards + 1;
    memset(&r->all, 0, sizeof r->all);
    memset(r->copy, 0, sizeof r->copy);
    LK_TRY_TO(done, side_start(&r->all, c, o->batch, shard_size, devices));
    for (int i = 0; i < r->n; i++) {
        int64_t n = lk_parallel_model_slice(r->all.parallel, o->batch, shard_size, i).n;
        LK_TRY_TO(done, side_start(&r->copy[i], c, n, shard_size, NULL));
    }
    LK_TRY_TO(done, measure(r, o->seconds, f));
done:
    side_end(&r->all);
    for (int i = 0; i < r->n; i++)
        side_end(&r->copy[i]);
    return st;
}

static int cases_run(struct race *r, const struct devices_options *o, const char *devices)
{
    static const report_column columns[] = {
        {"case", "case", -18},
        {"devices", "devices", -16},
        {"batch", NULL, 0},
        {"samples_per_s", "samples/s", 14},
        {"copies_samples_per_s", "of copies", 14},
        {"ratio", "ratio", 12},
        {"milliseconds", "ms", 12},
        {"rounds", NULL, 0},
    };
    report out;
    report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
    for (int i = 0; i < N_CASES; i++) {
        struct figures f = {.rounds = 0};
        if (o->filter && !strstr(cases[i].name, o->filter))
            continue;
        if (case_run(r, o, &cases[i], devices, &f) != LK_OK)
            return verb_failed();
        report_row(&out,
                   (report_cell[]){cell_text(cases[i].name), cell_text(devices), cell_int(o->batch),
                                   cell_figure(bench_rate((double)o->batch, f.all), 0),
                                   cell_figure(bench_rate((double)o->batch, f.copies), 0),
                                   cell_figure(f.ratio, 2),
                                   cell_figure(bench_scaled(1e3, f.all), 2), cell_int(f.rounds)});
    }
    return LK_EXIT_DONE;
}

/* The devices that were named, or the first two cores: as structs, and as a text of `size` bytes. */
static lk_status devices_find(struct race *r, const char *named, char *text, size_t size)
{
    LK_TRY(named ? lk_devices_parse(named, r->device, MOST_DEVICES, &r->n)
                 : lk_devices_available(r->device, MOST_DEVICES, &r->n));
    if (!named && r->n > 2)
        r->n = 2;
    LK_CHECK(r->n >= 2 && r->n <= MOST_DEVICES, LK_EINVAL, "%d devices: give 2 to %d", r->n,
             MOST_DEVICES);
    text[0] = '\0';
    for (int i = 0; i < r->n; i++) {
        size_t at = strlen(text);
        int room = snprintf(text + at, size - at, "%s%s", i > 0 ? "," : "", r->device[i].name);
        LK_CHECK(room >= 0 && (size_t)room < size - at, LK_EINVAL,
                 "the names of %d devices are too long", r->n);
    }
    return LK_OK;
}

static int devices_run(const void *given, int n_operands, char **operand)
{
    const struct devices_options *o = given;
    static struct race r;
    static char text[1024];
    bool matches = !o->filter;
    (void)n_operands;
    (void)operand;
    for (int i = 0; i < N_CASES; i++)
        matches = matches || strstr(cases[i].name, o->filter);
    if (!matches)
        return verb_refuse("lockstep bench devices: option --filter: no case contains \"%s\"",
                           o->filter);
    if (devices_find(&r, o->devices, text, sizeof text) != LK_OK)
        return verb_refuse("lockstep bench devices: %s", lk_error_message());
    if (!o->json)
        printf("f32, a batch of %lld in %lld shards over %d devices, medians of time\n\n",
               (long long)o->batch, (long long)o->shards, r.n);
    return cases_run(&r, o, text);
}

const lk__verb lk__bench_kind_devices = {
    .computes = true,
    .name = "devices",
    .summary = "steps of a model on several devices against independent copies",
    .operands = "",
    .about =
        "Trains a model with make_parallel on several devices: forward, loss, backward and update, "
        "by a loop of its own. In turn as many copies of the model train at once, each with the "
        "weights, the optimizer and the samples of its device, bound to it, and exchange nothing. "
        "The "
        "ratio is the median over the rounds of what a step of the slowest copy takes, divided by "
        "what a step of all devices together does: 1 if joining costs nothing.\n" BENCH_NOISE_ABOUT
        "\n"
        "JSON: case, devices, batch, samples_per_s, copies_samples_per_s, ratio, milliseconds (of "
        "a "
        "step of all devices), rounds.",
    .options = options,
    .options_size = sizeof(struct devices_options),
    .run = devices_run,
};
