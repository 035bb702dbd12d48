/* Geometric means over the cases of a pass whose figure is known. */
#include "bench_summary.h"

#include <stdio.h>
#include <string.h>

void bench_summary_add(bench_summary *s, const bench_case *c, bench_figure f)
{
    bench_tally *t = &s->tally[c->group][c->pass];
    bench_mean_add(&t->mean, f);
    if (!bench_known(f) || (t->lowest.measured && f.value >= t->lowest.value))
        return;
    t->lowest = f;
    memcpy(t->lowest_case, c->name, sizeof t->lowest_case);
}

static void rows(const bench_summary *s, report *out)
{
    for (int g = 0; g < BENCH_N_GROUPS; g++)
        for (int p = 0; p < LK_N_PEER_PASSES; p++) {
            const bench_tally *t = &s->tally[g][p];
            char name[BENCH_NAME];
            if (t->mean.of == 0)
                continue;
            snprintf(name, sizeof name, "%s, %s", bench_group_name((bench_group)g),
                     bench_pass_name((lk__peer_pass)p));
            report_row(out,
                       (report_cell[]){cell_text(name), cell_int(t->mean.n), cell_int(t->mean.of),
                                       cell_figure(bench_mean_value(&t->mean), 3),
                                       cell_figure(t->lowest, 2), cell_text(t->lowest_case)});
        }
}

void bench_summary_print(const bench_summary *s, const char *title, bool json)
{
    report out;
    report_measure(&out,
                   (report_column[]){{"summary", title, -1},
                                     {"cases", "cases", 1},
                                     {"of", "of", 1},
                                     {"geomean", "geometric mean", 1},
                                     {"lowest", "lowest", 1},
                                     {"lowest_case", "at", -1}},
                   6, json);
    rows(s, &out);
    if (out.measured == 0)
        return;
    fputs(json ? "" : "\n", stdout);
    report_print(&out);
    rows(s, &out);
}
