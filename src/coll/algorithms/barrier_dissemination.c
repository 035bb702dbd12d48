/* barrier, dissemination: in round k every rank tells the rank 2^k further on, round the circle.
 *
 *     round 0    r ─► r + 1        after round k a rank has heard, through others, of the
 *     round 1    r ─► r + 2        2^(k+1) - 1 ranks before it
 *     round 2    r ─► r + 4
 *
 * Cost: ceil(log2 P) alpha.
 */
#include "coll/schedule.h"

static double dissemination_cost(const lk__coll_args *k, const lk__rates *r)
{
    return lk__coll_args_rounds(k) * r->alpha;
}

static lk_status dissemination_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *token = NULL;
    LK_TRY(lk__schedule_room(s, 2, &token));
    token[0] = token[1] = 0;
    for (int step = 1; step < k->size; step *= 2) {
        LK_TRY(lk__schedule_send(s, (k->rank + step) % k->size, &token[0], 1));
        LK_TRY(lk__schedule_recv(s, (k->rank - step + k->size) % k->size, &token[1], 1));
        LK_TRY(lk__schedule_wait(s));
    }
    return LK_OK;
}

const lk__coll lk__coll_barrier_dissemination = {.call = LK_CALL_BARRIER,
                                                 .name = "dissemination",
                                                 .summary = "tell the rank 1, 2, 4, ... further on",
                                                 .cost = dissemination_cost,
                                                 .schedule = dissemination_schedule};
