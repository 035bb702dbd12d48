/* allgather, direct: every rank sends its part to all others.
 *
 * Any counts.  Cost: (P-1) alpha + (P-1)/P n beta, n the bytes in all.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *out = k->c.out, *own = out + k->offsets[k->rank] * k->elem;
    int64_t mine = k->counts[k->rank] * k->elem;
    if (k->c.in)
        LK_TRY(lk__schedule_copy(s, own, k->c.in, mine));
    for (int step = 1; step < k->size; step++) {
        int to = (k->rank + step) % k->size, from = (k->rank - step + k->size) % k->size;
        LK_TRY(lk__schedule_recv(s, from, out + k->offsets[from] * k->elem,
                                 k->counts[from] * k->elem));
        LK_TRY(lk__schedule_send(s, to, own, mine));
    }
    return LK_OK;
}

const lk__coll lk__coll_allgather_direct = {.call = LK_CALL_ALLGATHER,
                                            .name = "direct",
                                            .summary = "every rank sends its part to all",
                                            .cost = lk__direct_cost,
                                            .schedule = direct_schedule};
