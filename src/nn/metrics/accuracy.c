/* accuracy: share of rows whose largest number is that of the label. */
#include "nn/metrics.h"

static lk_status accuracy_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    LK_TRY(lk__scores_check("accuracy", out, target));
    return LK_OK;
}

static lk_status accuracy_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                              double *number)
{
    int64_t hits, rows;
    (void)options;
    LK_TRY(lk__hits_count(y, target, &hits, &rows));
    number[0] += (double)hits;
    number[1] += (double)rows;
    return LK_OK;
}

const lk_metric lk__metric_accuracy = {
    .descriptor = {.name = "accuracy",
                   .summary = "share of rows whose largest number is that of the label"},
    .lower_is_better = false,
    .of_classes = true,
    .check = accuracy_check,
    .numbers = lk__hits_numbers,
    .add = accuracy_add,
    .value = lk__hits_value};
