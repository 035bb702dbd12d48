/* lockstep verify: the same experiment on many layouts, and whether the bits are the same. */
#include "experiment.h"
#include "plural.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"
#include "verify_difference.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/log.h>
#include <lockstep/thread.h>

#include <string.h>

#define COMMAND "lockstep verify"

struct verify_options {
    bool json, trace, quiet;
    int64_t steps;
    lk_option_ints ranks, threads;
    lk_option_names isa, algorithms, transport, mpi;
    const char *snapshot;
};

#define FIELD(name) offsetof(struct verify_options, name)

static const lk_option options[] = {
    {.name = "ranks",
     .type = LK_OPTION_INTS,
     .offset = FIELD(ranks),
     .def = "1,2,3,4",
     .min = 1,
     .max = LK_MAX_LOCAL,
     .help = "numbers of ranks",
     .flags = LK_OPTION_ONCE},
    {.name = "threads",
     .type = LK_OPTION_INTS,
     .offset = FIELD(threads),
     .def = "1",
     .min = 1,
     .max = LK_MAX_THREADS,
     .help = "numbers of threads of each rank",
     .flags = LK_OPTION_ONCE},
    {.name = "isa",
     .type = LK_OPTION_NAMES,
     .offset = FIELD(isa),
     .help = "instruction sets; the one in use by default",
     .flags = LK_OPTION_ONCE},
    {.name = "algorithms",
     .type = LK_OPTION_NAMES,
     .offset = FIELD(algorithms),
     .def = "auto",
     .help =
         "how ranks join their sums, such as tree (\"lockstep list collectives\"); auto: as train "
         "does, by cost or as LK_ALLREDUCE says",
     .flags = LK_OPTION_ONCE},
    {.name = "transport",
     .type = LK_OPTION_NAMES,
     .offset = FIELD(transport),
     .def = "local",
     .help = "local: ranks are threads; mpi: processes",
     .flags = LK_OPTION_ONCE},
    {.name = "mpi",
     .type = LK_OPTION_NAMES,
     .offset = FIELD(mpi),
     .def = "auto",
     .help = "for the transport mpi: openmpi, mpich, auto",
     .flags = LK_OPTION_ONCE},
    {.name = "steps",
     .type = LK_OPTION_INT,
     .offset = FIELD(steps),
     .def = "20",
     .min = 1,
     .max = 1e9,
     .help = "steps to train"},
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "print one JSON object for each configuration"},
    {.name = "quiet",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(quiet),
     .help = "print no warnings; without it, those of the first configuration"},
    {.name = "trace",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(trace),
     .help = "train once, on the ranks this was started on, and print the state after each step"},
    {.name = "snapshot",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(snapshot),
     .value = "FILE",
     .help = "with --trace: write all of the state after the last step to a .safetensors file"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"ranks", "ranks", 5},
    {"threads", "threads", 7},
    {"transport", "transport", -9},
    {"mpi", "mpi", -7},
    {"layout", "layout", -8},
    {"isa", "isa", -6},
    {"algorithm", "algorithm", -12},
    {"state", "state", -16},
    {"same", "bits", -7},
    {"seconds", "seconds", 7},
};

enum { N_COLUMNS = sizeof columns / sizeof columns[0], MAX_PLACES = 4 };

struct verify {
    const struct verify_options *o;
    /* As given, but for any number of ranks; and with gradients by allreduce, which they are if each
     * rank updates its own parameters. */
    verify_version version[2];
    launcher launcher[MAX_PLACES];
    const launcher *where[MAX_PLACES]; /* the transports; NULL: local */
    int n_where;
    lk_isa isa[LK_N_ISAS];
    int n_isa;
    int64_t done, total; /* configurations */
    int64_t failed;      /* of them differ */
    int64_t skipped;     /* of them the algorithm cannot do */
    verify_config reference;
    verify_trace first; /* of the reference */
    report out;
    progress progress;
};

static int usage(const char *option, const char *what)
{
    fprintf(stderr, "error: " COMMAND ": option --%s: %s\n", option, what);
    return LK_EXIT_USAGE;
}

/* ---- what is asked for ---- */

static int where_add(struct verify *v, const launcher *l)
{
    if (v->n_where == MAX_PLACES)
        return usage("mpi", "too many");
    v->where[v->n_where++] = l;
    return LK_EXIT_DONE;
}

static int where_read(struct verify *v)
{
    char why[256];
    for (int i = 0; i < v->o->transport.n; i++) {
        const char *name = v->o->transport.item[i];
        if (strcmp(name, "local") == 0 && where_add(v, NULL) != LK_EXIT_DONE)
            return LK_EXIT_USAGE;
        if (strcmp(name, "local") != 0 && strcmp(name, "mpi") != 0)
            return usage("transport", "give local or mpi");
        for (int k = 0; strcmp(name, "mpi") == 0 && k < v->o->mpi.n; k++) {
            launcher *l = &v->launcher[v->n_where];
            if (v->n_where < MAX_PLACES && !launcher_find(v->o->mpi.item[k], l, why, sizeof why))
                return usage("mpi", why);
            if (where_add(v, l) != LK_EXIT_DONE)
                return LK_EXIT_USAGE;
        }
    }
    return LK_EXIT_DONE;
}

/* An allreduce that an option or a variable names, which is refused before the first configuration runs,
 * as training on several ranks does. */
static int algorithm_check(const struct verify *v, const char *who, const char *name)
{
    lk_coll_info about = {.benchmark_only = false};
    bool fast = v->version[0].experiment->parallel.mode == LK_REDUCTION_FAST, known = false;
    for (int k = 0; !known && lk_coll_list(k, &about); k++)
        known = strcmp(about.call, "allreduce") == 0 && strcmp(about.name, name) == 0;
    if (!known)
        return verb_refuse(COMMAND
                           ": %s: there is no allreduce \"%s\"; see \"lockstep list collectives\"",
                           who, name);
    if (about.benchmark_only && !fast)
        return verb_refuse(COMMAND
                           ": %s: %s is there to measure against and may give other bits: leave it "
                           "out, or give parallel.mode=fast",
                           who, name);
    return LK_EXIT_DONE;
}

/* What the environment names is for ranks that have others. */
static bool is_several(const struct verify_options *o)
{
    for (int i = 0; i < o->ranks.n; i++)
        if (o->ranks.item[i] > 1)
            return true;
    return false;
}

static int algorithms_check(const struct verify *v)
{
    const struct verify_options *o = v->o;
    int status = LK_EXIT_DONE;
    for (int i = 0; status == LK_EXIT_DONE && i < o->algorithms.n; i++) {
        const char *name = o->algorithms.item[i], *named = verify_named();
        if (strcmp(name, "auto") != 0)
            status = algorithm_check(v, "option --algorithms", name);
        else if (named && !o->trace && is_several(o))
            status = algorithm_check(v, "LK_ALLREDUCE", named);
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

/* Each rank needs a piece of the batch, in every configuration: known before the first one runs. */
static int ranks_check(const struct verify *v)
{
    const lk_experiment *e = v->version[0].experiment;
    for (int i = 0; i < v->o->ranks.n; i++) {
        long long ranks = (long long)v->o->ranks.item[i];
        lk_loader_options loader = e->loader;
        if (e->parallel.mode == LK_REDUCTION_FAST) /* the ranks are the shards */
            loader.shards = ranks;
        long long pieces = (long long)lk_loader_options_shards(&loader);
        if (ranks > pieces)
            return verb_refuse(COMMAND ": option --ranks: %lld ranks for a batch of %lld shard%s: "
                                       "give at most %lld rank%s, or data.shards a larger value "
                                       "(and a batch that has as many samples)",
                               ranks, pieces, plural(pieces), pieces, plural(pieces));
    }
    return LK_EXIT_DONE;
}

/* ---- configurations ---- */

/* `t` NULL: left out. */
static void row(struct verify *v, const verify_config *p, const verify_trace *t, bool same,
                double seconds)
{
    char hash[LK_HASH_TEXT], layout[32];
    snprintf(layout, sizeof layout, "data=%d", p->ranks);
    report_row(&v->out,
               (report_cell[]){
                   cell_int(p->ranks),
                   cell_int(p->threads),
                   cell_text(p->launcher ? "mpi" : "local"),
                   p->launcher ? cell_text(p->launcher->mpi) : cell_none(),
                   cell_text(layout),
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
    char why[VERIFY_WHY] = "";
    int status = LK_EXIT_DONE;
    progress_show(&v->progress, (double)v->done++ / (double)v->total, "%d rank%s", p->ranks,
                  plural(p->ranks));
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
        v->skipped++;
    }
    verify_trace_free(&trace);
    return status;
}

/* Say what came out; returns the exit status. */
static int summary(const struct verify *v)
{
    long long compared = (long long)(v->total - v->skipped), failed = (long long)v->failed;
    if (compared == 0)
        return usage("algorithms", "none of them can be used on these ranks");
    if (failed > 0)
        fprintf(stderr,
                "error: " COMMAND ": %lld of %lld configurations %s other bits than the first\n",
                failed, compared, failed == 1 ? "has" : "have");
    if (v->skipped > 0 && !v->o->json)
        printf("\n%lld left out: the algorithm cannot be used there", (long long)v->skipped);
    if (failed == 0 && !v->o->json)
        printf("\nthe same bits in %lld configuration%s: %lld step%s%s\n", compared,
               plural(compared), (long long)v->o->steps, plural(v->o->steps),
               v->first.score ? " and an evaluation" : "");
    return failed > 0 ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

static int places_verify(struct verify *v)
{
    const struct verify_options *o = v->o;
    v->total = (int64_t)v->n_where * v->n_isa * o->ranks.n * o->threads.n * o->algorithms.n;
    for (int64_t i = 0; i < v->total; i++) {
        int64_t k = i;
        verify_config p = {.algorithm = o->algorithms.item[k % o->algorithms.n]};
        k /= o->algorithms.n;
        p.threads = (int)o->threads.item[k % o->threads.n];
        k /= o->threads.n;
        p.ranks = (int)o->ranks.item[k % o->ranks.n];
        k /= o->ranks.n;
        p.isa = v->isa[k % v->n_isa];
        p.launcher = v->where[k / v->n_isa];
        if (strcmp(p.algorithm, "auto") == 0)
            p.algorithm = NULL;
        p.version = &v->version[p.algorithm != NULL];
        int status = place_verify(v, &p);
        if (status != LK_EXIT_DONE)
            return status;
    }
    return summary(v);
}

static int verify_configs(struct verify *v)
{
    int status = where_read(v);
    if (status == LK_EXIT_DONE)
        status = isas_read(v);
    if (status == LK_EXIT_DONE)
        status = algorithms_check(v);
    if (status == LK_EXIT_DONE)
        status = ranks_check(v);
    if (status != LK_EXIT_DONE)
        return status;
    report_begin(&v->out, columns, N_COLUMNS, v->o->json);
    progress_begin(&v->progress);
    status = places_verify(v);
    verify_trace_free(&v->first);
    return status;
}

/* Read the experiment with one more assignment; NULL: none. */
static int version_read(verify_version *version, int n, char **operand, const char *more)
{
    char **all = NULL;
    int k = 0;
    if (lk_alloc(&all, n + 2, sizeof *all) != LK_OK) {
        (void)verb_failed();
        return LK_EXIT_FAILED;
    }
    for (; k < n; k++)
        all[k] = operand[k];
    all[k++] = (char *)(uintptr_t) "parallel.data=0"; /* as many as there are ranks */
    if (more)
        all[k++] = (char *)(uintptr_t)more;
    version->n = k;
    version->operand = all;
    return experiment_open(k, all, &version->experiment);
}

/* The one configuration of --trace, on the ranks that are there. */
static int verify_trace_run(struct verify *v)
{
    const struct verify_options *o = v->o;
    verify_config p = {.threads = (int)o->threads.item[0], .algorithm = o->algorithms.item[0]};
    if (isas_read(v) != LK_EXIT_DONE || algorithms_check(v) != LK_EXIT_DONE)
        return LK_EXIT_USAGE;
    if (o->threads.n > 1 || v->n_isa > 1 || o->algorithms.n > 1)
        return verb_refuse(COMMAND ": --trace is for one configuration: give no lists");
    p.isa = v->isa[0];
    if (strcmp(p.algorithm, "auto") == 0)
        p.algorithm = NULL;
    return verify_print(&p, &(verify_setting){v->version[0].experiment, o->steps, o->snapshot});
}

static int verify_versions(struct verify *v, int n, char **operand)
{
    if (v->o->quiet)
        lk_log_set_level(LK_LOG_ERROR);
    int status = version_read(&v->version[0], n, operand, NULL);
    if (status != LK_EXIT_DONE)
        return status;
    if (v->o->trace)
        return verify_trace_run(v);
    if (ranks_launched())
        return verb_refuse(COMMAND
                           ": it starts its ranks itself; on those of a launcher, give --trace");
    if (v->o->snapshot)
        return usage("snapshot", "it goes with --trace");
    status = version_read(&v->version[1], n, operand, "parallel.update=each");
    return status == LK_EXIT_DONE ? verify_configs(v) : status;
}

static int verify_main(const void *given, int n, char **operand)
{
    struct verify v = {.o = given};
    int status = verify_versions(&v, n, operand);
    for (int i = 0; i < 2; i++) {
        lk_experiment_free(v.version[i].experiment);
        lk_free(v.version[i].operand);
    }
    return status;
}

const lk__verb lk__verb_verify = {
    .name = "verify",
    .summary = "train on many layouts and compare the bits",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Trains the first steps of an experiment in each configuration of the lists below, "
        "evaluates "
        "on a few batches, and compares the state after each step, the losses and the metrics, on "
        "every rank, with those of the first configuration. The exit status is 1 if a bit differs; "
        "then it names the first step and the first tensor that do, with both values.\n"
        "Ranks are threads of this process, or with --transport mpi processes of an MPI, which "
        "this "
        "command starts. With --trace it runs on the ranks of another launcher, such as srun, and "
        "prints what it would compare: \"step N state HASH loss BITS\".\n"
        "JSON: ranks, threads, transport, mpi, layout, isa, algorithm, state, same, seconds; "
        "without the "
        "last three where the algorithm cannot be used.",
    .options = options,
    .options_size = sizeof(struct verify_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .ranks = true,
    .run = verify_main,
};
