/* softmax_cross_entropy: -log softmax(y)[label], y [..., classes], for labels [...], or
 * -sum of target * log softmax(y) for probabilities; the mean over the positions of a sample.
 *
 * With weights w, w[label] times that, or -sum of w * target * log softmax(y).  The mean stays one over
 * positions, whose number every rank knows: to divide by the sum of their weights, ranks would have to count
 * labels before any of them could go backward.
 */
#include "nn/losses.h"

#include <lockstep/op.h>

typedef struct cross_options {
    lk_option_long_reals weights;
} cross_options;

static const lk_option options[] = {
    {"weights", LK_OPTION_REALS, offsetof(cross_options, weights), .value = "W,W,...", .max = 1e9,
     .flags = LK_OPTION_LATER | LK_OPTION_LONG,
     .help = "one for each class: what the loss of a position (or sample) of that class is "
             "multiplied with, before the mean over positions; 1 by default"},
    {0}};

/* Options may be missing: no weights. */
static const lk_option_long_reals *weights_of(const void *given)
{
    static const lk_option_long_reals none = {0};
    const cross_options *o = given;
    return o ? &o->weights : &none;
}

static lk_status weights_check(const lk_option_long_reals *w, lk_shape out)
{
    int64_t classes = out.dim[out.ndim - 1];
    double most = 0;
    for (int i = 0; i < w->n; i++)
        most = w->item[i] > most ? w->item[i] : most;
    LK_CHECK(w->n == 0 || w->n == classes, LK_EINVAL,
             "softmax_cross_entropy: %d weights, but the model gives %lld classes: one for each",
             w->n, (long long)classes);
    LK_CHECK(w->n == 0 || most > 0, LK_EINVAL,
             "softmax_cross_entropy: all weights are 0, nothing would be learned");
    return LK_OK;
}

static lk_status labels_check(lk_tensor_type out, lk_tensor_type target)
{
    lk_shape rows = out.shape;
    rows.ndim--;
    LK_CHECK(target.dtype == LK_I64 || target.dtype == LK_I32, LK_EDTYPE,
             "softmax_cross_entropy: labels of %s, must be i64 or i32",
             lk_dtype_name(target.dtype));
    LK_CHECK(lk_shape_is_equal(rows, target.shape), LK_ESHAPE,
             "softmax_cross_entropy: the model gives %s for a sample, whose labels are %s; it must "
             "give the axes of the labels and then the classes%s",
             lk_shape_text(out.shape).s, lk_shape_text(target.shape).s,
             rows.ndim > target.shape.ndim ? " (a flatten layer makes one axis of all)" : "");
    return LK_OK;
}

static lk_status cross_check(const void *given, lk_tensor_type out, lk_tensor_type target)
{
    LK_CHECK(out.shape.ndim >= 1, LK_ESHAPE, "softmax_cross_entropy: the model gives no classes");
    if (!lk_dtype_is_real(target.dtype)) {
        LK_TRY(labels_check(out, target));
    } else {
        LK_CHECK(lk_shape_is_equal(out.shape, target.shape), LK_ESHAPE,
                 "softmax_cross_entropy: the targets are real numbers, %s%s, but the model gives "
                 "%s for a sample: real targets are a probability for each class; labels are "
                 "integers",
                 lk_dtype_name(target.dtype), lk_shape_text(target.shape).s,
                 lk_shape_text(out.shape).s);
        LK_TRY(lk__loss_same("softmax_cross_entropy", out, target));
    }
    return LK_TRACE(weights_check(weights_of(given), out.shape));
}

/* Positions: all axes but that of the classes. */
static int64_t cross_parts(lk_tensor_type out)
{
    out.shape.ndim--;
    return lk__loss_elements(out);
}

/* The weights as a constant of the tape, of y's dtype. */
static lk_status weights_enter(const lk_option_long_reals *w, lk_var y, lk_var *out)
{
    LK_TRY(lk_constant_data(y.tape, LK_F64, LK_SHAPE(w->n), w->item, out));
    return LK_TRACE(lk_cast(*out, lk_dtype_of(y), out));
}

/* *out = the weight of each label, of the labels' shape. */
static lk_status weights_at(lk_var weights, lk_var label, lk_var *out)
{
    lk_shape rows = lk_shape_of(label);
    int64_t n;
    LK_TRY(lk_shape_count(rows, &n));
    LK_TRY(lk_reshape(label, LK_SHAPE(n), &label));
    LK_TRY(lk_gather_index(weights, 0, label, out));
    return LK_TRACE(lk_reshape(*out, rows, out));
}

static lk_status cross_apply(const void *given, lk_var y, lk_var target, lk_var *out)
{
    const lk_option_long_reals *w = weights_of(given);
    lk_var weights;
    if (w->n == 0) {
        return LK_TRACE(lk_softmax_cross_entropy(y, target, LK_LOSS_SUM, out));
    }
    LK_TRY(weights_enter(w, y, &weights));
    if (lk_dtype_is_real(lk_dtype_of(target))) {
        LK_TRY(lk_mul(target, weights, &target));
        return LK_TRACE(lk_softmax_cross_entropy(y, target, LK_LOSS_SUM, out));
    }
    LK_TRY(lk_softmax_cross_entropy(y, target, LK_LOSS_NONE, out));
    LK_TRY(weights_at(weights, target, &weights));
    LK_TRY(lk_mul(*out, weights, out));
    return LK_TRACE(lk_sum(*out, NULL, out));
}

/* Of classes of which ranks have some each, with labels. */
static lk_status cross_split(const void *given, const lk_feature_split *split, int64_t classes,
                             lk_var y, lk_var label, lk_var *out)
{
    const lk_option_long_reals *w = weights_of(given);
    lk_loss_reduction reduction = w->n == 0 ? LK_LOSS_SUM : LK_LOSS_NONE;
    lk_var weights;
    LK_TRY(lk_dist_feature_cross_entropy(split, classes, y, label, reduction, "loss", out));
    if (w->n == 0)
        return LK_OK;
    LK_TRY(weights_enter(w, *out, &weights));
    LK_TRY(weights_at(weights, label, &weights));
    LK_TRY(lk_mul(*out, weights, out));
    return LK_TRACE(lk_sum(*out, NULL, out));
}

const lk_loss lk__loss_softmax_cross_entropy = {
    .descriptor = {.name = "softmax_cross_entropy",
                   .summary = "-log softmax(y)[label], for labels or probabilities",
                   .details = "With weights the mean is still over positions, not over their "
                              "weights, so that it does not depend on who has which of them.",
                   .options = options,
                   .options_size = sizeof(cross_options)},
    .probabilities = true,
    .check = cross_check,
    .parts = cross_parts,
    .apply = cross_apply,
    .apply_split = cross_split};
