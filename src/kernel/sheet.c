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

void lk__sheet_take(lk__sheet *t, int k, const void *from)
{
    const int64_t elem = (int64_t)lk_dtype_size(t->dtype);
    memcpy((char *)&t->p[k] + t->first * elem, (const char *)from + (t->row + t->first) * elem,
           (size_t)((t->last - t->first) * elem));
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
