/* logistic_cross_entropy: -(t log s + (1 - t) log(1 - s)), s = sigmoid(y); the mean over the elements of a sample. */
#include "nn/losses.h"

#include <lockstep/op.h>

static lk_status logistic_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    return LK_TRACE(lk__loss_same("logistic_cross_entropy", out, target));
}

static lk_status logistic_apply(const void *options, lk_var y, lk_var target, lk_var *out)
{
    (void)options;
    return LK_TRACE(lk_logistic_cross_entropy(y, target, LK_LOSS_SUM, out));
}

const lk_loss lk__loss_logistic_cross_entropy = {
    .descriptor = {.name = "logistic_cross_entropy",
                   .summary = "-(t log s + (1 - t) log(1 - s)), s = sigmoid(y); the mean over the "
                              "elements of a sample"},
    .probabilities = true,
    .check = logistic_check,
    .parts = lk__loss_elements,
    .apply = logistic_apply};
