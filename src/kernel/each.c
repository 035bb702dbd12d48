/* Runs of elements.
 *
 * Inputs that are contiguous and have the output's shape are read where they are.  Others are first
 * gathered into a buffer that stays in cache, by axes of which there are as few as possible: those of
 * size 1 are left out, and neighbours that are one axis for all inputs are one.
 */
#include "kernel/each.h"

#include "kernel/gather.h"
#include "kernel/parallel.h"

#include <string.h>

enum { RUN = LK_EACH_RUN, GRAIN = 8192 / RUN }; /* elements, runs */

/* Room for a run of any type. */
typedef union run_room {
    _Alignas(64) float f32[RUN];
    double f64[RUN];
    int64_t i64[RUN];
} run_room;

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

/* Add the results to y, by way of a buffer. */
static void add(lk__loop_fn *const *loops, lk__loop loop, const lk__operands *o)
{
    run_room room;
    lk__operands f = *o;
    f.y = &room;
    loops[loop](&f);
    loops[LK__LOOP_ADD](&(lk__operands){.n = o->n, .x = {o->y, &room}, .y = o->y});
}

static void one(lk__loop_fn *const *loops, lk__loop loop, lk__each_store store, lk__operands *o)
{
    o->first = store == LK_EACH_FIRST;
    if (store == LK_EACH_ADD)
        add(loops, loop, o);
    else
        loops[loop](o);
}

lk_status lk__each_one(lk_dtype dtype, lk__loop loop, lk__each_store store, const lk__operands *o)
{
    const lk__loops_table *t = NULL;
    LK_TRY(lk__loops_get(&t));
    lk__operands all = *o;
    one(t->of[dtype], loop, store, &all);
    return LK_OK;
}

/* Elements [first, first + n), or as many of them as there are. */
static void run(const lk__each_job *j, int64_t first, int64_t n)
{
    run_room room[LK_LOOP_MAX_IN];
    int64_t at = first * (int64_t)lk_dtype_size(j->dtype);
    lk__operands o = {.n = j->n - first < n ? j->n - first : n,
                      .y = (char *)j->y + at,
                      .z = j->z ? (char *)j->z + at : NULL};
    memcpy(o.p, j->p, sizeof o.p);
    for (int i = 0; i < j->n_in; i++) {
        o.x[i] = &room[i];
        if (j->in[i].direct)
            o.x[i] = j->in[i].start + first * (int64_t)j->in[i].size;
        else
            gather(j, i, first, o.n, (char *)&room[i]);
    }
    one(j->loops, j->loop, j->store, &o);
}

/* Whether something goes by way of a buffer. */
static bool needs_runs(const lk__each_job *j)
{
    bool needs = j->store == LK_EACH_ADD;
    for (int i = 0; i < j->n_in; i++)
        needs = needs || !j->in[i].direct;
    return needs;
}

static void run_all(void *arg, int64_t first, int64_t last)
{
    const lk__each_job *j = arg;
    const int64_t n = needs_runs(j) ? RUN : (last - first) * RUN;
    for (int64_t at = first * RUN; at < last * RUN; at += n)
        run(j, at, n);
}

lk_status lk__each_job_run(lk__each_job *j)
{
    const lk__loops_table *t = NULL;
    LK_TRY(lk__loops_get(&t));
    j->loops = t->of[j->dtype];
    merge_axes(j);
    LK_TRY(lk__parallel((j->n + RUN - 1) / RUN, GRAIN, run_all, j));
    return LK_OK;
}
