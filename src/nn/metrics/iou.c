/* iou: intersection over union, |A and B| / |A or B| of the positions A that a model gives a class and B
 * that have it, the mean over classes that occur (src/nn/overlaps.c). */
#include "nn/metrics.h"

static lk_status iou_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    return LK_TRACE(lk__overlap_check("iou", options, out, target));
}

static double iou_of(double both, double answered, double labelled)
{
    return both / (answered + labelled - both);
}

static double iou_value(const void *options, lk_tensor_type out, const double *number)
{
    return lk__overlap_mean(options, out, number, iou_of);
}

const lk_metric lk__metric_iou = {
    .descriptor =
        {.name = "iou",
         .summary = "intersection over union: |A and B| / |A or B|, the mean over classes",
         .details = "Positions (or rows) of each class are counted over all samples, then divided. "
                    "A class that is among neither labels nor answers is left out of the mean.",
         .options = lk__overlap_options,
         .options_size = sizeof(lk__overlap)},
    .lower_is_better = false,
    .of_classes = true,
    .check = iou_check,
    .numbers = lk__overlap_numbers,
    .add = lk__overlap_add,
    .value = iou_value};
