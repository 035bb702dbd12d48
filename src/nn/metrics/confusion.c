/* confusion: how often label i was taken for class j.  A table: it has no number of its own. */
#include "nn/metrics.h"

#include <stdio.h>

enum { MAX_CLASSES = 1024, DIGITS = 24 };

static int64_t classes_of(lk_tensor_type out)
{
    return out.shape.dim[out.shape.ndim - 1];
}

static lk_status confusion_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    LK_TRY(lk__scores_check("confusion", out, target));
    LK_CHECK(classes_of(out) <= MAX_CLASSES, LK_EINVAL,
             "confusion: a table of %lld classes, at most %d", (long long)classes_of(out),
             MAX_CLASSES);
    return LK_OK;
}

static int64_t confusion_numbers(const void *options, lk_tensor_type out)
{
    (void)options;
    return classes_of(out) * classes_of(out);
}

static lk_status confusion_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                               double *number)
{
    lk__scores r = lk__scores_of(y, target);
    int64_t label;
    (void)options;
    for (int64_t i = 0; i < r.n; i++) {
        LK_TRY(lk__scores_label(&r, i, &label));
        number[label * r.classes + lk__scores_best(&r, i)] += 1;
    }
    return LK_OK;
}

/* Rows are labels, columns what they were taken for. */
static lk_status confusion_json(const void *options, lk_tensor_type out, const double *number,
                                lk_arena *arena, const char **text)
{
    int64_t n = classes_of(out), at = 0, room = n * n * DIGITS + 2 * n + 3;
    char *s = NULL;
    (void)options;
    LK_TRY(lk_arena_alloc(arena, &s, room, 1));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            at += snprintf(s + at, (size_t)(room - at), "%s%s%.0f%s", i + j == 0 ? "[" : "",
                           j == 0 ? (i ? ",[" : "[") : ",", number[i * n + j],
                           j + 1 < n ? "" : "]");
    snprintf(s + at, (size_t)(room - at), "]");
    *text = s;
    return LK_OK;
}

const lk_metric lk__metric_confusion = {
    .descriptor = {.name = "confusion",
                   .summary = "how often each label was taken for each class: a table, no number"},
    .of_classes = true,
    .check = confusion_check,
    .numbers = confusion_numbers,
    .add = confusion_add,
    .json = confusion_json};
