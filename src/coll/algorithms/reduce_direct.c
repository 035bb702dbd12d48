/* reduce, direct: each rank joins its share of the vector (shares.c) and sends it to the root.
 *
 * Any number of ranks, pieces and any type: f16 and bf16 are joined in f32 by the owner of a share.
 *
 * Cost: P alpha + (P-1)/P n (m + 1) beta + m n gamma, m the vectors a rank gives; the root receives
 * P-1 messages more.
 */
#include "coll/schedule.h"

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    lk_range mine = lk__coll_args_share(k, k->rank);
    unsigned char *out = k->c.out; /* of the root alone */
    bool root = k->rank == k->c.root;
    if (root)
        out += mine.first * k->elem;
    else
        LK_TRY(lk__schedule_room(s, mine.n * k->elem, &out));
    LK_TRY(lk__schedule_shares(s, k, out));
    if (!root)
        return mine.n > 0 ? lk__schedule_send(s, k->c.root, out, mine.n * k->elem) : LK_OK;
    for (int r = 0; r < k->size; r++) {
        lk_range theirs = lk__coll_args_share(k, r);
        if (r != k->rank && theirs.n > 0)
            LK_TRY(lk__schedule_recv(s, r, (unsigned char *)k->c.out + theirs.first * k->elem,
                                     theirs.n * k->elem));
    }
    return LK_OK;
}

const lk__coll lk__coll_reduce_direct = {.call = LK_CALL_REDUCE,
                                         .name = "direct",
                                         .summary = "each rank joins its share for the root",
                                         .cost = lk__shares_cost,
                                         .schedule = direct_schedule};
