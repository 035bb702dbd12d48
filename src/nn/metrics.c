/* The registry of metrics, and what they share: rows of classes, and counts of hits. */
#include "nn/metrics.h"

#include "ops/common/places.h"

#include <math.h>

lk_status lk__scores_check(const char *metric, lk_tensor_type out, lk_tensor_type target)
{
    lk_shape rows = out.shape;
    LK_CHECK(out.shape.ndim >= 1 && out.shape.dim[out.shape.ndim - 1] >= 2, LK_ESHAPE,
             "%s: the model gives %s for a sample, no classes to choose from", metric,
             lk_shape_text(out.shape).s);
    rows.ndim--;
    bool labels = target.dtype == LK_I64 || target.dtype == LK_I32;
    LK_CHECK(
        lk_shape_is_equal(labels ? rows : out.shape, target.shape), LK_ESHAPE,
        "%s: the model gives %s for a sample, its targets are %s%s; it is for classes, as labels "
        "or as vectors",
        metric, lk_shape_text(out.shape).s, lk_dtype_name(target.dtype),
        lk_shape_text(target.shape).s);
    return LK_OK;
}

lk__scores lk__scores_of(const lk_tensor *y, const lk_tensor *target)
{
    lk_shape shape = lk_tensor_shape(y);
    int64_t classes = shape.dim[shape.ndim - 1];
    return (lk__scores){.n = classes > 0 ? lk_tensor_count(y) / classes : 0,
                        .classes = classes,
                        .dtype = lk_tensor_dtype(y),
                        .y = lk_tensor_data(y),
                        .label = target};
}

static double number_at(lk_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case LK_F32: return (double)((const float *)data)[i];
    case LK_F64: return ((const double *)data)[i];
    case LK_I32: return ((const int32_t *)data)[i];
    default: return (double)((const int64_t *)data)[i];
    }
}

double lk__scores_at(const lk__scores *r, int64_t i, int64_t k)
{
    return number_at(r->dtype, r->y, i * r->classes + k);
}

/* The first of the largest of `n` numbers from `first` on. */
static int64_t largest(lk_dtype dtype, const void *data, int64_t first, int64_t n)
{
    int64_t best = 0;
    double most = number_at(dtype, data, first);
    for (int64_t k = 1; k < n && !isnan(most); k++) {
        double v = number_at(dtype, data, first + k);
        if (v > most || isnan(v)) {
            best = k;
            most = v;
        }
    }
    return best;
}

int64_t lk__scores_best(const lk__scores *r, int64_t i)
{
    return largest(r->dtype, r->y, i * r->classes, r->classes);
}

lk_status lk__scores_label(const lk__scores *r, int64_t i, int64_t *out)
{
    lk_dtype dtype = lk_tensor_dtype(r->label);
    if (lk_dtype_is_real(dtype)) {
        *out = largest(dtype, lk_tensor_data(r->label), i * r->classes, r->classes);
        return LK_OK;
    }
    *out = (int64_t)number_at(dtype, lk_tensor_data(r->label), i);
    LK_CHECK(*out >= 0 && *out < r->classes, LK_EINVAL,
             "label %lld of sample position %lld is not in [0, %lld)", (long long)*out,
             (long long)i, (long long)r->classes);
    return LK_OK;
}

int64_t lk__hits_numbers(const void *options, lk_tensor_type out)
{
    (void)options;
    (void)out;
    return 2;
}

/* How many classes come before the label of row `i`. */
static int64_t place_of(const lk__scores *r, int64_t i, int64_t label)
{
    double of = lk__scores_at(r, i, label);
    int64_t place = 0;
    for (int64_t k = 0; k < r->classes; k++)
        place += lk__comes_before(lk__scores_at(r, i, k), k, of, label);
    return place;
}

lk_status lk__places_add(lk__places_fn *add, const void *options, const lk_tensor *y,
                         const lk_tensor *target, double *number)
{
    lk__scores r = lk__scores_of(y, target);
    int64_t label;
    for (int64_t i = 0; i < r.n; i++) {
        LK_TRY(lk__scores_label(&r, i, &label));
        int64_t place = place_of(&r, i, label);
        add(options, 1, &place, number);
    }
    return LK_OK;
}

int64_t lk__places_below(int64_t k, int64_t rows, const int64_t *place)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++)
        n += place[i] < k;
    return n;
}

double lk__hits_value(const void *options, lk_tensor_type out, const double *number)
{
    (void)options;
    (void)out;
    return number[0] / number[1];
}

static const lk_descriptor *metric_at(int i)
{
    return lk_metrics[i] ? &lk_metrics[i]->descriptor : NULL;
}

const lk_registry lk_registry_metric = {.name = "metric",
                                        .plural = "metrics",
                                        .summary = "numbers that tell how good a model is",
                                        .at = metric_at};
