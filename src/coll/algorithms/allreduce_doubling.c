/* allreduce, doubling: partners at distance 1, 2, 4, ... exchange whole vectors, and both join them.
 *
 *     0 ◄─► 1   2 ◄─► 3        after step k a rank has the subtree of the 2^(k+1) ranks around it:
 *     0 ◄─────► 2              the fixed tree, computed by all
 *     1 ◄─────► 3
 *
 * Powers of two of ranks, each with one subtree; not f16 and bf16.
 *
 * Cost: log2 P (alpha + n beta + n gamma): the fewest messages one behind another.
 */
#include "coll/schedule.h"

static double doubling_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)k->bytes;
    return lk__coll_args_rounds(k) * (r->alpha + n * (r->beta + r->gamma));
}

static lk_status doubling_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *acc = k->c.out, *other;
    LK_TRY(lk__schedule_room(s, k->bytes, &other));
    LK_TRY(lk__schedule_copy(s, acc, lk__coll_args_in(k), k->bytes));
    for (int distance = 1; distance < k->size; distance *= 2) {
        int partner = k->rank ^ distance;
        LK_TRY(lk__schedule_send(s, partner, acc, k->bytes));
        LK_TRY(lk__schedule_recv(s, partner, other, k->bytes));
        LK_TRY(lk__schedule_wait(s));
        if (partner > k->rank) {
            LK_TRY(lk__schedule_join(s, acc, other, k->c.count));
        } else { /* the lower rank's is the first operand */
            LK_TRY(lk__schedule_join(s, other, acc, k->c.count));
            LK_TRY(lk__schedule_copy(s, acc, other, k->bytes));
        }
    }
    return LK_TRACE(lk__schedule_finish(s, acc, k->c.count));
}

const lk__coll lk__coll_allreduce_doubling = {
    .call = LK_CALL_ALLREDUCE,
    .name = "doubling",
    .summary = "partners exchange whole vectors",
    .needs = "a power of two of ranks with a subtree each, not f16 and bf16",
    .eligible = lk__aligned_eligible,
    .cost = doubling_cost,
    .schedule = doubling_schedule};
