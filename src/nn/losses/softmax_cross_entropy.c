/* softmax_cross_entropy: -log softmax(y)[label], y [..., classes], for labels [...], or
 * -sum of target * log softmax(y) for probabilities; the mean over the positions of a sample. */
#include "nn/losses.h"

#include <lockstep/op.h>

static lk_status cross_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    lk_shape rows = out.shape;
    (void)options;
    LK_CHECK(out.shape.ndim >= 1, LK_ESHAPE, "softmax_cross_entropy: the model gives no classes");
    rows.ndim--;
    if (!lk_dtype_is_real(target.dtype)) {
        LK_CHECK(target.dtype == LK_I64 || target.dtype == LK_I32, LK_EDTYPE,
                 "softmax_cross_entropy: labels of %s, must be i64 or i32",
                 lk_dtype_name(target.dtype));
        LK_CHECK(
            lk_shape_is_equal(rows, target.shape), LK_ESHAPE,
            "softmax_cross_entropy: the model gives %s for a sample, whose labels are %s; it must "
            "give the axes of the labels and then the classes%s",
            lk_shape_text(out.shape).s, lk_shape_text(target.shape).s,
            rows.ndim > target.shape.ndim ? " (a flatten layer makes one axis of all)" : "");
        return LK_OK;
    }
    LK_CHECK(
        lk_shape_is_equal(out.shape, target.shape), LK_ESHAPE,
        "softmax_cross_entropy: the targets are real numbers, %s%s, but the model gives %s for a "
        "sample: real targets are a probability for each class; labels are integers",
        lk_dtype_name(target.dtype), lk_shape_text(target.shape).s, lk_shape_text(out.shape).s);
    LK_TRY(lk__loss_same("softmax_cross_entropy", out, target));
    return LK_OK;
}

/* Positions: all axes but that of the classes. */
static int64_t cross_parts(lk_tensor_type out)
{
    out.shape.ndim--;
    return lk__loss_elements(out);
}

static lk_status cross_apply(const void *options, lk_var y, lk_var target, lk_var *out)
{
    (void)options;
    LK_TRY(lk_softmax_cross_entropy(y, target, LK_LOSS_SUM, out));
    return LK_OK;
}

const lk_loss lk__loss_softmax_cross_entropy = {
    .descriptor = {.name = "softmax_cross_entropy",
                   .summary = "-log softmax(y)[label], for labels or probabilities"},
    .probabilities = true,
    .check = cross_check,
    .parts = cross_parts,
    .apply = cross_apply};
