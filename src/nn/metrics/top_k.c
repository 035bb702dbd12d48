/* top_k: share of rows in which fewer than k numbers are larger than the label's, or equal with a
 * lower index; a NaN is the largest. */
#include "nn/metrics.h"

typedef struct top_options {
    int64_t k;
} top_options;

static const lk_option options[] = {{"k", LK_OPTION_INT, offsetof(top_options, k), .value = "N",
                                     .def = "5", .min = 1, .max = 1e9,
                                     .help = "places that count as a hit"},
                                    {0}};

static lk_status top_check(const void *opt, lk_tensor_type out, lk_tensor_type target)
{
    const top_options *o = opt;
    LK_TRY(lk__scores_check("top_k", out, target));
    int64_t classes = out.shape.dim[out.shape.ndim - 1];
    LK_CHECK(o->k <= classes, LK_EINVAL, "top_k: k is %lld, but the model gives %lld classes",
             (long long)o->k, (long long)classes);
    return LK_OK;
}

static void top_add_places(const void *opt, int64_t rows, const int64_t *place, double *number)
{
    const top_options *o = opt;
    number[0] += (double)lk__places_below(o->k, rows, place);
    number[1] += (double)rows;
}

static lk_status top_add(const void *opt, const lk_tensor *y, const lk_tensor *target,
                         double *number)
{
    return LK_TRACE(lk__places_add(top_add_places, opt, y, target, number));
}

const lk_metric lk__metric_top_k = {
    .descriptor = {.name = "top_k",
                   .summary = "share of rows whose label is among the k largest",
                   .options = options,
                   .options_size = sizeof(top_options)},
    .of_classes = true,
    .check = top_check,
    .numbers = lk__hits_numbers,
    .add = top_add,
    .add_places = top_add_places,
    .value = lk__hits_value};
