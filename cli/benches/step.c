/* lockstep bench step: training steps, where their time goes, and PyTorch's in turn. */
#include "bench_run.h"
#include "bench_steps.h"
#include "bench_torch.h"
#include "experiment.h"
#include "report.h"
#include "verb.h"

#include <lockstep/clock.h>
#include <lockstep/thread.h>
#include <lockstep/train.h>

#include <sched.h>
#include <string.h>
#include <time.h>

struct step_options {
    bool json;
    double seconds;
    int64_t threads;
    lk_option_names against;
    const char *filter, *python;
};

#define FIELD(name) offsetof(struct step_options, name)

static const lk_option options[] = {
    {.name = "against",
     .type = LK_OPTION_NAMES,
     .offset = FIELD(against),
     .value = "NAME",
     .help = "torch, or none; torch by default if it is found",
     .flags = LK_OPTION_ONCE},
    {.name = "filter",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(filter),
     .value = "TEXT",
     .help = "only cases whose name contains TEXT"},
    {.name = "seconds",
     .type = LK_OPTION_REAL,
     .offset = FIELD(seconds),
     .value = "S",
     .preset = "3",
     .min = 0,
     .max = 600,
     .help = "time for each case, both together"},
    {.name = "threads",
     .type = LK_OPTION_INT,
     .offset = FIELD(threads),
     .value = "N",
     .preset = "1",
     .min = 1,
     .max = 1024,
     .help = "threads that compute; 1: everything on one core, PyTorch as well"},
    {.name = "python",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(python),
     .value = "PATH",
     .preset = "/usr/bin/python3",
     .help = "the Python that has torch"},
    {.name = "json", .type = LK_OPTION_FLAG, .offset = FIELD(json), .help = "print JSON objects"},
    {.name = NULL},
};

enum { MAX_ROUNDS = BENCH_MAX_ROUNDS, MIN_ROUNDS = 5, WARM_STEPS = 4 };

/* The steps of a round take this long at least, so that no single one decides. */
static const double shortest_round = 0.05;

/* Who takes part: our trainer, and PyTorch with a request to it. */
struct sides {
    const struct step_options *o;
    lk_trainer *trainer;
    bench_torch *torch;
    const char *request; /* NULL: we are alone */
};

struct figures {
    double ours, torch, ratio; /* seconds of a step; median of torch's time / ours */
    double samples;            /* of a step */
    double passed;             /* seconds by the clock of all steps of ours, */
    lk_step_time part;         /* and of their parts */
};

/* One thread is timed by the processor time of the process, the loader's included, more by the clock. */
static double seconds_now(const struct step_options *o)
{
    struct timespec t;
    clock_gettime(o->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Do steps; gives the seconds of one, and adds up the parts. */
static lk_status ours_run(const struct sides *s, int steps, double *seconds, struct figures *f)
{
    double start = seconds_now(s->o);
    int64_t clock = lk_clock_ns();
    f->samples = 0;
    for (int i = 0; i < steps; i++) {
        lk_step_report r;
        LK_TRY(lk_trainer_step(s->trainer, &r));
        f->samples += (double)r.samples / steps;
        f->part.data += r.time.data;
        f->part.forward += r.time.forward;
        f->part.backward += r.time.backward;
        f->part.update += r.time.update;
    }
    *seconds = (seconds_now(s->o) - start) / steps;
    f->passed += 1e-9 * (double)(lk_clock_ns() - clock);
    return LK_OK;
}

static lk_status params_of(const lk_model *model, double *out)
{
    lk_unit_info unit;
    *out = 0;
    for (int64_t i = 0; i < lk_model_units(model); i++) {
        LK_TRY(lk_model_unit(model, i, &unit));
        *out += (double)unit.params;
    }
    return LK_OK;
}

static lk_status torch_run(const struct sides *s, int steps, double *seconds)
{
    double theirs, params;
    LK_TRY(params_of(lk_trainer_model(s->trainer), &params));
    if (!torch_sample(s->torch, s->request, steps, seconds, &theirs))
        return LK_RAISE(LK_EIO, "PyTorch: %s", s->torch->about);
    *seconds /= steps;
    LK_CHECK(theirs == params, LK_EINVAL, "%s: we have %.0f parameters, PyTorch %.0f", s->request,
             params, theirs);
    return LK_OK;
}

/* Both in turn, until the time is up. */
static lk_status measure(const struct sides *s, struct figures *f)
{
    static double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], ratio[MAX_ROUNDS];
    double once;
    int n = 0;
    LK_TRY(ours_run(s, WARM_STEPS, &once, f));
    LK_TRY(ours_run(s, 2, &once, f));
    int steps = (int)(shortest_round / once) + 1;
    *f = (struct figures){0};
    double end = 1e-9 * (double)lk_clock_ns() + s->o->seconds;
    while (n < MAX_ROUNDS && (n < MIN_ROUNDS || 1e-9 * (double)lk_clock_ns() < end)) {
        LK_TRY(ours_run(s, steps, &ours[n], f));
        if (s->request)
            LK_TRY(torch_run(s, steps, &theirs[n]));
        ratio[n] = theirs[n] / ours[n];
        n++;
    }
    f->ours = bench_median(ours, n);
    f->torch = bench_median(theirs, n);
    f->ratio = bench_median(ratio, n);
    return LK_OK;
}

/* A part of the steps as its share. */
static report_cell cell_share(const struct figures *f, double part)
{
    return cell_real(part / f->passed, 3);
}

static void print_row(report *out, const char *name, bool against, const struct figures *f)
{
    const lk_step_time *p = &f->part;
    report_row(out, (report_cell[]){
                        cell_text(name),
                        against ? cell_text("torch") : cell_none(),
                        cell_real(f->samples / f->ours, 0),
                        against ? cell_real(f->samples / f->torch, 0) : cell_none(),
                        against ? cell_real(f->ratio, 2) : cell_none(),
                        cell_real(1e3 * f->ours, 3),
                        cell_share(f, p->data),
                        cell_share(f, p->forward),
                        cell_share(f, p->backward),
                        cell_share(f, p->update),
                        cell_share(f, f->passed - p->data - p->forward - p->backward - p->update),
                    });
}

/* Measure an experiment, whose job is on nobody's communicator, and print its row. */
static lk_status experiment_run(const lk_experiment *e, const char *name, struct sides s,
                                report *out)
{
    lk_job *job = NULL;
    struct figures f = {0};
    LK_TRY(lk_job_new(e, NULL, &job));
    s.trainer = lk_job_trainer(job);
    lk_status st = measure(&s, &f);
    lk_job_free(job);
    LK_TRY(st);
    print_row(out, name, s.request != NULL, &f);
    return LK_OK;
}

static lk_status cases_run(struct sides s, bool against, report *out)
{
    for (const bench_steps *c = bench_step_cases; c->name; c++) {
        lk_experiment *e = NULL;
        if (s.o->filter && !strstr(c->name, s.o->filter))
            continue;
        s.request = against ? c->request : NULL;
        LK_TRY(bench_steps_open(c, &e));
        lk_status st = experiment_run(e, c->name, s, out);
        lk_experiment_free(e);
        LK_TRY(st);
    }
    return LK_OK;
}

/* With one thread stay on one core, the loader's thread and PyTorch included. */
static void bind_one(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();
    CPU_ZERO(&set);
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return;
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* if it is forbidden, the scheduler decides */
}

static int step_run(const void *given, int n_operands, char **operand)
{
    static const report_column columns[] = {
        {"case", "case", -20},
        {"peer", NULL, 0},
        {"samples_per_s", "samples/s", 9},
        {"peer_samples_per_s", "torch's", 9},
        {"ratio", "ratio", 6},
        {"milliseconds", "ms", 8},
        {"data", "data", 6},
        {"forward", "forward", 7},
        {"backward", "backward", 8},
        {"update", "update", 6},
        {"rest", "rest", 6},
    };
    const struct step_options *o = given;
    bench_torch torch = {.pid = -1, .about = "knows no experiments"};
    lk_experiment *e = NULL;
    bool against = false;
    report out;
    if (o->threads == 1)
        bind_one();
    int status = n_operands > 0 ? experiment_open(n_operands, operand, &e)
                                : torch_open(&torch, "step", &o->against, o->python,
                                             "lockstep-peer-torch-steps.py", &against);
    if (status != LK_EXIT_DONE)
        return status;
    if (!o->json)
        printf("%s, %lld thread%s, medians of %s; parts of a step as shares of it\ntorch: %s\n\n",
               e ? "own experiment" : "f32", (long long)o->threads, o->threads == 1 ? "" : "s",
               o->threads == 1 ? "processor time" : "time", torch.about);
    report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
    struct sides s = {.o = o, .torch = &torch};
    lk_status st = lk_threads_set((int)o->threads);
    if (st == LK_OK)
        st = e ? experiment_run(e, operand[0], s, &out) : cases_run(s, against, &out);
    torch_stop(&torch);
    lk_experiment_free(e);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed();
}

const lk_verb lk_bench_kind_step = {
    .computes = true,
    .name = "step",
    .summary = "training steps against PyTorch's, and where their time goes",
    .operands = "[FILE.yaml [KEY=VALUE...]]",
    .about =
        "Trains perceptrons and convnets of the presets' sizes on generated images, or the "
        "experiment FILE.yaml, and prints samples a second with the shares of the time of "
        "a step: waiting for data, forward, backward, update, and the rest. Where Debian's "
        "python3-torch is installed, a Python process does the same steps in PyTorch on one "
        "thread, with batches that are in memory already; both are timed in turn, and the "
        "ratio is the median over the rounds of its time divided by ours: processor time, or with "
        "several threads that of the clock.\n"
        "JSON: case, peer, ratio, samples_per_s, peer_samples_per_s, milliseconds, data, "
        "forward, backward, update, rest.",
    .options = options,
    .options_size = sizeof(struct step_options),
    .max_operands = 1000,
    .run = step_run,
};
