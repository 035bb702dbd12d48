/* Geometric means over cases whose figure is known. */
#include "bench/summary.h"

#include <stdio.h>
#include <string.h>

void bench_tally_add(bench_tally *t, const char *name, bench_figure f)
{
    bench_mean_add(&t->mean, f);
    if (!bench_known(f) || (t->lowest.measured && f.value >= t->lowest.value))
        return;
    t->lowest = f;
    snprintf(t->lowest_case, sizeof t->lowest_case, "%s", name);
}

static void rows(const bench_tally *t, const char *const *name, int n, report *out)
{
    for (int i = 0; i < n; i++)
        if (t[i].mean.of > 0)
            report_row(out, (report_cell[]){
                                cell_text(name[i]), cell_int(t[i].mean.n), cell_int(t[i].mean.of),
                                cell_figure(bench_mean_value(&t[i].mean), 3),
                                cell_figure(t[i].lowest, 2), cell_text(t[i].lowest_case)});
}

void bench_tallies_print(const bench_tally *t, const char *const *name, int n, const char *title,
                         bool json)
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
    rows(t, name, n, &out);
    if (out.measured == 0)
        return;
    fputs(json ? "" : "\n", stdout);
    report_print(&out);
    rows(t, name, n, &out);
}

void bench_summary_add(bench_summary *s, const bench_case *c, bench_figure f)
{
    bench_tally_add(&s->tally[c->group][c->pass], c->name, f);
}

void bench_summary_print(const bench_summary *s, const char *title, bool json)
{
    enum { N = (int)BENCH_N_GROUPS * (int)LK_N_PEER_PASSES };
    char text[N][BENCH_NAME];
    const char *name[N];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "%s, %s",
                 bench_group_name((bench_group)(i / LK_N_PEER_PASSES)),
                 bench_pass_name((lk__peer_pass)(i % LK_N_PEER_PASSES)));
        name[i] = text[i];
    }
    bench_tallies_print(&s->tally[0][0], name, N, title, json);
}
