/* mean_squared_error: (y - t)^2; the mean over the elements of a sample. */
#include "nn/losses.h"

#include <lockstep/op.h>

static lk_status squared_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    return LK_TRACE(lk__loss_same("mean_squared_error", out, target));
}

static lk_status squared_apply(const void *options, lk_var y, lk_var target, lk_var *out)
{
    (void)options;
    return LK_TRACE(lk_mean_squared_error(y, target, LK_LOSS_SUM, out));
}

const lk_loss lk__loss_mean_squared_error = {
    .descriptor = {.name = "mean_squared_error",
                   .summary = "(y - t)^2; the mean over the elements of a sample"},
    .check = squared_check,
    .parts = lk__loss_elements,
    .apply = squared_apply};
