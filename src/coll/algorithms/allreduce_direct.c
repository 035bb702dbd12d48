/* allreduce, direct: each rank sends each other its share of the vector, and gets its result back.
 *
 *     shares.c draws the first half; in the second, each rank sends its joined share to all others
 *
 * Any number of ranks, pieces and any type: f16 and bf16 are joined in f32 by the owner of a share.
 *
 * Cost: 2 (P-1) alpha + (P-1)/P n (m + 1) beta + m n gamma, where m is the number of vectors a rank
 * gives (1 at powers of two): the least bytes there can be, many messages.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *out = k->c.out;
    lk_range mine = lk__coll_args_share(k, k->rank);
    LK_TRY(lk__schedule_shares(s, k, out + mine.first * k->elem));
    for (int step = 1; step < k->size; step++) {
        int to = (k->rank + step) % k->size, from = (k->rank - step + k->size) % k->size;
        lk_range theirs = lk__coll_args_share(k, from);
        if (theirs.n > 0)
            LK_TRY(lk__schedule_recv(s, from, out + theirs.first * k->elem, theirs.n * k->elem));
        if (mine.n > 0)
            LK_TRY(lk__schedule_send(s, to, out + mine.first * k->elem, mine.n * k->elem));
    }
    return LK_OK;
}

const lk__coll lk__coll_allreduce_direct = {.call = LK_CALL_ALLREDUCE,
                                            .name = "direct",
                                            .summary = "each rank joins its share of the vector",
                                            .cost = lk__shares_cost,
                                            .schedule = direct_schedule};
