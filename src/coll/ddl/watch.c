/* The options -dump_iter and -rebind_iter of lk_ddl: every N calls the ranks exchange how long they
 * took.  lk_ddl_allreduce() calls it at its end, on the rank's thread.
 *
 * The slowest rank is the one that spends the most time between calls: the others wait for it.
 */
#include "coll/ddl/ddl.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/log.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank that is this much above the median, this often running, is bound to its cores. */
enum { REBIND_CHECKS = 3 };
static const double slow = 1.2;

struct report {
    double inside, outside; /* mean seconds of a call */
    double tier[LK_MAX_TIERS];
};

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Who is the slowest, and the median of all; `sorted` [size] is room. */
static int slowest_of(const struct report *all, int size, double *sorted, double *median)
{
    int slowest = 0;
    for (int r = 0; r < size; r++) {
        sorted[r] = all[r].outside;
        slowest = all[r].outside > all[slowest].outside ? r : slowest;
    }
    qsort(sorted, (size_t)size, sizeof *sorted, order);
    *median = size % 2 ? sorted[size / 2] : (sorted[size / 2 - 1] + sorted[size / 2]) / 2;
    return slowest;
}

/* Seconds of the rank that took the longest. */
static double longest(const struct report *all, int size, size_t field)
{
    double most = 0;
    for (int r = 0; r < size; r++) {
        double v;
        memcpy(&v, (const char *)&all[r] + field, sizeof v);
        most = v > most ? v : most;
    }
    return most;
}

static void dump(const lk_ddl *d, const struct report *all, int slowest, double median)
{
    char text[400], predicted[48] = "";
    int size = d->place.size, n = 0;
    if (d->measured)
        snprintf(predicted, sizeof predicted, " (predicted %.3f ms)", 1e3 * d->times.predicted);
    lk__ddl_log(d, LK_LOG_INFO,
                "ddl: calls to %lld: slowest is rank %d on %s, %.3f ms between calls, median %.3f "
                "ms; end to end %.3f ms%s",
                (long long)d->times.calls, slowest, d->topology->location[slowest].host,
                1e3 * all[slowest].outside, 1e3 * median,
                1e3 * longest(all, size, offsetof(struct report, inside)), predicted);
    for (int t = 0; t < d->tiers.n && n < (int)sizeof text; t++)
        n += snprintf(
            text + n, sizeof text - (size_t)n, "%s%s %d %s %.3f ms", t ? "; " : "",
            d->topology->tier[t].name, d->tiers.size[t], d->times.tier[t].algorithm,
            1e3 * longest(all, size, offsetof(struct report, tier) + (size_t)t * sizeof(double)));
    lk__ddl_log(d, LK_LOG_INFO, "ddl: tiers: %s", text);
}

static void rebind(lk_ddl *d, const struct report *all, int slowest, double median)
{
    bool is_slow = d->place.size > 1 && all[slowest].outside > slow * median;
    d->n_slow = !is_slow ? 0 : slowest == d->slow_rank ? d->n_slow + 1 : 1;
    d->slow_rank = is_slow ? slowest : -1;
    if (d->n_slow < REBIND_CHECKS)
        return;
    d->n_slow = 0;
    if (slowest != d->place.rank)
        return;
    bool done = sched_setaffinity(0, sizeof d->cores, &d->cores) == 0;
    d->n_rebound += done;
    lk_log_write(LK_LOG_WARN, "ddl: rank %d was the slowest %d times running: %s cores %s", slowest,
                 REBIND_CHECKS, done ? "bound to" : "cannot be bound to", d->place.cores);
}

static bool due(int64_t every, int64_t calls)
{
    return every > 0 && calls % every == 0;
}

lk_status lk__ddl_watch(lk_ddl *d)
{
    bool dumps = due(d->options.dump_iter, d->times.calls);
    bool rebinds = due(d->options.rebind_iter, d->times.calls);
    d->n_watched++;
    if (!dumps && !rebinds)
        return LK_OK;
    lk_status st;
    int size = d->place.size;
    double scale = 1.0 / (double)d->n_watched, *sorted = NULL, median;
    struct report mine = {d->inside * scale, d->outside * scale, {0}}, *all = NULL;
    for (int t = 0; t < d->tiers.n; t++)
        mine.tier[t] = d->tier[t] * scale;
    LK_TRY_COMM(d->comm->w, lk_alloc(&all, size, sizeof *all));
    st = lk_alloc(&sorted, size, sizeof *sorted);
    if (st != LK_OK) {
        st = lk__fault_raise(d->comm->w);
        goto done;
    }
    lk__call call = {
        .call = LK_CALL_SHARE, .name = "times", .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    LK_TRY_TO(done, lk__exchange(d->comm, &call, &mine, sizeof mine, all));
    int slowest = slowest_of(all, size, sorted, &median);
    if (dumps && d->place.rank == 0)
        dump(d, all, slowest, median);
    if (rebinds)
        rebind(d, all, slowest, median);
    d->inside = d->outside = 0;
    memset(d->tier, 0, sizeof d->tier);
    d->n_watched = 0;
done:
    lk_free(sorted);
    lk_free(all);
    return st;
}
