/* Metrics: numbers that tell people how good a model is.
 *
 * A metric is one constant descriptor in one file of src/nn/metrics.  What it adds up over samples
 * are whole numbers (counts), exact in f64 whatever the order, so ranks can add them up too.
 *
 * Not collective.
 */
#ifndef LK_METRIC_H
#define LK_METRIC_H

#include <lockstep/nn.h>

LK_BEGIN_DECLS

typedef struct lk_metric {
    lk_descriptor descriptor;
    bool lower_is_better;
    bool
        of_classes; /* the trainer refuses it where real targets are no classes, as in regression */

    /** Whether it makes sense for these; errors as lk_loss's check. */
    lk_status (*check)(const void *options, lk_tensor_type out, lk_tensor_type target);

    /** How many numbers it adds up. */
    int64_t (*numbers)(const void *options, lk_tensor_type out);

    /** Add the samples of y and target, contiguous, to the numbers.  Errors: LK_EINVAL for a target
     * out of range. */
    lk_status (*add)(const void *options, const lk_tensor *y, const lk_tensor *target,
                     double *number);

    /** The same of places: of each row, how many classes come before its label, as lk_dist_feature_places()
     * counts them, so that ranks may have some classes each; NULL: it needs all of them. */
    void (*add_places)(const void *options, int64_t rows, const int64_t *place, double *number);

    /** The metric of what was added up; NULL: it has no number of its own, only `json`. */
    double (*value)(const void *options, lk_tensor_type out, const double *number);

    /** More than one number, a table [[..],..]: print as JSON to `arena`; NULL if the value is all. */
    lk_status (*json)(const void *options, lk_tensor_type out, const double *number,
                      lk_arena *arena, const char **text);
} lk_metric;

/** The metrics that are built in, sorted by name, then NULL. */
LK_API extern const lk_metric *const lk_metrics[];
LK_API extern const lk_registry lk_registry_metric;

LK_END_DECLS

#endif /* LK_METRIC_H */
