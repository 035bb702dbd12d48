/* lockstep selfcheck: every kernel in every configuration, one hash each. */
#include "report.h"
#include "selfcheck/check_run.h"
#include "selfcheck/golden.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/clock.h>
#include <lockstep/extra/suggest.h>
#include <lockstep/hash.h>
#include <lockstep/thread.h>
#include <lockstep/version.h>

#include <errno.h>
#include <string.h>

struct selfcheck_options {
    bool json, fail_alloc;
    lk_option_ints threads;
    lk_option_names isa;
    const char *golden, *write_golden;
    int64_t seed;
};

#define FIELD(name) offsetof(struct selfcheck_options, name)

static const lk_option options[] = {
    {"threads", LK_OPTION_INTS, FIELD(threads), .value = "N,...", .def = "1,2,3,4", .min = 1,
     .max = LK_MAX_THREADS, .help = "thread counts to compare", .flags = LK_OPTION_ONCE},
    {"isa", LK_OPTION_NAMES, FIELD(isa), .value = "NAME,...",
     .help = "instruction sets to compare; all that are available by default",
     .flags = LK_OPTION_ONCE},
    {"golden", LK_OPTION_TEXT, FIELD(golden), .value = "FILE",
     .help = "compare the hashes with the known ones of this file as well"},
    {"write_golden", LK_OPTION_TEXT, FIELD(write_golden), .value = "FILE",
     .help = "write the hashes to a file for --golden, if nothing failed"},
    {"seed", LK_OPTION_INT, FIELD(seed), .value = "N", .def = "1", .min = 0, .max = 1e15,
     .help = "seed of the inputs; golden files belong to seed 1"},
    {"fail_alloc", LK_OPTION_FLAG, FIELD(fail_alloc),
     .help = "instead, let every allocation of every case fail in turn: each run must end with an "
             "error or the right result, and leak nothing"},
    {"json", LK_OPTION_FLAG, FIELD(json), .help = "print one JSON object for each kernel"},
    {.name = NULL},
};

/* A check for a dtype, as it is listed. */
struct item {
    const lk__check *check;
    lk_dtype dtype;
};

enum { MAX_ITEMS = GOLDEN_MAX };

struct selfcheck {
    const struct selfcheck_options *o;
    struct item item[MAX_ITEMS];
    int n_items;
    check_setting setting;
    golden golden;
    struct golden written; /* for --write-golden */
    report out;
    progress progress;
    int failed, cases, runs;
};

static bool is_selected(const lk__check *check, lk_dtype dtype, int n, char **names)
{
    char name[CHECK_NAME];
    check_name(check, dtype, name, sizeof name);
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0 || strcmp(names[i], check->name) == 0)
            return true;
    return n == 0;
}

static bool is_known(const char *wanted)
{
    lk_suggestion s = {.wanted = wanted};
    for (int i = 0; lk__checks[i]; i++)
        for (lk_dtype t = LK_F32; t <= LK_F64; t++) {
            if (is_selected(lk__checks[i], t, 1, (char *[]){(char *)(uintptr_t)wanted}))
                return true;
            lk_suggest_consider(&s, lk__checks[i]->name);
        }
    fprintf(stderr, "error: lockstep selfcheck: no check named \"%s\"", wanted);
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"%s\"?", s.best);
    fprintf(stderr, "\n  run \"lockstep list checks\" for the names\n");
    return false;
}

static bool select_items(struct selfcheck *run, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (!is_known(names[i]))
            return false;
    for (int i = 0; lk__checks[i]; i++) {
        /* Both types allocate alike: without a name, one of them is enough for --fail-alloc. */
        bool one = lk__checks[i]->untyped || (run->o->fail_alloc && n == 0);
        for (lk_dtype t = LK_F32; t <= (one ? LK_F32 : LK_F64); t++)
            if (is_selected(lk__checks[i], t, n, names) && run->n_items < MAX_ITEMS)
                run->item[run->n_items++] = (struct item){lk__checks[i], t};
    }
    return true;
}

/* Instruction sets and threads, checked. */
static bool choose_setting(struct selfcheck *run)
{
    check_setting *s = &run->setting;
    *s = (check_setting){.seed = (uint64_t)run->o->seed, .progress = &run->progress};
    for (int i = 0; i < run->o->threads.n; i++)
        s->threads[s->n_threads++] = (int)run->o->threads.item[i];
    for (int i = 0; i < LK_N_ISAS && run->o->isa.n == 0; i++)
        if (lk_isa_is_available((lk_isa)i))
            s->isa[s->n_isas++] = (lk_isa)i;
    for (int i = 0; i < run->o->isa.n; i++) {
        lk_isa isa;
        if (lk_isa_find(run->o->isa.item[i], &isa) != LK_OK || lk_isa_set(isa) != LK_OK) {
            fprintf(stderr, "error: lockstep selfcheck: option --isa: %s\n", lk_error_message());
            return false;
        }
        s->isa[s->n_isas++] = isa;
    }
    return true;
}

static bool open_golden(struct selfcheck *run, bool all)
{
    const struct selfcheck_options *o = run->o;
    if (o->write_golden && !all) {
        fprintf(stderr,
                "error: lockstep selfcheck: --write-golden writes all checks: give no NAME\n");
        return false;
    }
    if ((o->golden || o->write_golden) && (o->seed != 1 || o->fail_alloc)) {
        fprintf(stderr, "error: lockstep selfcheck: golden files belong to seed 1 and to a run "
                        "without --fail-alloc\n");
        return false;
    }
    if (o->golden && !golden_read(&run->golden, o->golden))
        return false;
    if (o->golden && run->golden.epoch != lk_numerics_epoch()) {
        fprintf(stderr,
                "error: %s is of numerics epoch %d, this is epoch %d\n"
                "  compare with the file of the same epoch\n",
                o->golden, run->golden.epoch, lk_numerics_epoch());
        return false;
    }
    run->written.epoch = lk_numerics_epoch();
    return true;
}

static void compare_golden(struct selfcheck *run, check_result *r)
{
    uint64_t known;
    char is[LK_HASH_TEXT], was[LK_HASH_TEXT];
    lk_hash_text(r->hash, is);
    golden_add(&run->written, r->name, r->hash);
    if (!run->o->golden || r->failed)
        return;
    if (!golden_find(&run->golden, r->name, &known)) {
        r->failed = true;
        snprintf(r->failure, sizeof r->failure, "%s has no line for it; its hash is %s",
                 run->o->golden, is);
    } else if (known != r->hash) {
        r->failed = true;
        snprintf(r->failure, sizeof r->failure,
                 "all configurations agree on %s, but %s says %s: these are other bits than those "
                 "of numerics epoch %d; if that is meant, raise the epoch and write the file anew",
                 is, run->o->golden, lk_hash_text(known, was), lk_numerics_epoch());
    }
}

static void print_result(struct selfcheck *run, const check_result *r)
{
    char hash[LK_HASH_TEXT];
    bool hashed = !run->o->fail_alloc && r->hash != 0;
    report_cell cells[] = {
        cell_text(r->name),
        cell_int(r->cases),
        cell_int(r->configurations),
        hashed ? cell_text(lk_hash_text(r->hash, hash)) : cell_none(),
        r->error >= 0 ? cell_real(r->error, 3) : cell_none(),
        cell_bool(!r->failed, r->failed ? "FAIL" : "ok", r->failed ? TERM_RED : TERM_GREEN),
        r->failed ? cell_text(r->failure) : cell_none(),
    };
    progress_clear(&run->progress);
    report_row(&run->out, cells);
    if (r->failed)
        fprintf(stderr, "error: %s: %s\n", r->name, r->failure);
}

static void run_items(struct selfcheck *run)
{
    for (int i = 0; i < run->n_items; i++) {
        check_result r;
        run->setting.share = 1.0 / run->n_items;
        run->setting.done = i * run->setting.share;
        if (run->o->fail_alloc) {
            check_run_failing(run->item[i].check, run->item[i].dtype, &run->setting, &r);
        } else {
            check_run(run->item[i].check, run->item[i].dtype, &run->setting, &r);
            compare_golden(run, &r);
        }
        print_result(run, &r);
        run->failed += r.failed;
        run->cases += r.cases;
        run->runs += r.runs;
    }
    progress_clear(&run->progress);
}

/* Known hashes of kernels that this build does not have. */
static void miss_golden(struct selfcheck *run, bool all)
{
    for (int i = 0; i < run->golden.n && all; i++)
        if (!run->golden.entry[i].seen) {
            fprintf(stderr, "error: %s: %s knows it, but there is no such check\n",
                    run->golden.entry[i].name, run->o->golden);
            run->failed++;
        }
}

static void print_summary(const struct selfcheck *run, double seconds)
{
    const check_setting *s = &run->setting;
    if (run->o->json)
        return;
    printf("\n%d check%s, %d case%s, %d run%s", run->n_items, plural(run->n_items), run->cases,
           plural(run->cases), run->runs, plural(run->runs));
    if (run->o->fail_alloc) {
        printf(" with a failing allocation");
    } else {
        printf(" on {");
        for (int i = 0; i < s->n_isas; i++)
            printf("%s%s%s", i ? ", " : "", lk_isa_name(s->isa[i]),
                   lk_isa_is_emulated(s->isa[i]) ? " (emulated)" : "");
        printf("} x {");
        for (int i = 0; i < s->n_threads; i++)
            printf("%s%d", i ? ", " : "", s->threads[i]);
        printf("} threads x {whole, split}");
    }
    if (run->failed)
        printf(": %d FAILED (%.1f s)\n", run->failed, seconds);
    else
        printf(": %s (%.1f s)\n",
               run->o->fail_alloc ? "no leak, no wrong result" : "the same bits everywhere",
               seconds);
}

static int longest_name(const struct selfcheck *run)
{
    int longest = 0;
    for (int i = 0; i < run->n_items; i++) {
        char name[CHECK_NAME];
        check_name(run->item[i].check, run->item[i].dtype, name, sizeof name);
        int len = (int)strlen(name);
        longest = len > longest ? len : longest;
    }
    return longest;
}

static int selfcheck_run(const void *given, int n, char **operand)
{
    static struct selfcheck run;
    run = (struct selfcheck){.o = given};
    if (!select_items(&run, n, operand) || !choose_setting(&run) || !open_golden(&run, n == 0))
        return LK_EXIT_USAGE;
    bool fails = run.o->fail_alloc;
    const report_column columns[] = {
        {"kernel", "kernel", -longest_name(&run)},
        {"cases", "cases", 5},
        {fails ? "failing_runs" : "configurations", fails ? "failing runs" : "configurations", 14},
        {"hash", "hash", -16},
        {"error", "error/bound", 11},
        {"pass", "result", -6},
        {"failure", NULL, 0},
    };
    int64_t start = lk_clock_ns();
    progress_begin(&run.progress);
    report_begin(&run.out, columns, 7, run.o->json);
    run_items(&run);
    if (run.o->golden)
        miss_golden(&run, n == 0);
    print_summary(&run, 1e-9 * (double)(lk_clock_ns() - start));
    if (run.o->write_golden && run.failed == 0 && !golden_write(&run.written, run.o->write_golden))
        return LK_EXIT_FAILED;
    return run.failed ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

const lk__verb lk__verb_selfcheck = {
    .name = "selfcheck",
    .summary = "compare every kernel over instruction sets, threads and splits, bit by bit",
    .operands = "[NAME...]",
    .about =
        "Computes every kernel on shapes that include primes, ones and empty axes, with every "
        "instruction set, several thread counts, and whole as well as split into parts the way "
        "ranks split it. All results must be equal in every bit, equal to a plain loop that "
        "follows the definition, and as near to the true values as the length of the sums "
        "allows. Prints one hash over all results for each kernel: it is the same on every "
        "machine.\n"
        "NAME is a kernel (gemm) or a kernel for one type (gemm.f32); all by default.\n"
        "error/bound is the largest error as a fraction of what is allowed. The exit status is 1 "
        "if anything differs.",
    .options = options,
    .options_size = sizeof(struct selfcheck_options),
    .max_operands = 64,
    .computes = true,
    .run = selfcheck_run,
};
