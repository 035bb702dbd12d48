/* allreduce, halving: recursive halving, then the parts come back by recursive doubling.
 *
 *     halves.c draws the first half; the second goes through the same partners backwards, and the
 *     part of each grows to twice its size
 *
 * Powers of two of ranks, each with one subtree; not f16 and bf16.
 *
 * Cost: 2 log2 P alpha + 2 (P-1)/P n beta + (P-1)/P n gamma: least bytes with few messages.
 */
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>

static double halving_cost(const lk__coll_args *k, const lk__rates *r)
{
    double part = (double)(k->size - 1) / k->size * (double)k->bytes;
    return 2 * lk__coll_args_rounds(k) * r->alpha + part * (2 * r->beta + r->gamma);
}

static lk_status halving_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *out = k->c.out;
    int64_t *bound;
    LK_TRY(lk__schedule_room(s, (k->size + 1) * (int64_t)sizeof *bound, &bound));
    for (int i = 0; i < k->size; i++)
        bound[i] = lk_range_split(k->c.count, i, k->size).first;
    bound[k->size] = k->c.count;
    lk__halves h = {.acc = out, .bound = bound};
    LK_TRY(lk__schedule_copy(s, out, lk__coll_args_in(k), k->bytes));
    LK_TRY(lk__schedule_halve(s, k, &h));
    for (int i = h.n - 1; i >= 0; i--) {
        int partner = k->rank ^ 1 << i;
        bool upper = k->rank & 1 << i;
        int64_t mine = bound[h.from[i + 1]], mine_n = bound[h.to[i + 1]] - mine;
        int64_t other = bound[upper ? h.from[i] : h.to[i + 1]];
        int64_t other_n = bound[upper ? h.from[i + 1] : h.to[i]] - other;
        LK_TRY(lk__schedule_send(s, partner, out + mine * k->elem, mine_n * k->elem));
        LK_TRY(lk__schedule_recv(s, partner, out + other * k->elem, other_n * k->elem));
        LK_TRY(lk__schedule_wait(s));
    }
    return LK_OK;
}

const lk__coll lk__coll_allreduce_halving = {
    .call = LK_CALL_ALLREDUCE,
    .name = "halving",
    .summary = "recursive halving, then doubling",
    .needs = "a power of two of ranks with a subtree each, not f16 and bf16",
    .eligible = lk__aligned_eligible,
    .cost = halving_cost,
    .schedule = halving_schedule};
