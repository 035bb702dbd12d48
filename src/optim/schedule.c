/* Schedules by name. */
#include "base/fpenv.h"

#include <lockstep/optim.h>

double lk_schedule_factor(const lk_choice *schedule, const lk_moment *at)
{
    LK_FP_GUARD();
    const lk_schedule *s = (const lk_schedule *)(const void *)schedule->entry;
    return s ? s->factor(schedule->options, at) : 1;
}

bool lk_schedule_uses_end(const lk_choice *schedule)
{
    LK_FP_GUARD();
    const lk_schedule *s = (const lk_schedule *)(const void *)schedule->entry;
    return s && s->uses_end && s->uses_end(schedule->options);
}

static const lk_entry *schedule_at(int i)
{
    return lk_schedules[i] ? &lk_schedules[i]->entry : NULL;
}

const lk_kind lk_kind_schedule = {.name = "schedule",
                                  .plural = "schedules",
                                  .summary = "a factor that changes with time",
                                  .at = schedule_at};
