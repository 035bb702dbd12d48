/* dice: 2 |A and B| / (|A| + |B|) of the positions A that a model gives a class and B that have it, the mean
 * over classes that occur (src/nn/overlaps.c). */
#include "nn/metrics.h"

static lk_status dice_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    return LK_TRACE(lk__overlap_check("dice", options, out, target));
}

static double dice_of(double both, double answered, double labelled)
{
    return 2 * both / (answered + labelled);
}

static double dice_value(const void *options, lk_tensor_type out, const double *number)
{
    return lk__overlap_mean(options, out, number, dice_of);
}

const lk_metric lk__metric_dice = {
    .descriptor =
        {.name = "dice",
         .summary = "Dice coefficient: 2 |A and B| / (|A| + |B|), the mean over classes",
         .details = "Positions (or rows) of each class are counted over all samples, then divided. "
                    "A class that is among neither labels nor answers is left out of the mean.",
         .options = lk__overlap_options,
         .options_size = sizeof(lk__overlap)},
    .lower_is_better = false,
    .of_classes = true,
    .check = dice_check,
    .numbers = lk__overlap_numbers,
    .add = lk__overlap_add,
    .value = dice_value};
