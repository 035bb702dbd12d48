/* misclassification: share of rows whose largest number is not that of the label. */
#include "nn/metrics.h"

static lk_status missed_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    return LK_TRACE(lk__scores_check("misclassification", out, target));
}

static void missed_add_places(const void *options, int64_t rows, const int64_t *place,
                              double *number)
{
    (void)options;
    number[0] += (double)(rows - lk__places_below(1, rows, place));
    number[1] += (double)rows;
}

static lk_status missed_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                            double *number)
{
    return LK_TRACE(lk__places_add(missed_add_places, options, y, target, number));
}

const lk_metric lk__metric_misclassification = {
    .descriptor = {.name = "misclassification",
                   .summary = "share of rows whose largest number is not that of the label"},
    .lower_is_better = true,
    .of_classes = true,
    .check = missed_check,
    .numbers = lk__hits_numbers,
    .add = missed_add,
    .add_places = missed_add_places,
    .value = lk__hits_value};
