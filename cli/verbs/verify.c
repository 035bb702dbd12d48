/* lockstep verify: the same experiment on many layouts, and whether the bits are the same. */
#include "experiment.h"
#include "layout.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"
#include "verify/config.h"
#include "verify/difference.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>
#include <lockstep/log.h>
#include <lockstep/thread.h>

#include <string.h>

#define COMMAND "lockstep verify"

struct verify_options {
    bool json, trace, quiet;
    int64_t steps, until;
    lk_option_ints ranks, threads;
    lk_option_names isa, algorithms, transport, mpi;
    const char *snapshot, *layouts;
};

#define FIELD(name) offsetof(struct verify_options, name)

static const lk_option options[] = {
    {"ranks", LK_OPTION_INTS, FIELD(ranks), .min = 1, .max = LK_MAX_LOCAL,
     .help =
         "numbers of ranks, which share the batch; without it and layouts, those from 1 to 4 that "
         "the experiment has shards for",
     .flags = LK_OPTION_ONCE},
    {"layouts", LK_OPTION_TEXT, FIELD(layouts), .value = "WORD,...",
     .help = "instead of ranks: 1, data2, 2x2, features2, stages3, or several joined by dots, as "
             "data2.2x2; where the experiment has no pieces for them, all get the coarsest that "
             "allow each"},
    {"threads", LK_OPTION_INTS, FIELD(threads), .def = "1", .min = 1, .max = LK_MAX_THREADS,
     .help = "numbers of threads of each rank", .flags = LK_OPTION_ONCE},
    {"isa", LK_OPTION_NAMES, FIELD(isa), .help = "instruction sets; the one in use by default",
     .flags = LK_OPTION_ONCE},
    {"algorithms", LK_OPTION_NAMES, FIELD(algorithms), .def = "auto",
     .help =
         "how ranks join their sums, such as tree (\"lockstep list collectives\"); auto: as train "
         "does, by cost or as LK_ALLREDUCE says",
     .flags = LK_OPTION_ONCE},
    {"transport", LK_OPTION_NAMES, FIELD(transport), .def = "local",
     .help = "local: ranks are threads; mpi: processes", .flags = LK_OPTION_ONCE},
    {"mpi", LK_OPTION_NAMES, FIELD(mpi), .def = "auto",
     .help = "for the transport mpi: openmpi, mpich, auto", .flags = LK_OPTION_ONCE},
    {"steps", LK_OPTION_INT, FIELD(steps), .def = "20", .min = 1, .max = 1e9,
     .help = "steps to train; the phases of an experiment, but for those of 0 epochs, share them "
             "evenly, one at least for each"},
    {"json", LK_OPTION_FLAG, FIELD(json), .help = "print one JSON object for each configuration"},
    {"quiet", LK_OPTION_FLAG, FIELD(quiet),
     .help = "print no warnings; without it, those of the first configuration"},
    {"until", LK_OPTION_INT, FIELD(until), .def = "0", .min = 0, .max = 1e9,
     .help = "with --trace: end after so many of the steps; 0: train all"},
    {"trace", LK_OPTION_FLAG, FIELD(trace),
     .help = "train once, on the ranks this was started on, and print the state after each step"},
    {"snapshot", LK_OPTION_TEXT, FIELD(snapshot), .value = "FILE",
     .help = "with --trace: write all of the state after the last step to a .safetensors file"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"ranks", "ranks", 5},
    {"threads", "threads", 7},
    {"transport", "transport", -9},
    {"mpi", "mpi", -7},
    {"layout", "layout", -10},
    {"isa", "isa", -6},
    {"algorithm", "algorithm", -12},
    {"state", "state", -16},
    {"same", "bits", -7},
    {"seconds", "seconds", 7},
};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

struct verify {
    const struct verify_options *o;
    verify_layouts layouts;
    verify_transports transports;
    lk_isa isa[LK_N_ISAS];
    int n_isa;
    int64_t done, total;  /* configurations */
    int64_t failed;       /* of them differ */
    int64_t skipped;      /* of them the algorithm cannot do */
    char why[VERIFY_WHY]; /* that is so, of the first */
    verify_config reference;
    verify_trace first; /* of the reference */
    report out;
    progress progress;
};

static int usage(const char *option, const char *what)
{
    return verb_refuse(COMMAND ": option --%s: %s", option, what);
}

/* ---- what is asked for ---- */

/* What the environment names is for ranks that have others. */
static bool is_several(const verify_layouts *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->item[i].ranks > 1)
            return true;
    return false;
}

static int settings_check(const struct verify *v, const lk_experiment *e)
{
    const struct verify_options *o = v->o;
    bool fast = e->parallel.mode == LK_REDUCTION_FAST;
    int64_t phases = phases_trained(e);
    int status = LK_EXIT_DONE;
    if (o->steps < phases)
        status = verb_refuse(COMMAND ": option --steps: %lld for %lld phases: give at least %lld, "
                                     "so that each is trained",
                             (long long)o->steps, (long long)phases, (long long)phases);
    for (int i = 0; status == LK_EXIT_DONE && i < o->algorithms.n; i++) {
        const char *name = o->algorithms.item[i], *named = verify_named();
        if (strcmp(name, "auto") != 0)
            status = verify_algorithm_check(fast, "option --algorithms", name);
        else if (named && !o->trace && is_several(&v->layouts))
            status = verify_algorithm_check(fast, "LK_ALLREDUCE", named);
    }
    return status;
}

static int isas_read(struct verify *v)
{
    for (int i = 0; i < v->o->isa.n; i++) {
        if (lk_isa_find(v->o->isa.item[i], &v->isa[i]) != LK_OK)
            return usage("isa", lk_error_message());
        if (!lk_isa_is_available(v->isa[i]))
            return usage("isa", "this processor or this build does not have it");
    }
    v->n_isa = v->o->isa.n;
    if (v->n_isa == 0 && lk_isa_now(&v->isa[v->n_isa++]) != LK_OK)
        return verb_failed();
    return LK_EXIT_DONE;
}

/* ---- configurations ---- */

/* `t` NULL: left out. */
static void row(struct verify *v, const verify_config *p, const verify_trace *t, bool same,
                double seconds)
{
    char hash[LK_HASH_TEXT];
    report_row(&v->out,
               (report_cell[]){
                   cell_int(p->layout->ranks),
                   cell_int(p->threads),
                   cell_text(p->launcher ? "mpi" : "local"),
                   p->launcher ? cell_text(p->launcher->mpi) : cell_none(),
                   cell_text(p->layout->word),
                   cell_text(lk_isa_name(p->isa)),
                   cell_text(p->algorithm     ? p->algorithm
                             : verify_named() ? verify_named()
                                              : "auto"),
                   t ? cell_text(lk_hash_text(t->state[t->steps - 1], hash)) : cell_none(),
                   t ? cell_bool(same, same ? "same" : "DIFFER", same ? TERM_GREEN : TERM_RED)
                     : cell_none(),
                   t ? cell_real(seconds, 2) : cell_none(),
               });
}

/* What came out of a configuration; the trace of the first one is kept to compare with. */
static void place_judge(struct verify *v, const verify_config *p, verify_trace *trace,
                        double seconds)
{
    verify_difference d = {.found = false};
    if (v->first.steps > 0)
        d = verify_compare(&v->first, trace);
    row(v, p, trace, !d.found, seconds);
    (void)!report_flush();
    v->failed += d.found;
    if (d.found)
        verify_print_difference(&v->reference, p, &d);
    if (v->first.steps > 0)
        return;
    v->reference = *p;
    v->first = *trace;
    *trace = (verify_trace){.steps = 0};
}

/* Returns an exit status other than LK_EXIT_DONE to end everything: it could not be run. */
static int place_verify(struct verify *v, const verify_config *p)
{
    verify_trace trace;
    char why[VERIFY_WHY] = "", place[VERIFY_CONFIG_TEXT];
    int status = LK_EXIT_DONE;
    progress_show(&v->progress, (double)v->done++ / (double)v->total, "layout %s", p->layout->word);
    if (verify_trace_new(v->o->steps, &trace) != LK_OK)
        status = verb_failed();
    int64_t begin = lk_clock_ns();
    if (status == LK_EXIT_DONE)
        status = verify_run(p, NULL, &trace, why);
    lk_log_set_level(LK_LOG_ERROR); /* the others have the same to say */
    double seconds = 1e-9 * (double)(lk_clock_ns() - begin);
    progress_clear(&v->progress);
    if (status == LK_EXIT_DONE && !*why) {
        place_judge(v, p, &trace, seconds);
    } else if (status == LK_EXIT_DONE) {
        row(v, p, NULL, false, 0);
        if (v->skipped++ == 0)
            snprintf(v->why, sizeof v->why, "%s", why);
    } else if (v->o->layouts) {
        fprintf(stderr, "  with %s\n", verify_config_text(p, place));
    }
    verify_trace_free(&trace);
    return status;
}

/* Say what came out; returns the exit status. */
static int summary(const struct verify *v)
{
    long long compared = (long long)(v->total - v->skipped), failed = (long long)v->failed;
    if (compared == 0)
        return verb_refuse(
            COMMAND ": option --algorithms: none of them can be used on these ranks: %s", v->why);
    if (failed > 0)
        fprintf(stderr,
                "error: " COMMAND ": %lld of %lld configurations %s other bits than the first\n",
                failed, compared, failed == 1 ? "has" : "have");
    if (v->skipped > 0 && !v->o->json)
        printf("\n%lld left out: the algorithm cannot be used there: %s", (long long)v->skipped,
               v->why);
    if (failed == 0 && !v->o->json)
        printf("\nthe same bits in %lld configuration%s: %lld step%s%s\n", compared,
               plural(compared), (long long)v->o->steps, plural(v->o->steps),
               v->first.score ? " and an evaluation" : "");
    return failed > 0 ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

static int places_verify(struct verify *v)
{
    const struct verify_options *o = v->o;
    v->total = (int64_t)v->transports.n * v->n_isa * v->layouts.n * o->threads.n * o->algorithms.n;
    for (int64_t i = 0; i < v->total; i++) {
        int64_t k = i;
        verify_config p = {.algorithm = o->algorithms.item[k % o->algorithms.n], .steps = o->steps};
        k /= o->algorithms.n;
        p.threads = (int)o->threads.item[k % o->threads.n];
        k /= o->threads.n;
        p.layout = &v->layouts.item[k % v->layouts.n];
        k /= v->layouts.n;
        p.isa = v->isa[k % v->n_isa];
        p.launcher = v->transports.item[k / v->n_isa];
        if (strcmp(p.algorithm, "auto") == 0)
            p.algorithm = NULL;
        int status = place_verify(v, &p);
        if (status != LK_EXIT_DONE)
            return status;
    }
    return summary(v);
}

static int verify_configs(struct verify *v)
{
    int status = verify_transports_read(&v->o->transport, &v->o->mpi, &v->transports);
    if (status == LK_EXIT_DONE)
        status = isas_read(v);
    if (status == LK_EXIT_DONE)
        status = settings_check(v, v->layouts.item[0].version[0].experiment);
    if (status != LK_EXIT_DONE)
        return status;
    if (*v->layouts.pieces) /* JSON has stdout for itself */
        fprintf(v->o->json ? stderr : stdout,
                "pieces: %s for all layouts (the file says nothing)\n", v->layouts.pieces);
    report_measure(&v->out, columns, N_COLUMNS, v->o->json);
    verify_layouts_measure(&v->layouts, &v->out);
    report_print(&v->out);
    progress_begin(&v->progress);
    status = places_verify(v);
    verify_trace_free(&v->first);
    return status;
}

/* The one configuration of --trace, on the ranks that are there. */
static int trace_run(struct verify *v, const verify_version *version)
{
    const struct verify_options *o = v->o;
    verify_config p = {.threads = (int)o->threads.item[0], .algorithm = o->algorithms.item[0]};
    if (isas_read(v) != LK_EXIT_DONE || settings_check(v, version->experiment) != LK_EXIT_DONE)
        return LK_EXIT_USAGE;
    if (o->threads.n > 1 || v->n_isa > 1 || o->algorithms.n > 1 || v->layouts.n > 1)
        return verb_refuse(COMMAND ": --trace is for one configuration: give no lists");
    p.isa = v->isa[0];
    if (strcmp(p.algorithm, "auto") == 0)
        p.algorithm = NULL;
    int64_t until = o->until > 0 && o->until < o->steps ? o->until : o->steps;
    return verify_print(&p, &(verify_setting){version, o->steps, until, o->snapshot});
}

static int trace_read(struct verify *v, int n, char **operand)
{
    verify_version given = {.n = 0};
    const char *words = v->o->layouts;
    int status = words ? verify_layouts_read(words, n, operand, &v->layouts)
                       : verify_version_read(n, operand, &given);
    if (status == LK_EXIT_DONE && *v->layouts.pieces) /* another layout's would be others */
        status = verb_refuse(COMMAND ": --trace: %s needs `pieces: %s`: say so for all layouts",
                             words, v->layouts.pieces);
    if (status == LK_EXIT_DONE)
        status = trace_run(v, words ? &v->layouts.item[0].version[0] : &given);
    verify_version_free(&given);
    return status;
}

static int verify_layouts_run(struct verify *v, int n, char **operand)
{
    const struct verify_options *o = v->o;
    if (o->quiet)
        lk_log_set_level(LK_LOG_ERROR);
    if (o->layouts && o->ranks.n > 0)
        return usage("layouts", "it and --ranks exclude each other: a layout says its ranks");
    if (o->trace)
        return trace_read(v, n, operand);
    if (ranks_launched())
        return verb_refuse(COMMAND
                           ": it starts its ranks itself; on those of a launcher, give --trace");
    if (o->snapshot || o->until > 0)
        return usage(o->snapshot ? "snapshot" : "until", "it goes with --trace");
    int status = o->layouts ? verify_layouts_read(o->layouts, n, operand, &v->layouts)
                            : verify_layouts_of_ranks(&o->ranks, n, operand, &v->layouts);
    return status == LK_EXIT_DONE ? verify_configs(v) : status;
}

static int verify_main(const void *given, int n, char **operand)
{
    struct verify v = {.o = given};
    int status = verify_layouts_run(&v, n, operand);
    verify_layouts_free(&v.layouts);
    return status;
}

const lk__verb lk__verb_verify = {
    .name = "verify",
    .summary = "train on many layouts and compare the bits",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Trains the first steps of an experiment in each configuration of the lists below, "
        "evaluates on a few batches, and compares the state after each step, the losses and the "
        "metrics, on every rank, with those of the first configuration. The exit status is 1 if a "
        "bit differs; then it names the first step, layer and tensor that do, with both values.\n"
        "Ranks are threads of this process, or with --transport mpi processes of an MPI, which "
        "this command starts. With --layouts each word says how many of them share the batch "
        "(data2), the image (2x2), wide layers (features2) and the model (stages3). With --trace "
        "it runs on the ranks of another launcher, such as srun, and prints what it would compare: "
        "\"step N state HASH loss BITS\".\n"
        "JSON: ranks, threads, transport, mpi, layout, isa, algorithm, state, same, seconds; "
        "without the last three where the algorithm cannot be used.",
    .options = options,
    .options_size = sizeof(struct verify_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .ranks = true,
    .run = verify_main,
};
