/* Runs of elements.
 *
 * Inputs that are contiguous and have the output's shape are read where they are.  Others are first
 * gathered into a buffer that stays in cache, by axes of which there are as few as possible: those of
 * size 1 are left out, and neighbours that are one axis for all inputs are one.
 */
#include "kernel/each.h"

#include "kernel/gather.h"
#include "kernel/maps.h"
#include "kernel/parallel.h"

#include <stdatomic.h>

enum { RUN = LK_EACH_RUN, GRAIN = 8192 / RUN }; /* elements, runs */

/* Whether axis `d` continues axis `a`, which is before it, in every input that is gathered. */
static bool continues(const lk__each_job *j, int a, int d)
{
    for (int i = 0; i < j->n_in; i++)
        if (!j->in[i].direct && j->in[i].stride[a] != j->in[i].stride[d] * j->dim[d])
            return false;
    return true;
}

/* Make the axes as few as possible, but at least one. */
static void merge_axes(lk__each_job *j)
{
    int last = -1;
    for (int d = 0; d < j->ndim; d++) {
        if (j->dim[d] == 1)
            continue;
        int64_t n = j->dim[d];
        if (last >= 0 && continues(j, last, d))
            n *= j->dim[last];
        else
            last++;
        j->dim[last] = n;
        for (int i = 0; i < j->n_in; i++)
            j->in[i].stride[last] = j->in[i].stride[d];
    }
    j->ndim = last + 1;
    if (j->ndim == 0) {
        j->ndim = 1;
        j->dim[0] = 1;
    }
}

/* Copy n elements of the output's row-major order from `first` on, as input `i` has them: the rest of
 * a row, or as many whole rows as follow each other along one axis. */
static void gather(const lk__each_job *j, int i, int64_t first, int64_t n, char *to)
{
    int64_t index[LK_MAX_NDIM], at = 0;
    const int64_t *stride = j->in[i].stride;
    const int last = j->ndim - 1;
    lk__gather g = {.size = j->in[i].size, .step = stride[last]};
    for (int d = last; d >= 0; d--) {
        index[d] = first % j->dim[d];
        first /= j->dim[d];
        at += index[d] * stride[d];
    }
    while (n > 0) {
        g.rows = 1;
        g.cols = j->dim[last] - index[last];
        if (g.cols > n) {
            g.cols = n;
        } else if (last > 0 && index[last] == 0) {
            int64_t left = j->dim[last - 1] - index[last - 1], whole = n / g.cols;
            g.rows = left < whole ? left : whole;
            g.row_step = stride[last - 1];
        }
        lk__gather_run(&g, j->in[i].start + at * (int64_t)g.size, to);
        to += g.rows * g.cols * (int64_t)g.size;
        n -= g.rows * g.cols;
        at -= index[last] * stride[last];
        index[last] = 0;
        int64_t step = g.rows;
        for (int d = last - 1; d >= 0; d--, step = 1) {
            index[d] += step;
            at += step * stride[d];
            if (index[d] < j->dim[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    }
}

lk_status lk__each_one(const lk__each *e, lk__each_fn *fn, lk__each_store store)
{
    if (store == LK_EACH_STORE)
        return fn(e);
    lk__each_room room;
    lk__each f = *e;
    f.y = &room;
    LK_TRY(fn(&f));
    f.p = 0;
    LK_TRY(store == LK_EACH_ADD ? lk__each_map2(&f, LK_MAP2_ADD, e->y, &room, e->y)
                                : lk__each_map1(&f, LK_MAP1_SHIFT, &room, e->y));
    return LK_OK;
}

static lk_status run(const lk__each_job *j, int64_t first)
{
    lk__each_room room[LK_EACH_MAX_IN];
    lk__each e = j->each;
    e.first = first;
    e.n = j->each.n - first < RUN ? j->each.n - first : RUN;
    e.y = (char *)e.y + first * (int64_t)lk_dtype_size(e.dtype);
    for (int i = 0; i < j->n_in; i++) {
        e.x[i] = &room[i];
        if (j->in[i].direct)
            e.x[i] = j->in[i].start + first * (int64_t)j->in[i].size;
        else
            gather(j, i, first, e.n, (char *)&room[i]);
    }
    for (int i = j->n_in; i < LK_EACH_MAX_IN; i++)
        e.x[i] = e.x[0];
    LK_TRY(lk__each_one(&e, j->fn, j->store));
    return LK_OK;
}

static void run_all(void *arg, int64_t first, int64_t last)
{
    lk__each_job *j = arg;
    for (int64_t r = first; r < last; r++) {
        lk_status st = run(j, r * RUN);
        if (st != LK_OK)
            j->failed = st;
    }
}

lk_status lk__each_job_run(lk__each_job *j)
{
    merge_axes(j);
    LK_TRY(lk__parallel((j->each.n + RUN - 1) / RUN, GRAIN, run_all, j));
    LK_CHECK(j->failed == LK_OK, (lk_status)j->failed, "a part of %lld elements failed",
             (long long)j->each.n);
    return LK_OK;
}

lk_status lk__each_map1(const lk__each *e, lk_map1_op op, const void *x, void *y)
{
    const lk__maps1_table *t = NULL;
    LK_TRY(lk__maps1_get(&t));
    t->map[e->dtype][op](e->n, e->p, x, y);
    return LK_OK;
}

lk_status lk__each_map2(const lk__each *e, lk_map2_op op, const void *x, const void *y, void *z)
{
    const lk__maps2_table *t = NULL;
    LK_TRY(lk__maps2_get(&t));
    t->map[e->dtype][op](e->n, e->p, x, y, z);
    return LK_OK;
}
