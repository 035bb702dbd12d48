/* The factor of the rate at a step, by a schedule's name, and the registry of schedules (schedules/).
 * The optimizer asks for it in each step, rules and schedules for one of their own; any thread.
 */
#include "base/fpenv.h"

#include <lockstep/optim.h>

double lk_schedule_factor(const lk_config *schedule, const lk_schedule_point *at)
{
    LK_FP_GUARD();
    const lk_schedule *s = (const lk_schedule *)(const void *)schedule->descriptor;
    lk_schedule_point point = *at;
    point.steps_per_epoch = at->steps_per_epoch > 0 ? at->steps_per_epoch : 1;
    return s ? s->factor(schedule->options, &point) : 1;
}

bool lk_schedule_uses_end(const lk_config *schedule)
{
    LK_FP_GUARD();
    const lk_schedule *s = (const lk_schedule *)(const void *)schedule->descriptor;
    return s && s->uses_end && s->uses_end(schedule->options);
}

static const lk_descriptor *schedule_at(int i)
{
    return lk_schedules[i] ? &lk_schedules[i]->descriptor : NULL;
}

const lk_registry lk_registry_schedule = {.name = "schedule",
                                          .plural = "schedules",
                                          .summary = "a factor that changes with time",
                                          .at = schedule_at};
