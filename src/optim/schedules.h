/* What schedules share. */
#ifndef LK_OPTIM_SCHEDULES_H
#define LK_OPTIM_SCHEDULES_H

#include <lockstep/optim.h>

/** How many epochs have passed, with their fraction. */
static inline double lk__epochs_passed(const lk_schedule_point *at)
{
    return (double)at->step / (double)at->steps_per_epoch;
}

/** How far a stretch of epochs is passed: 0 before `from`, 1 after `to`. */
double lk__share_passed(const lk_schedule_point *at, double from, double to);

/** The end of a stretch that was not given: that of the training. */
double lk__end_or_all(double end, const lk_schedule_point *at);

#endif /* LK_OPTIM_SCHEDULES_H */
