/* lockstep bench tape: what recording an op and passing it backward costs. */
#include "bench/options.h"
#include "bench/peers/torch.h"
#include "bench/stats.h"
#include "report.h"
#include "verb.h"

#include <lockstep/extra/clock.h>
#include <lockstep/ops.h>
#include <lockstep/thread.h>

#include <math.h>
#include <string.h>

struct tape_options {
    bool json;
    double seconds;
    int64_t ops, elements;
    lk_option_names against;
    const char *python;
};

#define FIELD(name) offsetof(struct tape_options, name)

static const lk_option options[] = {
    {"against", LK_OPTION_NAMES, FIELD(against), .value = "NAME",
     .help = "torch, or none; torch by default if it is found", .flags = LK_OPTION_ONCE},
    {"ops", LK_OPTION_INT, FIELD(ops), .value = "N", .def = "1000", .min = 1, .max = 1000000,
     .help = "length of the chain"},
    {"elements", LK_OPTION_INT, FIELD(elements), .value = "N", .def = "16", .min = 1,
     .max = 100000000, .help = "elements of each tensor"},
    BENCH_SECONDS_OPTION(FIELD(seconds), "2", "each chain, both together"),
    BENCH_PYTHON_OPTION(FIELD(python), "torch"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

static const char *const chains[] = {"mul", "add", "tanh", "mixed"};

enum { N_CHAINS = sizeof chains / sizeof chains[0] };

/* Our side: a tape and two leaves with their gradients. */
struct ours {
    const struct tape_options *o;
    lk_tape *tape;
    lk_tensor *x, *w, *gx, *gw;
};

static lk_status ours_start(struct ours *u)
{
    lk_shape shape = LK_SHAPE(u->o->elements);
    LK_TRY(lk_tape_new(&u->tape));
    LK_TRY(lk_tensor_new(LK_F32, shape, &u->x));
    LK_TRY(lk_tensor_new(LK_F32, shape, &u->w));
    LK_TRY(lk_tensor_new(LK_F32, shape, &u->gx));
    LK_TRY(lk_tensor_new(LK_F32, shape, &u->gw));
    LK_TRY(lk_tensor_fill_f64(u->x, 0.5));
    return LK_TRACE(lk_tensor_fill_f64(u->w, 0.99));
}

static void ours_end(struct ours *u)
{
    lk_tape_free(u->tape);
    lk_tensor_free(u->x);
    lk_tensor_free(u->w);
    lk_tensor_free(u->gx);
    lk_tensor_free(u->gw);
}

/* Forward and backward through the chain once. */
static lk_status chain_run(struct ours *u, const char *chain)
{
    lk_var x, w, y;
    int fixed = strcmp(chain, "mul") == 0 ? 0 : strcmp(chain, "add") == 0 ? 1 : 2;
    bool mixed = strcmp(chain, "mixed") == 0;
    lk_tape_reset(u->tape);
    LK_TRY(lk_tensor_fill_f64(u->gx, 0));
    LK_TRY(lk_tensor_fill_f64(u->gw, 0));
    LK_TRY(lk_leaf(u->tape, u->x, u->gx, &x));
    LK_TRY(lk_leaf(u->tape, u->w, u->gw, &w));
    y = x;
    for (int64_t i = 0; i < u->o->ops; i++) {
        int kind = mixed ? (int)(i % 3) : fixed;
        LK_TRY(kind == 0 ? lk_mul(y, w, &y) : kind == 1 ? lk_add(y, w, &y) : lk_tanh(y, &y));
    }
    LK_TRY(lk_sum_to(y, LK_SCALAR, &y));
    return LK_TRACE(lk_backward(u->tape, &(lk_seed){.of = y}, 1, 0));
}

static lk_status ours_sample(struct ours *u, const char *chain, int repeats, double *seconds)
{
    int64_t start = lk_clock_thread_ns();
    for (int i = 0; i < repeats; i++)
        LK_TRY(chain_run(u, chain));
    *seconds = 1e-9 * (double)(lk_clock_thread_ns() - start);
    return LK_OK;
}

struct figures {
    bool against;
    bench_figure ours, torch, ratio; /* seconds of one pass; torch's time / ours */
    int rounds;
    double grad; /* torch's */
};

/* Both in turn, until the time is up. */
static lk_status measure(struct ours *u, bench_torch *torch, const char *chain, struct figures *f)
{
    static double ours[BENCH_MAX_ROUNDS], theirs[BENCH_MAX_ROUNDS];
    char request[128];
    double once;
    int n = 0;
    LK_TRY(ours_sample(u, chain, 2, &once));
    int repeats = once < 0.01 ? (int)(0.02 / (once + 1e-9)) + 1 : 1;
    snprintf(request, sizeof request, "%s %lld %lld", chain, (long long)u->o->ops,
             (long long)u->o->elements);
    double end = bench_now() + u->o->seconds;
    while (bench_goes_on(n, end)) {
        LK_TRY(ours_sample(u, chain, repeats, &ours[n]));
        ours[n] /= repeats;
        int few = repeats / 8 + 1; /* they are slower */
        if (f->against && !torch_sample(torch, request, few, &theirs[n], &f->grad))
            return LK_RAISE(LK_EIO, "PyTorch: %s", torch->about);
        theirs[n++] /= few;
    }
    f->rounds = n;
    f->ours = bench_median(ours, n);
    if (f->against) {
        f->torch = bench_median(theirs, n);
        f->ratio = bench_ratio(theirs, ours, n);
    }
    return LK_OK;
}

/* The gradients agree: both have computed the same. */
static lk_status compare(const struct ours *u, const struct figures *f, const char *chain)
{
    double grad;
    LK_TRY(lk_tensor_get_f64(u->gx, LK_AT(0), &grad));
    LK_CHECK(!f->against || fabs(grad - f->grad) <= 1e-3 * fabs(f->grad) + 1e-30, LK_EINVAL,
             "chain %s: our gradient is %g, PyTorch's %g", chain, grad, f->grad);
    return LK_OK;
}

static void print_row(report *out, const struct tape_options *o, const bench_path *path,
                      const char *chain, const struct figures *f)
{
    double micro = 1e6 / (double)o->ops;
    report_row(out, (report_cell[]){
                        cell_text(chain),
                        f->against ? cell_text("torch") : cell_none(),
                        cell_figure(bench_scaled(micro, f->ours), 3),
                        cell_figure(bench_scaled(micro, f->torch), 3),
                        cell_figure(f->ratio, 2),
                        cell_path(path),
                        cell_path_warning(path),
                        cell_int(f->rounds),
                    });
}

static int run_chains(struct ours *u, bench_torch *torch, bool against)
{
    static const report_column columns[] = {
        {"case", "chain", -8},         {"peer", NULL, 0},
        {"microseconds", "us/op", 13}, {"peer_microseconds", "torch us/op", 13},
        {"ratio", "ratio", 12},        BENCH_PATH_COLUMNS,
        {"rounds", NULL, 0},
    };
    report out;
    report_begin(&out, columns, sizeof columns / sizeof columns[0], u->o->json);
    for (int i = 0; i < N_CHAINS; i++) {
        struct figures f = {.against = against};
        if (measure(u, torch, chains[i], &f) != LK_OK || compare(u, &f, chains[i]) != LK_OK)
            return verb_failed();
        print_row(&out, u->o, &torch->path, chains[i], &f);
    }
    return LK_EXIT_DONE;
}

static int tape_run(const void *given, int n_operands, char **operand)
{
    const struct tape_options *o = given;
    bench_torch torch;
    struct ours u = {.o = o};
    (void)n_operands;
    (void)operand;
    bool against;
    int status = torch_open(&torch, "tape", &o->against, o->python, "lockstep-peer-torch.py", 1,
                            &against);
    if (status != LK_EXIT_DONE)
        return status;
    if (!o->json) {
        printf("f32[%lld], chains of %lld ops, forward and backward, 1 thread, medians of "
               "processor time\n",
               (long long)o->elements, (long long)o->ops);
        bench_path_print(&torch.path, "torch", torch.about);
        putchar('\n');
    }
    if (lk_threads_set(1) == LK_OK && ours_start(&u) == LK_OK)
        status = run_chains(&u, &torch, against);
    else
        status = verb_failed();
    torch_stop(&torch);
    ours_end(&u);
    return status;
}

const lk__verb lk__bench_kind_tape = {
    .computes = true,
    .name = "tape",
    .summary = "the cost of an op on the tape against PyTorch's eager mode",
    .operands = "",
    .about = "Runs forward and backward through chains of small ops: y * w, y + w, tanh y, and the "
             "three by turns. Where PyTorch is installed (see --python), a Python process does the "
             "same chain in PyTorch's eager mode on one thread; both are timed in turn, and the "
             "ratio is the median over the rounds of its processor time divided by ours. The "
             "gradients are compared.\n" BENCH_NOISE_ABOUT BENCH_PATH_ABOUT "\n"
             "JSON: case, peer, microseconds (for one op, forward and backward), "
             "peer_microseconds, ratio, peer_path, peer_warning, rounds.",
    .options = options,
    .options_size = sizeof(struct tape_options),
    .run = tape_run,
};
