/* Sums and maps of a sheet, and of a row alone. */
#include "base/fpenv.h"
#include "kernel/sums.h"

#include <string.h>

void lk__sheet_sum(lk__sheet *t, lk__sum_along sum, int k)
{
    t->type->along[sum](t, &t->p[k], k + 1 < LK_SUMS_MAX_P ? &t->p[k + 1] : NULL);
}

void lk__sheet_mean(lk__sheet *t, int k)
{
    t->type->mean(t, 0, &t->p[k]);
}

void lk__sheet_inverse(lk__sheet *t, int k, double eps)
{
    t->type->inverse(t, eps, &t->p[k]);
}

void lk__sheet_map(lk__sheet *t, lk__sum_term term)
{
    t->type->map[term](t);
}

/* Have `x` as the first input; what it was before. */
static const void *first_set(lk__sheet *t, const void *x, int64_t *step)
{
    const void *before = t->x[0];
    const int64_t step_before = t->step[0];
    t->x[0] = x;
    t->step[0] = *step;
    *step = step_before;
    return before;
}

void lk__sheet_sum_y(lk__sheet *t, lk__sum_along sum, int k)
{
    int64_t step = t->step_y;
    const void *x = first_set(t, t->y, &step);
    lk__sheet_sum(t, sum, k);
    first_set(t, x, &step);
}

void lk__sheet_map_y(lk__sheet *t, lk__sum_term term)
{
    int64_t step = t->step_y;
    const void *x = first_set(t, t->y, &step);
    const bool past = t->past;
    t->past = false; /* what is read is in cache */
    lk__sheet_map(t, term);
    t->past = past;
    first_set(t, x, &step);
}

/* Row r of input k, and of the output. */
static const void *row_of(const lk__sheet *t, int k, int64_t r)
{
    return (const char *)t->x[k] + r * t->step[k] * (int64_t)lk_dtype_size(t->dtype);
}

static void *out_of(const lk__sheet *t, int64_t r)
{
    return (char *)t->y + r * t->step_y * (int64_t)lk_dtype_size(t->dtype);
}

/* Where p[k] of row r is. */
static void *number_of(lk__sheet *t, int k, int64_t r)
{
    return (char *)&t->p[k] + r * (int64_t)lk_dtype_size(t->dtype);
}

void lk__sheet_loop(lk__sheet *t, lk__loop loop)
{
    for (int64_t r = t->first; r < t->last; r++) {
        lk__operands o = {.n = t->n, .y = out_of(t, r)};
        for (int k = 0; k < LK_LOOP_MAX_IN; k++)
            o.x[k] = row_of(t, k, r);
        for (int k = 0; k < LK_LOOP_MAX_P; k++)
            o.p[k] = lk__sheet_get(t, k, r);
        t->loops[loop](&o);
    }
}

void lk__sheet_exps(lk__sheet *t, int k)
{
    for (int64_t r = t->first; r < t->last; r++)
        t->softmax->exps[t->dtype](t->n, row_of(t, 0, r), out_of(t, r), number_of(t, k, r));
}

void lk__sheet_log_sum(lk__sheet *t, int k)
{
    for (int64_t r = t->first; r < t->last; r++)
        t->softmax->log_sum[t->dtype](t->n, row_of(t, 0, r), number_of(t, k, r),
                                      number_of(t, k + 1, r));
}

void lk__sheet_start(lk__sheet *t, int k)
{
    for (int64_t r = t->first; r < t->last; r++)
        lk__sheet_set(t, k, r, t->overwrite ? 0.0 : -0.0);
}

void lk__sheet_take(lk__sheet *t, int k, const void *from)
{
    const size_t elem = lk_dtype_size(t->dtype);
    memcpy(number_of(t, k, t->first), (const char *)from + (size_t)(t->row + t->first) * elem,
           (size_t)(t->last - t->first) * elem);
}

void lk__sheet_keep(lk__sheet *t, int k, void *to)
{
    const size_t elem = lk_dtype_size(t->dtype);
    memcpy((char *)to + (size_t)(t->row + t->first) * elem, number_of(t, k, t->first),
           (size_t)(t->last - t->first) * elem);
}

double lk__sheet_get(const lk__sheet *t, int k, int64_t r)
{
    return t->dtype == LK_F32 ? (double)t->p[k].f32[r] : t->p[k].f64[r];
}

void lk__sheet_set(lk__sheet *t, int k, int64_t r, double value)
{
    if (t->dtype == LK_F32)
        t->p[k].f32[r] = (float)value;
    else
        t->p[k].f64[r] = value;
}

lk_status lk__vector_map(lk_dtype dtype, int64_t n, const void *const *x, int n_x,
                         const double pq[2], lk__sum_term term, void *y)
{
    const lk__map_sums_table *table = NULL;
    LK_TRY(lk__fp_check());
    LK_TRY(lk__map_sums_get(&table));
    lk__sheet t = {.dtype = dtype, .rows = 1, .n = n, .last = 1, .y = y, .type = &table->of[dtype]};
    for (int k = 0; k < LK_SUMS_MAX_IN; k++)
        t.x[k] = x[k < n_x ? k : 0];
    for (int k = 0; k < 2; k++)
        lk__sheet_set(&t, k, 0, pq[k]);
    lk__sheet_map(&t, term);
    return LK_OK;
}
