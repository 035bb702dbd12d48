/* accuracy: share of rows whose largest number is that of the label. */
#include "nn/metrics.h"

static lk_status accuracy_check(const void *options, lk_io out, lk_io target)
{
    (void)options;
    LK_TRY(lk__scores_check("accuracy", out, target));
    return LK_OK;
}

static lk_status accuracy_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                              double *number)
{
    lk__scores r = lk__scores_of(y, target);
    int64_t label;
    (void)options;
    for (int64_t i = 0; i < r.n; i++) {
        LK_TRY(lk__scores_label(&r, i, &label));
        number[0] += lk__scores_best(&r, i) == label;
    }
    number[1] += (double)r.n;
    return LK_OK;
}

const lk_metric lk_metric_accuracy = {
    .entry = {.name = "accuracy",
              .summary = "share of rows whose largest number is that of the label"},
    .lower_is_better = false,
    .check = accuracy_check,
    .numbers = lk__hits_numbers,
    .add = accuracy_add,
    .value = lk__hits_value};
