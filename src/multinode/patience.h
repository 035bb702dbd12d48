/* Early stopping's rule: whether a value is better than the best so far, and how many checks have
 * passed without progress.  For early_stop.c and the runs of experiments (train/run/run.c). */
#ifndef LK_MULTINODE_PATIENCE_H
#define LK_MULTINODE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/** Whether `value` is better, by more than `change`, than `*best`, which is NaN while there is none: then it
 * is the best, and `*without`, how often it was not better since, is 0; else that is one more. */
bool lk__patience_update(double value, bool lower, double change, double *best, int64_t *without);

#endif /* LK_MULTINODE_PATIENCE_H */
