/* Overlaps of classes: what dice and iou share.
 *
 * Of each class three whole numbers are added up over rows (positions, samples, tiles and ranks): how often
 * label and answer both are the class, how often the answer is, how often the label is.  The value is the
 * mean, over the classes that occur and are not ignored, of what a metric makes of these three; one that
 * neither answers nor labels have says nothing about the model, and is left out.  The trainer calls the
 * metrics, on its own thread.
 */
#include "nn/metrics.h"

#include <math.h>

enum { BOTH, ANSWERED, LABELLED, COUNTS };

const lk_option lk__overlap_options[] = {
    {"ignore", LK_OPTION_INTS, offsetof(lk__overlap, ignore), .value = "N,N,...", .min = 0,
     .max = 1e9, .flags = LK_OPTION_ONCE,
     .help = "classes that are left out of the mean, such as a background"},
    {0}};

static int64_t classes_of(lk_tensor_type out)
{
    return out.shape.dim[out.shape.ndim - 1];
}

lk_status lk__overlap_check(const char *metric, const lk__overlap *o, lk_tensor_type out,
                            lk_tensor_type target)
{
    LK_TRY(lk__scores_check(metric, out, target));
    for (int i = 0; i < o->ignore.n; i++)
        LK_CHECK(o->ignore.item[i] < classes_of(out), LK_EINVAL,
                 "%s: class %lld to ignore is not in [0, %lld)", metric,
                 (long long)o->ignore.item[i], (long long)classes_of(out));
    LK_CHECK(o->ignore.n < classes_of(out), LK_EINVAL,
             "%s: all %lld classes are ignored, nothing is left to count", metric,
             (long long)classes_of(out));
    return LK_OK;
}

int64_t lk__overlap_numbers(const void *options, lk_tensor_type out)
{
    (void)options;
    return COUNTS * classes_of(out);
}

lk_status lk__overlap_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                          double *number)
{
    lk__scores r = lk__scores_of(y, target);
    int64_t label;
    (void)options;
    for (int64_t i = 0; i < r.n; i++) {
        LK_TRY(lk__scores_label(&r, i, &label));
        int64_t answer = lk__scores_best(&r, i);
        number[COUNTS * label + BOTH] += label == answer;
        number[COUNTS * answer + ANSWERED] += 1;
        number[COUNTS * label + LABELLED] += 1;
    }
    return LK_OK;
}

static bool is_ignored(const lk__overlap *o, int64_t class)
{
    bool found = false;
    for (int i = 0; i < o->ignore.n; i++)
        found = found || o->ignore.item[i] == class;
    return found;
}

double lk__overlap_mean(const lk__overlap *o, lk_tensor_type out, const double *number,
                        lk__overlap_fn *of)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < classes_of(out); k++) {
        const double *c = number + COUNTS * k;
        if (is_ignored(o, k) || c[ANSWERED] + c[LABELLED] == 0)
            continue;
        sum += of(c[BOTH], c[ANSWERED], c[LABELLED]);
        n++;
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}
