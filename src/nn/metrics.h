/* What metrics share: for the files of src/nn/metrics, which the trainer calls with outputs and
 * targets.
 */
#ifndef LK_NN_METRICS_H
#define LK_NN_METRICS_H

#include <lockstep/metric.h>

/* The rows of an output of classes, and their labels. */
typedef struct lk__scores {
    int64_t n, classes;
    lk_dtype dtype;
    const void *y;          /* [n][classes] */
    const lk_tensor *label; /* i64 or i32 [n], or [n][classes] whose largest is the label */
} lk__scores;

/** Fail unless the model gives classes and the target is labels or as many numbers. */
lk_status lk__scores_check(const char *metric, lk_tensor_type out,
                           lk_tensor_type target) LK_NODISCARD;

/** The rows of y and their labels. */
lk__scores lk__scores_of(const lk_tensor *y, const lk_tensor *target);

/** Number `k` of row `i`. */
double lk__scores_at(const lk__scores *r, int64_t i, int64_t k);

/** The label of row `i`.  Errors: LK_EINVAL unless it is a class. */
lk_status lk__scores_label(const lk__scores *r, int64_t i, int64_t *out) LK_NODISCARD;

/** The class whose number is the largest in row `i`, the first of equal ones; a NaN is the largest. */
int64_t lk__scores_best(const lk__scores *r, int64_t i);

/** How many numbers the metrics have that count hits and rows: 2. */
int64_t lk__hits_numbers(const void *options, lk_tensor_type out);

/* What a metric does with places: lk_metric.add_places. */
typedef void lk__places_fn(const void *options, int64_t rows, const int64_t *place, double *number);

/** lk_metric.add of a metric that takes places: find those of the rows of y, and add them.  Errors: those of
 * lk__scores_label(). */
lk_status lk__places_add(lk__places_fn *add, const void *options, const lk_tensor *y,
                         const lk_tensor *target, double *number) LK_NODISCARD;

/** How many places are below k: labels among the k largest. */
int64_t lk__places_below(int64_t k, int64_t rows, const int64_t *place);

/** Hits divided by rows; NaN for none. */
double lk__hits_value(const void *options, lk_tensor_type out, const double *number);

/* ---- dice and iou: src/nn/overlaps.c ---- */

/* Their options. */
typedef struct lk__overlap {
    lk_option_ints ignore;
} lk__overlap;

extern const lk_option lk__overlap_options[];

/** Fail unless the model gives classes, and some of them are not ignored. */
lk_status lk__overlap_check(const char *metric, const lk__overlap *o, lk_tensor_type out,
                            lk_tensor_type target) LK_NODISCARD;

/** How many numbers they have: three for each class. */
int64_t lk__overlap_numbers(const void *options, lk_tensor_type out);

/** Count the rows of y.  Errors: those of lk__scores_label(). */
lk_status lk__overlap_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                          double *number) LK_NODISCARD;

/* What a metric makes of the numbers of a class; `answered` and `labelled` are not both 0. */
typedef double lk__overlap_fn(double both, double answered, double labelled);

/** The mean over the classes that occur; NaN for none. */
double lk__overlap_mean(const lk__overlap *o, lk_tensor_type out, const double *number,
                        lk__overlap_fn *of);

#endif /* LK_NN_METRICS_H */
