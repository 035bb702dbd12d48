/* The flag of the calling thread that says that it rehearses: see rehearsal.h. */
#include "base/memory/rehearsal.h"

static _Thread_local bool rehearses;

bool lk__rehearsal_set(bool on)
{
    bool before = rehearses;
    rehearses = on;
    return before;
}

bool lk__rehearses(void)
{
    return rehearses;
}
