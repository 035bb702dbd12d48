/* auc: the area under the ROC curve of one class against the others: how likely a row of the class
 * has a larger number than a row of another, equal ones counting a half.
 *
 * Numbers are counted in 65536 bins, by the upper 16 bits of the f32 nearest to them, so two that
 * agree to 1 part in 256 count as equal.  With counts the area does not depend on the order of
 * samples, and can be added up by parts.
 */
#include "nn/metrics.h"

#include <string.h>

enum { BINS = 65536 };

typedef struct auc_options {
    int64_t class;
} auc_options;

static const lk_option options[] = {{"class", LK_OPTION_INT, offsetof(auc_options, class),
                                     .value = "N", .def = "1", .min = 0, .max = 1e9,
                                     .help = "the class that is told from the others; of a model "
                                             "with one output, labels that are not 0"},
                                    {0}};

static lk_status auc_check(const void *opt, lk_tensor_type out, lk_tensor_type target)
{
    const auc_options *o = opt;
    int64_t classes = out.shape.ndim ? out.shape.dim[out.shape.ndim - 1] : 0;
    if (classes != 1)
        LK_TRY(lk__scores_check("auc", out, target));
    LK_CHECK(classes == 1 || o->class < classes, LK_EINVAL, "auc: class %lld is not in [0, %lld)",
             (long long)o->class, (long long)classes);
    return LK_OK;
}

static int64_t auc_numbers(const void *opt, lk_tensor_type out)
{
    (void)opt;
    (void)out;
    return INT64_C(2) * BINS;
}

/* The bin of a number: larger numbers have larger bins; NaN counts as the smallest. */
static int64_t bin_of(double value)
{
    float f = (float)value;
    uint32_t bits;
    if (f != f)
        return 0;
    memcpy(&bits, &f, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return bits >> 16;
}

static lk_status auc_add(const void *opt, const lk_tensor *y, const lk_tensor *target,
                         double *number)
{
    const auc_options *o = opt;
    lk__scores r = lk__scores_of(y, target);
    for (int64_t i = 0; i < r.n; i++) {
        int64_t label = 0, class = r.classes == 1 ? 0 : o->class;
        bool is = false;
        if (r.classes == 1) {
            double t = 0;
            LK_TRY(lk_tensor_get_f64(
                target, lk_tensor_shape(target).ndim == 1 ? LK_AT(i) : LK_AT(i, 0), &t));
            is = t != 0;
        } else {
            LK_TRY(lk__scores_label(&r, i, &label));
            is = label == o->class;
        }
        number[(is ? BINS : 0) + bin_of(lk__scores_at(&r, i, class))] += 1;
    }
    return LK_OK;
}

static double auc_value(const void *opt, lk_tensor_type out, const double *number)
{
    double below = 0, area = 0, others = 0, own = 0;
    (void)opt;
    (void)out;
    for (int64_t b = 0; b < BINS; b++) {
        area += number[BINS + b] * (below + 0.5 * number[b]);
        below += number[b];
        others += number[b];
        own += number[BINS + b];
    }
    return area / (others * own);
}

const lk_metric lk__metric_auc = {
    .descriptor = {.name = "auc",
                   .summary = "area under the ROC curve of one class against the others",
                   .options = options,
                   .options_size = sizeof(auc_options)},
    .of_classes = true,
    .check = auc_check,
    .numbers = auc_numbers,
    .add = auc_add,
    .value = auc_value};
