/* lk__curves: loss and metrics, point by point while a run goes on, for its report.  The run's output
 * has one, on rank 0.
 */
#ifndef LK_TRAIN_CURVES_H
#define LK_TRAIN_CURVES_H

#include <lockstep/io.h>
#include <lockstep/train.h>

/* A value at an epoch. */
typedef struct lk__points {
    double *x, *y;
    int64_t n, x_room, y_room;
} lk__points;

/** The loss, number 0, and each metric, for training and evaluation.  Begin with zeros and the first two;
 * end with lk__curves_free(). */
typedef struct lk__curves {
    const lk_job *job;
    const char *set; /* name of the evaluation set */
    lk__points train[1 + LK_MAX_METRICS], test[1 + LK_MAX_METRICS];
} lk__curves;

void lk__curves_free(lk__curves *c);

/** The name of curve `i`: the loss, or a metric; NULL behind the last. */
const char *lk__curve_name(const lk__curves *c, int i);

/** Whether curve `i` is drawn: not of a metric without a number. */
bool lk__curve_is_drawn(const lk__curves *c, int i);

double lk__curve_value(const lk_eval *eval, int i);

/** The last value of a curve, of the evaluation or, where there is none, of training; false: none. */
bool lk__curve_last(const lk__curves *c, int i, double *out);

lk_status lk__points_add(lk__points *p, double x, double y) LK_NODISCARD;

/** The points from the first `bytes` bytes of the lines of metrics at `path`, of an earlier part of the
 * run; none if they cannot be read. */
lk_status lk__curves_resume(lk__curves *c, const char *path, int64_t bytes) LK_NODISCARD;

/** The charts: the loss and each metric, training and evaluation in one; returns how many. */
int64_t lk__curves_charts(const lk__curves *c, lk_chart *chart, lk_curve (*curve)[2]);

#endif /* LK_TRAIN_CURVES_H */
