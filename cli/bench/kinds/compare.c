/* lockstep bench compare: two runs of a bench, case by case. */
#include "bench/options.h"
#include "bench/results.h"
#include "bench/summary.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <string.h>

struct compare_options {
    bool json;
};

static const lk_option options[] = {
    BENCH_JSON_OPTION(offsetof(struct compare_options, json)),
    {.name = NULL},
};

/* How many times as fast the new run is. */
static bench_figure gain(const bench_recorded *was, const bench_recorded *is)
{
    return is->is_rate ? bench_quotient(is->figure, was->figure)
                       : bench_quotient(was->figure, is->figure);
}

/* Whether both say how fast the case was by the same figure. */
static bool is_pair(const bench_recorded *a, const bench_recorded *b)
{
    return a && b && strcmp(a->unit, b->unit) == 0;
}

static void pair_rows(const bench_results *was, const bench_results *is, report *out)
{
    for (const bench_recorded *c = was->first; c; c = c->next) {
        const bench_recorded *same = bench_results_find(is, c->name);
        if (!is_pair(c, same))
            continue;
        bench_figure ratio = gain(c, same);
        report_cell cell = cell_figure(ratio, 2);
        cell.colour = bench_at_least(ratio, 1) ? TERM_GREEN : NULL;
        report_row(out, (report_cell[]){cell_text(c->name), cell_figure(c->figure, 4),
                                        cell_figure(same->figure, 4), cell_text(c->unit), cell,
                                        cell_none()});
    }
}

/* Those of `a` that `b` has not; `which` says which file that is. */
static int single_rows(const bench_results *a, const bench_results *b, const char *which,
                       report *out)
{
    int n = 0;
    for (const bench_recorded *c = a->first; c; c = c->next) {
        bool is_old = strcmp(which, "old") == 0;
        if (is_pair(c, bench_results_find(b, c->name)))
            continue;
        n++;
        report_row(out, (report_cell[]){cell_text(c->name),
                                        is_old ? cell_figure(c->figure, 4) : cell_none(),
                                        is_old ? cell_none() : cell_figure(c->figure, 4),
                                        cell_text(c->unit), cell_none(), cell_text(which)});
    }
    return n;
}

static int rows(const bench_results *was, const bench_results *is, report *out)
{
    pair_rows(was, is, out);
    return single_rows(was, is, "old", out) + single_rows(is, was, "new", out);
}

static void summary_print(const bench_results *was, const bench_results *is, bool json)
{
    static const char *const name[] = {"all"};
    bench_tally all = {.lowest_case = ""};
    for (const bench_recorded *c = was->first; c; c = c->next) {
        const bench_recorded *same = bench_results_find(is, c->name);
        if (is_pair(c, same))
            bench_tally_add(&all, c->name, gain(c, same));
    }
    bench_tallies_print(&all, name, 1, "ratio", json);
}

static int compare_run(const void *given, int n_operands, char **operand)
{
    const struct compare_options *o = given;
    static const report_column columns[] = {{"case", "case", -1},  {"old", "old", 1},
                                            {"new", "new", 1},     {"unit", "unit", -1},
                                            {"ratio", "ratio", 1}, {"only_in", "only in", -1}};
    lk_arena *arena = NULL;
    bench_results was, is;
    report out;
    (void)n_operands;
    if (lk_arena_new(&arena) != LK_OK)
        return verb_failed();
    int status = LK_EXIT_USAGE;
    if (bench_results_read(operand[0], arena, &was) && bench_results_read(operand[1], arena, &is)) {
        report_measure(&out, columns, 6, o->json);
        int single = rows(&was, &is, &out);
        status = single < out.measured
                     ? LK_EXIT_DONE
                     : verb_refuse("lockstep bench compare: %s and %s have no case in common: they "
                                   "must be of the same kind of bench",
                                   was.path, is.path);
    }
    if (status == LK_EXIT_DONE) {
        report_print(&out);
        rows(&was, &is, &out);
        summary_print(&was, &is, o->json);
    }
    lk_arena_free(arena);
    return status;
}

const lk__verb lk__bench_kind_compare = {
    .name = "compare",
    .summary = "two runs of a bench, case by case",
    .operands = "OLD.json NEW.json",
    .about =
        "Reads what \"lockstep bench KIND --json\" printed twice, such as before and after a "
        "change, "
        "and prints for each case that both have the two figures and their ratio: above 1 the new "
        "run is faster, whatever the unit. At the end are the geometric mean and the lowest "
        "ratio.\n"
        "Behind +- is the noise of a figure; a ratio of two is known if both are. Cases that only "
        "one file has are listed last (only in: old or new). Of a case that was measured next to "
        "several peers the first counts.\n"
        "Two runs at different times say little of differences of a few percent, because machines "
        "change their speed: tools/bench-pairs runs two builds by turns.\n"
        "JSON: case, old, new, unit, ratio, only_in; then summary, cases, of, geomean, lowest, "
        "lowest_case.",
    .options = options,
    .options_size = sizeof(struct compare_options),
    .min_operands = 2,
    .max_operands = 2,
    .run = compare_run,
};
