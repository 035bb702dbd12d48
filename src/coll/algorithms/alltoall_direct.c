/* alltoall, direct: in step k every rank sends to the one k further on and receives from the one k
 * before it, so that no rank is the partner of all at once.
 *
 * Any counts.  Cost: (P-1) alpha + (P-1)/P n beta, n the bytes that a rank sends.  In place a copy of
 * the input is made first.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    const unsigned char *in = k->c.in;
    unsigned char *out = k->c.out, *copy;
    if (!in) {
        LK_TRY(lk__schedule_room(s, k->extent * k->elem, &copy));
        LK_TRY(lk__schedule_copy(s, copy, out, k->extent * k->elem));
        in = copy;
    }
    for (int step = 0; step < k->size; step++) {
        int to = (k->rank + step) % k->size, from = (k->rank - step + k->size) % k->size;
        const unsigned char *give = in + k->in_offsets[to] * k->elem;
        unsigned char *get = out + k->offsets[from] * k->elem;
        if (step == 0) {
            LK_TRY(lk__schedule_copy(s, get, give, k->counts[from] * k->elem));
            continue;
        }
        LK_TRY(lk__schedule_recv(s, from, get, k->counts[from] * k->elem));
        LK_TRY(lk__schedule_send(s, to, give, k->in_counts[to] * k->elem));
    }
    return LK_OK;
}

const lk__coll lk__coll_alltoall_direct = {.call = LK_CALL_ALLTOALL,
                                           .name = "direct",
                                           .summary = "every rank sends to all others, in turn",
                                           .cost = lk__direct_cost,
                                           .schedule = direct_schedule};
