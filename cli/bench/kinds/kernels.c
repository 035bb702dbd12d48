/* lockstep bench kernels: linear layers and convolutions against OpenBLAS and oneDNN. */
#include "bench/case.h"
#include "bench/options.h"
#include "bench/path.h"
#include "bench/peers/peers.h"
#include "bench/run.h"
#include "bench/scaling.h"
#include "bench/summary.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <string.h>

struct kernels_options {
    bool json, scaling;
    lk_option_names against;
    const char *filter, *isa, *dtype;
    double seconds;
    int64_t threads;
};

#define FIELD(name) offsetof(struct kernels_options, name)

static const lk_option options[] = {
    {"against", LK_OPTION_NAMES, FIELD(against), .value = "NAME,...",
     .help = "libraries to compare with: openblas, onednn, or none; those that are found by "
             "default",
     .flags = LK_OPTION_ONCE},
    BENCH_FILTER_OPTION(FIELD(filter), BENCH_IN_LIST),
    BENCH_SECONDS_OPTION(FIELD(seconds), "0.5", "each case, everybody together"),
    BENCH_THREADS_OPTION(FIELD(threads)),
    {"isa", LK_OPTION_TEXT, FIELD(isa), .value = "NAME",
     .help = "our instruction set (oneDNN's: DNNL_MAX_CPU_ISA in the environment)"},
    {"dtype", LK_OPTION_TEXT, FIELD(dtype), .value = "NAME", .def = "f32", .help = "f32 or f64"},
    BENCH_SCALING_OPTION(FIELD(scaling)),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

struct bench {
    const struct kernels_options *o;
    bench_setting setting;
    report out;
    progress progress;
    bench_path path[BENCH_MAX_PEERS]; /* of the peers of the setting */
    bench_summary summary;
    int wanted, longest; /* cases, and the longest of their names */
    int failed;
};

static int refuse(const char *option, const char *why)
{
    fprintf(stderr, "error: lockstep bench kernels: option --%s: %s\n", option, why);
    return LK_EXIT_USAGE;
}

/* Open one peer; `must`: it was asked for. */
static bool add_peer(struct bench *b, const peer_entry *e, bool must)
{
    char why[512];
    const lk__peer *peer = peer_open(e, why, sizeof why);
    if (!peer) {
        fprintf(stderr, "%s: %s cannot be measured: %s\n  install the package %s and build again\n",
                must ? "error" : "note", e->name, why, e->package);
        return !must;
    }
    peer->set_threads(b->setting.threads);
    bench_path *path = &b->path[b->setting.n_peers];
    bench_path_set(path, peer->name, peer->path());
    bench_path_warn(path);
    b->setting.peer[b->setting.n_peers++] = peer;
    return true;
}

static int choose_peers(struct bench *b)
{
    const lk_option_names *against = &b->o->against;
    if (against->n == 1 && strcmp(against->item[0], "none") == 0)
        return LK_EXIT_DONE;
    for (const peer_entry *e = peer_entries; e->name && against->n == 0; e++)
        add_peer(b, e, false);
    for (int i = 0; i < against->n; i++) {
        const peer_entry *e = peer_find(against->item[i]);
        if (!e)
            return refuse("against", "known libraries are onednn and openblas");
        if (!add_peer(b, e, true))
            return LK_EXIT_USAGE;
    }
    return LK_EXIT_DONE;
}

static int choose_setting(struct bench *b)
{
    const struct kernels_options *o = b->o;
    lk_isa isa;
    b->setting.seconds = o->seconds;
    b->setting.threads = o->threads ? (int)o->threads : o->scaling ? 2 : 1;
    if (o->scaling && b->setting.threads == 1)
        return refuse("threads", BENCH_SCALING_REFUSAL);
    if (lk_dtype_find(o->dtype, &b->setting.dtype) != LK_OK)
        return refuse("dtype", lk_error_message());
    if (!lk_dtype_is_real(b->setting.dtype))
        return refuse("dtype", "kernels compute in f32 and f64 only");
    if (o->isa && (lk_isa_find(o->isa, &isa) != LK_OK || lk_isa_set(isa) != LK_OK))
        return refuse("isa", lk_error_message());
    if (lk_isa_now(&isa) != LK_OK || lk_threads_set(b->setting.threads) != LK_OK) {
        lk_error_print(stderr);
        return LK_EXIT_USAGE;
    }
    return LK_EXIT_DONE;
}

static bool is_wanted(const struct bench *b, const bench_case *c)
{
    return !b->o->filter || strstr(c->name, b->o->filter);
}

static void count_cases(struct bench *b)
{
    for (int i = 0; i < bench_n_cases(); i++) {
        bench_case c;
        bench_case_get(i, &c);
        if (!is_wanted(b, &c))
            continue;
        int len = (int)strlen(c.name);
        b->longest = len > b->longest ? len : b->longest;
        b->wanted++;
    }
}

/* A case counts by its ratio to the best library, where that to each is known; a library that fell back
 * to old code is not asked. */
static void count(struct bench *b, const bench_case *c, const bench_result *r)
{
    bench_figure best = {0};
    for (int i = 0; i < b->setting.n_peers; i++) {
        bench_figure ratio = r->peer[i].ratio;
        if (!ratio.measured || *b->path[i].warning)
            continue;
        if (!best.measured || !bench_known(ratio) ||
            (bench_known(best) && ratio.value < best.value))
            best = ratio;
    }
    if (best.measured)
        bench_summary_add(&b->summary, c, best);
}

/* One object for each library, or one without. */
static void print_json(struct bench *b, const bench_case *c, const bench_result *r)
{
    report_cell gflops = cell_figure(bench_rate(1e-9 * c->flop, r->seconds), 1);
    bool any = false;
    for (int i = 0; i < b->setting.n_peers; i++) {
        if (!r->peer[i].done)
            continue;
        any = true;
        report_row(&b->out,
                   (report_cell[]){cell_text(c->name), cell_text(b->setting.peer[i]->name),
                                   cell_figure(r->peer[i].ratio, 3), gflops,
                                   cell_figure(bench_rate(1e-9 * c->flop, r->peer[i].seconds), 1),
                                   cell_text(r->peer[i].why), cell_path(&b->path[i]),
                                   cell_path_warning(&b->path[i]), cell_int(r->rounds)});
    }
    if (!any)
        report_row(&b->out, (report_cell[]){cell_text(c->name), cell_none(), cell_none(), gflops,
                                            cell_none(), cell_none(), cell_none(), cell_none(),
                                            cell_int(r->rounds)});
}

static void print_row(struct bench *b, const bench_case *c, const bench_result *r)
{
    report_cell cells[REPORT_MAX_COLUMNS];
    int n = 0;
    cells[n++] = cell_text(c->name);
    cells[n++] = cell_figure(bench_rate(1e-9 * c->flop, r->seconds), 1);
    for (int i = 0; i < b->setting.n_peers; i++) {
        cells[n++] = cell_figure(bench_rate(1e-9 * c->flop, r->peer[i].seconds), 1);
        cells[n] = cell_figure(r->peer[i].ratio, 2);
        cells[n++].colour = bench_at_least(r->peer[i].ratio, 1) ? TERM_GREEN : NULL;
    }
    report_row(&b->out, cells);
}

static void run_case(struct bench *b, const bench_case *c)
{
    bench_result r;
    if (bench_run(c, &b->setting, &r) != LK_OK) {
        progress_clear(&b->progress);
        fprintf(stderr, "error: %s could not be measured\n", c->name);
        b->failed += verb_failed();
        return;
    }
    progress_clear(&b->progress);
    for (int i = 0; i < b->setting.n_peers; i++)
        if (r.peer[i].wrong) {
            fprintf(stderr, "error: %s, %s: %s\n", c->name, b->setting.peer[i]->name,
                    r.peer[i].why);
            b->failed++;
        }
    if (b->o->json)
        print_json(b, c, &r);
    else
        print_row(b, c, &r);
    count(b, c, &r);
}

static lk_status copy_run(void *copy)
{
    return LK_TRACE(bench_operands_run(copy));
}

static lk_status case_scale(const bench_case *given, const bench_setting *s, bench_scaling *r)
{
    lk_status st;
    bench_case c = *given;
    c.gemm.dtype = c.conv.dtype = s->dtype;
    bench_operands *o = NULL;
    void *copy[LK_MAX_THREADS];
    LK_TRY(lk_alloc_zero(&o, s->threads, sizeof *o));
    for (int i = 0; i < s->threads; i++) {
        copy[i] = &o[i];
        LK_TRY_TO(done, bench_operands_fill(&o[i], &c, 1));
    }
    LK_TRY_TO(done, bench_scaling_run(copy_run, copy, s->threads, s->seconds, r));
done:
    for (int i = 0; i < s->threads; i++)
        bench_operands_free(&o[i]);
    lk_free(o);
    return st;
}

static void run_case_scaling(struct bench *b, const bench_case *c)
{
    bench_scaling r = {0};
    lk_status st = case_scale(c, &b->setting, &r);
    progress_clear(&b->progress);
    if (st != LK_OK) {
        fprintf(stderr, "error: %s could not be measured\n", c->name);
        b->failed += verb_failed();
        return;
    }
    report_row(&b->out, (report_cell[]){cell_text(c->name), cell_int(b->setting.threads),
                                        cell_figure(bench_rate(1e-9 * c->flop, r.one), 1),
                                        cell_figure(bench_rate(1e-9 * c->flop, r.many), 1),
                                        cell_figure(r.speedup, 2), cell_figure(r.limit, 2),
                                        cell_figure(r.share, 2), cell_int(r.rounds)});
    bench_summary_add(&b->summary, c, r.share);
}

static void begin_report(struct bench *b)
{
    static const report_column json[] = {{"case", NULL, 0},        {"peer", NULL, 0},
                                         {"ratio", NULL, 0},       {"gflops", NULL, 0},
                                         {"peer_gflops", NULL, 0}, {"peer_kernel", NULL, 0},
                                         BENCH_PATH_COLUMNS,       {"rounds", NULL, 0}};
    const report_column scaling[] = {{"case", "case", -b->longest},
                                     {"threads", "threads", 7},
                                     {"gflops_one_thread", "1 thread GF/s", 13},
                                     {"gflops", "N threads GF/s", 14},
                                     {"speedup", "speedup", 11},
                                     {"limit", "N copies", 11},
                                     {"of_copies", "of copies", 11},
                                     {"rounds", NULL, 0}};
    if (b->o->scaling) {
        report_begin(&b->out, scaling, 8, b->o->json);
        return;
    }
    if (b->o->json) {
        report_begin(&b->out, json, 9, true);
        return;
    }
    report_column table[2 + 2 * BENCH_MAX_PEERS];
    int n = 0;
    table[n++] = (report_column){"case", "case", -b->longest};
    table[n++] = (report_column){"gflops", "GFLOP/s", 12};
    for (int i = 0; i < b->setting.n_peers; i++) {
        table[n++] = (report_column){"peer_gflops", b->setting.peer[i]->name, 12};
        table[n++] = (report_column){"ratio", "ratio", 11};
    }
    report_begin(&b->out, table, n, false);
}

static void print_heading(const struct bench *b)
{
    lk_isa isa;
    if (b->o->json || lk_isa_now(&isa) != LK_OK)
        return;
    bool clock = b->setting.threads > 1 || b->o->scaling;
    printf("%s, %s%s, %d thread%s, medians of %s\n", lk_dtype_name(b->setting.dtype),
           lk_isa_name(isa), lk_isa_is_emulated(isa) ? " (emulated: the figures mean nothing)" : "",
           b->setting.threads, plural(b->setting.threads), clock ? "time" : "processor time");
    for (int i = 0; i < b->setting.n_peers; i++)
        bench_path_print(&b->path[i], b->setting.peer[i]->name, b->setting.peer[i]->about());
    putchar('\n');
}

static int kernels_run(const void *given, int n_operands, char **operand)
{
    (void)n_operands;
    (void)operand;
    static struct bench b;
    b = (struct bench){.o = given};
    int status = choose_setting(&b);
    if (status == LK_EXIT_DONE && !b.o->scaling)
        status = choose_peers(&b);
    if (status != LK_EXIT_DONE)
        return status;
    count_cases(&b);
    if (b.wanted == 0)
        return refuse("filter", "no case has that in its name; see \"lockstep list cases\"");
    progress_begin(&b.progress);
    print_heading(&b);
    begin_report(&b);
    for (int i = 0, done = 0; i < bench_n_cases() && report_flush() == 0; i++) {
        bench_case c;
        bench_case_get(i, &c);
        if (!is_wanted(&b, &c))
            continue;
        progress_show(&b.progress, done++ / (double)b.wanted, "%s", c.name);
        if (b.o->scaling)
            run_case_scaling(&b, &c);
        else
            run_case(&b, &c);
    }
    bench_summary_print(&b.summary,
                        b.o->scaling ? "speedup, of that of copies, by pass"
                                     : "ratio against the best, by pass",
                        b.o->json);
    return b.failed ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

const lk__verb lk__bench_kind_kernels = {
    .computes = true,
    .name = "kernels",
    .summary = "linear layers and convolutions against OpenBLAS and oneDNN",
    .operands = "",
    .about =
        "Measures linear layers and convolutions, forward and backward, next to other libraries "
        "in the same process: everybody is timed in turn, and a ratio is the median over the "
        "rounds of the library's time divided by ours. Whatever a call must do each time, such "
        "as packing or reordering the weights, is counted on both sides. Tensors are channels "
        "last, weights [in][out] or [kernel...][in][out], and weight gradients are sums by "
        "pieces (16 samples in linear layers, one in convolutions).\n"
        "With one thread the time is the thread's processor time, with more the clock. Results "
        "are compared before anything is timed.\n" BENCH_NOISE_ABOUT BENCH_PATH_ABOUT
        "Such a library is left out of the summary.\n"
        "JSON: case, peer, ratio, gflops, peer_gflops, peer_kernel, peer_path, peer_warning, "
        "rounds; then for each pass summary, cases, of, geomean, lowest: of the ratio against the "
        "best library of each case, where it is known, which it is in `cases` of so "
        "many.\n" BENCH_SCALING_ABOUT
        "JSON then: case, threads, gflops_one_thread, gflops, speedup, limit, "
        "of_copies, rounds, and the summary of of_copies.",
    .options = options,
    .options_size = sizeof(struct kernels_options),
    .run = kernels_run,
};
