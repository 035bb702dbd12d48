/* Sums of maps with the scratch memory of a call. */
#include "ops/common/sums.h"

lk_status lk__call_sums(lk_call *c, lk__map_sums *s)
{
    int64_t bytes;
    void *room;
    LK_TRY(lk__map_sums_room(s, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    LK_TRY(lk__map_sums_run(s, room));
    return LK_OK;
}
