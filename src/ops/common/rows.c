/* Rows on the pool's threads, and their sums. */
#include "ops/common/rows.h"

#include "base/fpenv.h"
#include "kernel/parallel.h"

#include <math.h>
#include <string.h>

/* Elements that one thread takes at a time, in whole rows. */
enum { GRAIN = 8192 };

typedef struct rows_job {
    const lk__rows *s;
    lk__row_fn *fn;
    lk__row row; /* what all rows share */
} rows_job;

static void rows_task(void *arg, int64_t first, int64_t last)
{
    const rows_job *j = arg;
    const lk__rows *s = j->s;
    int64_t bytes = s->n * (int64_t)lk_dtype_size(s->dtype);
    for (int64_t i = first; i < last; i++) {
        lk__row r = j->row;
        r.index = i;
        r.y = (char *)s->y + i * bytes;
        r.z = s->z ? (char *)s->z + i * bytes : NULL;
        int k = 0;
        for (; k < LK_ROW_MAX_IN && s->x[k]; k++)
            r.x[k] = (const char *)s->x[k] + (s->shared[k] ? 0 : i * bytes);
        for (; k < LK_ROW_MAX_IN; k++)
            r.x[k] = r.x[0];
        j->fn(&r);
        if (s->overwrite)
            r.loops[LK__LOOP_SHIFT](&(lk__operands){.n = s->n, .x = {r.y}, .y = r.y});
    }
}

lk_status lk__rows_run(const lk__rows *s, lk__row_fn *fn)
{
    const lk__reduce_table *sums = NULL;
    const lk__loops_table *loops = NULL;
    rows_job j = {.s = s, .fn = fn, .row = {.dtype = s->dtype, .n = s->n, .attr = s->attr}};
    LK_TRY(lk__fp_check());
    LK_TRY(lk__reduce_get(&sums));
    LK_TRY(lk__loops_get(&loops));
    LK_TRY(lk__softmax_get(&j.row.softmax));
    memcpy(j.row.p, s->p, sizeof j.row.p);
    j.row.sums = &sums->of[s->dtype];
    j.row.loops = loops->of[s->dtype];
    LK_TRY(lk__parallel(s->rows, GRAIN / (s->n + 1) + 1, rows_task, &j));
    return LK_OK;
}

void lk__row_loop(const lk__row *r, lk__loop loop)
{
    lk__operands o = {.n = r->n, .y = r->y};
    memcpy(o.x, r->x, sizeof o.x);
    memcpy(o.p, r->p, sizeof o.p);
    r->loops[loop](&o);
}

double lk__row_sum(const lk__row *r, const void *x)
{
    union {
        float f32;
        double f64;
    } sum;
    r->sums->rows[LK_REDUCE_AXIS_SUM](1, r->n, x, &sum);
    return r->dtype == LK_F32 ? (double)sum.f32 : sum.f64;
}

double lk__row_over_n(const lk__row *r, double a)
{
    return r->dtype == LK_F32 ? (double)((float)a / (float)r->n) : a / (double)r->n;
}

double lk__row_rsqrt(const lk__row *r, double a, double eps)
{
    if (r->dtype == LK_F32)
        return (double)(1 / sqrtf((float)a + (float)eps));
    return 1 / sqrt(a + eps);
}

double lk__row_at(const lk__row *r, const void *x, int64_t i)
{
    return r->dtype == LK_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

void lk__row_set(const lk__row *r, void *x, int64_t i, double value)
{
    if (r->dtype == LK_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}
