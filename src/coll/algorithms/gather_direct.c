/* gather, direct: every rank sends its part to the root.
 *
 * Any counts.  Cost: (P-1) alpha + (P-1)/P n beta, n the bytes in all; nothing is less at the root.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *out = k->c.out;
    int64_t mine = k->counts[k->rank] * k->elem;
    if (k->rank != k->c.root)
        return lk__schedule_send(s, k->c.root, k->c.in, mine);
    for (int r = 0; r < k->size; r++)
        if (r != k->rank)
            LK_TRY(lk__schedule_recv(s, r, out + k->offsets[r] * k->elem, k->counts[r] * k->elem));
    if (k->c.in)
        LK_TRY(lk__schedule_copy(s, out + k->offsets[k->rank] * k->elem, k->c.in, mine));
    return LK_OK;
}

const lk__coll lk__coll_gather_direct = {.call = LK_CALL_GATHER,
                                         .name = "direct",
                                         .summary = "every rank sends its part to the root",
                                         .cost = lk__direct_cost,
                                         .schedule = direct_schedule};
