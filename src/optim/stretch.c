/* Stretches of time, in epochs. */
#include "optim/schedules.h"

double lk__share_passed(const lk_schedule_point *at, double from, double to)
{
    double now = lk__epochs_passed(at);
    if (now <= from)
        return 0;
    return now >= to ? 1 : (now - from) / (to - from);
}

double lk__end_or_all(double end, const lk_schedule_point *at)
{
    return end > 0 ? end : (double)at->epochs;
}
