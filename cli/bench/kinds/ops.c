/* lockstep bench ops: every op forward and backward, beside what the machine can do, and PyTorch's in
 * turn. */
#include "bench/ops/ops.h"

#include "bench/limits.h"
#include "bench/options.h"
#include "bench/summary.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <string.h>

struct ops_options {
    bool json, scaling;
    double seconds;
    int64_t threads;
    lk_option_names against;
    const char *filter, *python;
};

#define FIELD(name) offsetof(struct ops_options, name)

static const lk_option options[] = {
    {"against", LK_OPTION_NAMES, FIELD(against), .value = "NAME",
     .help = "torch, or none; torch by default if it is found", .flags = LK_OPTION_ONCE},
    BENCH_FILTER_OPTION(FIELD(filter), BENCH_IN_LIST),
    BENCH_SECONDS_OPTION(FIELD(seconds), "0.5",
                         "each case, everybody together, and for the limits"),
    BENCH_THREADS_OPTION(FIELD(threads)),
    BENCH_SCALING_OPTION(FIELD(scaling)),
    BENCH_PYTHON_OPTION(FIELD(python), "torch"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

/* Cases with less than this are small: what a call costs counts there, not what it moves. */
static const double large_bytes = 1 << 20;

enum { N_TALLIES = 2 * BENCH_N_OP_PASSES };

struct bench {
    const struct ops_options *o;
    int threads;
    bench_torch torch;
    bool against;
    bench_limits limits;
    report out;
    progress progress;
    bench_tally tally[N_TALLIES]; /* of small cases by pass, then of large ones */
};

static bool is_wanted(const struct bench *b, const bench_op *c, bench_op_pass pass)
{
    char name[BENCH_OP_NAME];
    return !b->o->filter || strstr(bench_op_pass_of(c, pass, name), b->o->filter);
}

static bool is_any_wanted(const struct bench *b, const bench_op *c)
{
    for (int pass = 0; pass < BENCH_N_OP_PASSES; pass++)
        if (is_wanted(b, c, (bench_op_pass)pass))
            return true;
    return false;
}

/* ---- limits ---- */

static void print_limits_json(const struct bench *b)
{
    static const report_column columns[] = {{"limit", NULL, 0},
                                            {"array_bytes", NULL, 0},
                                            {"gbytes_per_s", NULL, 0},
                                            {"gflops", NULL, 0}};
    report out;
    report_begin(&out, columns, 4, true);
    for (int size = 0; size < BENCH_N_SIZES; size++)
        for (int loop = 0; loop < BENCH_N_LOOPS; loop++)
            report_row(&out,
                       (report_cell[]){cell_text(bench_loop_name((bench_loop)loop)),
                                       cell_int(bench_limit_bytes[size]),
                                       cell_figure(b->limits.gbytes[size][loop], 1), cell_none()});
    report_row(&out, (report_cell[]){cell_text("multiply-add"), cell_none(), cell_none(),
                                     cell_figure(b->limits.gflops, 1)});
}

static void print_limits(const struct bench *b)
{
    static const report_column columns[] = {{NULL, "arrays of", -9},
                                            {NULL, "read GB/s", 12},
                                            {NULL, "copy GB/s", 12},
                                            {NULL, "add GB/s", 12},
                                            {NULL, "multiply-add GFLOP/s", 20}};
    report out;
    report_begin(&out, columns, 5, false);
    for (int size = 0; size < BENCH_N_SIZES; size++) {
        const bench_figure *f = b->limits.gbytes[size];
        char name[32];
        int64_t kib = bench_limit_bytes[size] >> 10;
        snprintf(name, sizeof name, "%lld %s", (long long)(kib < 1024 ? kib : kib >> 10),
                 kib < 1024 ? "KiB" : "MiB");
        report_row(&out,
                   (report_cell[]){cell_text(name), cell_figure(f[BENCH_READ], 1),
                                   cell_figure(f[BENCH_COPY], 1), cell_figure(f[BENCH_ADD], 1),
                                   size == 0 ? cell_figure(b->limits.gflops, 1) : cell_none()});
    }
    putchar('\n');
}

static void print_head(struct bench *b)
{
    lk_isa isa;
    int threads = b->threads;
    if (lk_isa_now(&isa) != LK_OK)
        return;
    printf("f32, %s%s, %d thread%s, medians of %s\n", lk_isa_name(isa),
           lk_isa_is_emulated(isa) ? " (emulated: the figures mean nothing)" : "", threads,
           plural(threads), threads == 1 && !b->o->scaling ? "processor time" : "time");
    if (!b->o->scaling)
        bench_path_print(&b->torch.path, "torch", b->torch.about);
    putchar('\n');
    if (!b->o->scaling)
        print_limits(b);
}

/* ---- cases ---- */

/* The larger of two shares that may not be known. */
static bench_tally *tally_of(struct bench *b, int pass, double footprint)
{
    return &b->tally[footprint < large_bytes ? pass : BENCH_N_OP_PASSES + pass];
}

static void print_row(struct bench *b, const bench_op *c, bench_op_pass pass,
                      const bench_op_result *r)
{
    static const double flops[BENCH_N_OP_PASSES] = {1, 2, 3};
    static const bench_figure none;
    char name[BENCH_OP_NAME];
    bench_figure seconds = r->seconds[pass];
    bench_figure gbytes = r->gbytes[pass] > 0 ? bench_rate(r->gbytes[pass], seconds) : none;
    bench_figure gflops = c->flop > 0 ? bench_rate(1e-9 * flops[pass] * c->flop, seconds) : none;
    double footprint = pass == BENCH_OP_FORWARD ? r->values : r->footprint;
    bench_figure least = bench_limits_seconds(&b->limits, footprint,
                                              r->gbytes[pass] - r->written[pass], r->written[pass]);
    bench_figure share = bench_larger(bench_quotient(gflops, b->limits.gflops),
                                      gbytes.measured ? bench_quotient(least, seconds) : none);
    report_cell ratio = cell_figure(r->ratio[pass], 2);
    ratio.colour = bench_at_least(r->ratio[pass], 1) ? TERM_GREEN : NULL;
    report_row(&b->out, (report_cell[]){
                            cell_text(bench_op_pass_of(c, pass, name)),
                            r->ratio[pass].measured ? cell_text("torch") : cell_none(),
                            cell_figure(bench_scaled(1e3, seconds), 4),
                            cell_figure(gbytes, 1),
                            cell_figure(gflops, 1),
                            cell_figure(share, 2),
                            cell_figure(bench_scaled(1e3, r->theirs[pass]), 4),
                            ratio,
                            cell_path(&b->torch.path),
                            cell_path_warning(&b->torch.path),
                            cell_int(r->rounds),
                        });
    if (r->ratio[pass].measured)
        bench_tally_add(tally_of(b, (int)pass, r->footprint), name, r->ratio[pass]);
}

static int case_failed(const bench_op *c)
{
    char name[BENCH_OP_NAME];
    fprintf(stderr, "error: %s could not be measured\n", bench_op_name(c, name));
    return verb_failed();
}

static int case_run(struct bench *b, const bench_op *c)
{
    bench_op_result r;
    lk_status st = bench_op_run(c, b->threads, b->o->seconds, b->against ? &b->torch : NULL, &r);
    progress_clear(&b->progress);
    if (st != LK_OK)
        return case_failed(c);
    for (int pass = 0; pass < BENCH_N_OP_PASSES; pass++)
        if (r.done[pass] && is_wanted(b, c, (bench_op_pass)pass))
            print_row(b, c, (bench_op_pass)pass, &r);
    return LK_EXIT_DONE;
}

static int case_scale(struct bench *b, const bench_op *c)
{
    bench_op_scaling r;
    lk_status st = bench_op_scale(c, b->threads, b->o->seconds, &r);
    progress_clear(&b->progress);
    if (st != LK_OK)
        return case_failed(c);
    for (int pass = 0; pass < BENCH_N_OP_PASSES; pass++) {
        char name[BENCH_OP_NAME];
        const bench_scaling *f = &r.pass[pass];
        if (f->rounds == 0 || !is_wanted(b, c, (bench_op_pass)pass))
            continue;
        report_row(&b->out,
                   (report_cell[]){cell_text(bench_op_pass_of(c, (bench_op_pass)pass, name)),
                                   cell_int(b->threads), cell_figure(bench_scaled(1e3, f->one), 4),
                                   cell_figure(bench_scaled(1e3, f->many), 4),
                                   cell_figure(f->speedup, 2), cell_figure(f->limit, 2),
                                   cell_figure(f->share, 2), cell_int(f->rounds)});
        bench_tally_add(tally_of(b, pass, r.footprint), name, f->share);
    }
    return LK_EXIT_DONE;
}

static void begin_report(struct bench *b, int longest)
{
    const report_column columns[] = {
        {"case", "case", -longest},
        {"peer", NULL, 0},
        {"milliseconds", "ms", 14},
        {"gbytes_per_s", "GB/s", 12},
        {"gflops", "GFLOP/s", 12},
        {"of_limit", "of limit", 10},
        {"peer_milliseconds", "torch ms", 14},
        {"ratio", "ratio", 11},
        BENCH_PATH_COLUMNS,
        {"rounds", NULL, 0},
    };
    const report_column scaling[] = {{"case", "case", -longest},
                                     {"threads", "threads", 7},
                                     {"milliseconds_one_thread", "1 thread ms", 14},
                                     {"milliseconds", "N threads ms", 14},
                                     {"speedup", "speedup", 11},
                                     {"limit", "N copies", 11},
                                     {"of_copies", "of copies", 11},
                                     {"rounds", NULL, 0}};
    if (b->o->scaling)
        report_begin(&b->out, scaling, sizeof scaling / sizeof scaling[0], b->o->json);
    else
        report_begin(&b->out, columns, sizeof columns / sizeof columns[0], b->o->json);
}

static int cases_run(struct bench *b, int wanted, int longest)
{
    int status = LK_EXIT_DONE, done = 0;
    if (!b->o->json)
        print_head(b);
    else if (!b->o->scaling)
        print_limits_json(b);
    begin_report(b, longest);
    for (const bench_op *c = bench_op_cases; c->op && report_flush() == 0; c++) {
        char name[BENCH_OP_NAME];
        if (!is_any_wanted(b, c))
            continue;
        progress_show(&b->progress, done++ / (double)wanted, "%s", bench_op_name(c, name));
        int did = b->o->scaling ? case_scale(b, c) : case_run(b, c);
        status = did != LK_EXIT_DONE ? did : status;
    }
    static const char *const names[N_TALLIES] = {
        "small, forward", "small, backward", "small, both",
        "large, forward", "large, backward", "large, both",
    };
    bench_tallies_print(b->tally, names, N_TALLIES,
                        b->o->scaling ? "speedup, of that of copies" : "ratio, by size and pass",
                        b->o->json);
    return status;
}

/* Who takes part, and what the machine can do. */
static int sides_open(struct bench *b)
{
    b->threads = b->o->threads ? (int)b->o->threads : b->o->scaling ? 2 : 1;
    if (b->o->scaling)
        return LK_EXIT_DONE;
    int status = torch_open(&b->torch, "ops", &b->o->against, b->o->python,
                            "lockstep-peer-torch-ops.py", b->threads, &b->against);
    if (status != LK_EXIT_DONE)
        return status;
    if (lk_threads_set(b->threads) != LK_OK ||
        bench_limits_measure(b->threads, b->o->seconds, &b->limits) != LK_OK)
        return verb_failed();
    return LK_EXIT_DONE;
}

static int ops_run(const void *given, int n_operands, char **operand)
{
    static struct bench b;
    int wanted = 0, longest = 0;
    (void)n_operands;
    (void)operand;
    b = (struct bench){.o = given, .torch.pid = -1};
    if (b.o->scaling && b.o->threads == 1)
        return verb_refuse("lockstep bench ops: option --threads: " BENCH_SCALING_REFUSAL);
    for (const bench_op *c = bench_op_cases; c->op; c++) {
        char name[BENCH_OP_NAME];
        int n = (int)strlen(bench_op_pass_of(c, BENCH_OP_BACKWARD, name));
        if (!is_any_wanted(&b, c))
            continue;
        longest = n > longest ? n : longest;
        wanted++;
    }
    if (wanted == 0)
        return verb_refuse("lockstep bench ops: option --filter: no case contains \"%s\"; see "
                           "\"lockstep list cases\"",
                           b.o->filter);
    progress_begin(&b.progress);
    int status = sides_open(&b);
    if (status == LK_EXIT_DONE)
        status = cases_run(&b, wanted, longest);
    torch_stop(&b.torch);
    return status;
}

const lk__verb lk__bench_kind_ops = {
    .computes = true,
    .name = "ops",
    .summary = "every op forward and backward, beside the machine's limits and PyTorch",
    .operands = "",
    .about =
        "Measures each op that is built in at sizes in and out of the caches: forward on the tape; "
        "both, which is forward and backward into the gradients of leaves; and backward, their "
        "difference.\n"
        "Before that, on arrays of four sizes, it measures what the machine can do at best: how "
        "fast memory is read, copied (y = x, by memcpy() or around the caches, whatever is faster) "
        "and added to (y = y + x), and how many multiply-adds "
        "there are, each of which counts twice.\n"
        "Where PyTorch is installed (see --python), a Python process does the same in its eager "
        "mode, and the ratio is the median over the rounds of its time divided by ours; what both "
        "compute is compared. With one thread the time is processor time, with more the "
        "clock's.\n" BENCH_NOISE_ABOUT BENCH_PATH_ABOUT "\n"
        "Columns: ms of one run; GB/s, what an implementation that reads and writes each array "
        "once would move in that time; GFLOP/s, of products; of limit, how near that is to what "
        "the "
        "machine can do, the larger of two shares: of its multiply-adds; and of the time in which "
        "it "
        "would move these arrays, which is the time of read for each byte that is read and of copy "
        "without read for each that is written, on arrays that together are about as large, so "
        "that "
        "whatever it takes to write memory is counted, and an op as fast as memcpy() has 1; torch "
        "ms "
        "and ratio.\n"
        "JSON: limit, array_bytes, gbytes_per_s, gflops for each limit; then case, peer, "
        "milliseconds, "
        "gbytes_per_s, gflops, of_limit, peer_milliseconds, ratio, peer_path, peer_warning, "
        "rounds; then summary, cases, of, geomean, lowest, of the ratio by pass, of cases that are "
        "small, below 1 MiB in all, and of large ones.\n" BENCH_SCALING_ABOUT
        "JSON then: case, threads, milliseconds_one_thread, milliseconds, speedup, limit, "
        "of_copies, rounds, and the summary of of_copies.",
    .options = options,
    .options_size = sizeof(struct ops_options),
    .run = ops_run,
};
