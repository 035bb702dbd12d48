/* scatter, direct: the root sends each rank its part.
 *
 * Any counts.  Cost: (P-1) alpha + (P-1)/P n beta, n the bytes in all; nothing is less at the root.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int64_t mine = k->counts[k->rank] * k->elem;
    if (k->rank != k->c.root)
        return lk__schedule_recv(s, k->c.root, k->c.out, mine);
    const unsigned char *in = lk__coll_args_in(k);
    for (int r = 0; r < k->size; r++)
        if (r != k->rank)
            LK_TRY(lk__schedule_send(s, r, in + k->offsets[r] * k->elem, k->counts[r] * k->elem));
    if (k->c.in)
        LK_TRY(lk__schedule_copy(s, k->c.out, in + k->offsets[k->rank] * k->elem, mine));
    return LK_OK;
}

const lk__coll lk__coll_scatter_direct = {.call = LK_CALL_SCATTER,
                                          .name = "direct",
                                          .summary = "the root sends each rank its part",
                                          .cost = lk__direct_cost,
                                          .schedule = direct_schedule};
