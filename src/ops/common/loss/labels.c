/* Labels of the rows of a sheet. */
#include "ops/common/loss/labels.h"

#include "ops/common/index.h"

/* The label of row r among its classes; -1: it is elsewhere. */
static int64_t label_of(const lk__sheet *t, const lk__labels *l, int64_t r)
{
    int64_t k = lk__index_at(l->label, t->row + r) - l->own.first;
    return k >= 0 && k < l->own.n ? k : -1;
}

static double at(lk_dtype dtype, const void *x, int64_t i)
{
    return dtype == LK_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void set(lk_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == LK_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* A number that was computed in f64 from numbers of the dtype, rounded as if it were in that. */
static double rounded(lk_dtype dtype, double value)
{
    return dtype == LK_F32 ? (double)(float)value : value;
}

void lk__labels_less(lk__sheet *t, const lk__labels *l, int k, int to)
{
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        double x = i < 0 ? 0 : at(t->dtype, t->x[0], r * t->step[0] + i) - lk__sheet_get(t, k, r);
        lk__sheet_set(t, to, r, x);
    }
}

void lk__labels_gradient(lk__sheet *t, const lk__labels *l)
{
    double y[LK_SHEET_ROWS]; /* of labels */
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        y[r] = i < 0 ? 0 : at(t->dtype, t->y, r * t->step_y + i);
    }
    lk__sheet_map_y(t, LK__TERM_SHARE);
    for (int64_t r = t->first; r < t->last; r++) {
        int64_t i = label_of(t, l, r);
        double p = rounded(t->dtype, y[r] / lk__sheet_get(t, 0, r));
        double dx = rounded(t->dtype, rounded(t->dtype, p - 1) * lk__sheet_get(t, 1, r));
        if (i >= 0)
            set(t->dtype, t->y, r * t->step_y + i, t->overwrite ? 0 + dx : dx);
    }
}
