/* accuracy: share of rows whose largest number is that of the label. */
#include "nn/metrics.h"

static lk_status accuracy_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    return LK_TRACE(lk__scores_check("accuracy", out, target));
}

static void accuracy_add_places(const void *options, int64_t rows, const int64_t *place,
                                double *number)
{
    (void)options;
    number[0] += (double)lk__places_below(1, rows, place);
    number[1] += (double)rows;
}

static lk_status accuracy_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                              double *number)
{
    return LK_TRACE(lk__places_add(accuracy_add_places, options, y, target, number));
}

const lk_metric lk__metric_accuracy = {
    .descriptor = {.name = "accuracy",
                   .summary = "share of rows whose largest number is that of the label"},
    .lower_is_better = false,
    .of_classes = true,
    .check = accuracy_check,
    .numbers = lk__hits_numbers,
    .add = accuracy_add,
    .add_places = accuracy_add_places,
    .value = lk__hits_value};
