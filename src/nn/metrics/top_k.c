/* top_k: share of rows in which fewer than k numbers are larger than the label's, or equal with a
 * lower index. */
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

static lk_status top_add(const void *opt, const lk_tensor *y, const lk_tensor *target,
                         double *number)
{
    const top_options *o = opt;
    lk__scores r = lk__scores_of(y, target);
    for (int64_t i = 0; i < r.n; i++) {
        int64_t label, before = 0;
        LK_TRY(lk__scores_label(&r, i, &label));
        double of_label = lk__scores_at(&r, i, label);
        for (int64_t k = 0; k < r.classes; k++) {
            double v = lk__scores_at(&r, i, k);
            before += !(v < of_label) && (k < label || !(v <= of_label));
        }
        number[0] += before < o->k;
    }
    number[1] += (double)r.n;
    return LK_OK;
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
    .value = lk__hits_value};
