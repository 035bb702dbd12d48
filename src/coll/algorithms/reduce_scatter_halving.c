/* reduce_scatter, halving: recursive halving (halves.c) of the parts in the order in which ranks end
 * with them: rank r's part is placed where r with its bits reversed is.
 *
 * Powers of two of ranks, each with one subtree; any counts; not f16 and bf16.
 *
 * Cost: log2 P alpha + (P-1)/P n beta + (P-1)/P n gamma, for even counts.
 */
#include "coll/schedule.h"

static double halving_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)(k->extent * k->elem), part = (double)(k->size - 1) / k->size * n;
    return lk__coll_args_rounds(k) * r->alpha + part * (r->beta + r->gamma) + n * r->gamma;
}

static int reversed(int rank, int rounds)
{
    int out = 0;
    for (int i = 0; i < rounds; i++)
        out |= (rank >> i & 1) << (rounds - 1 - i);
    return out;
}

static lk_status halving_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int rounds = lk__coll_args_rounds(k);
    int64_t *bound, at = 0;
    unsigned char *acc;
    LK_TRY(lk__schedule_room(s, (k->size + 1) * (int64_t)sizeof *bound, &bound));
    for (int i = 0; i < k->size; i++) {
        bound[i] = at;
        at += k->counts[reversed(i, rounds)];
    }
    bound[k->size] = at;
    LK_TRY(lk__schedule_room(s, at * k->elem, &acc));
    for (int i = 0; i < k->size; i++) {
        int r = reversed(i, rounds);
        LK_TRY(lk__schedule_copy(s, acc + bound[i] * k->elem,
                                 lk__coll_args_in(k) + k->offsets[r] * k->elem,
                                 k->counts[r] * k->elem));
    }
    lk__halves h = {.acc = acc, .bound = bound};
    LK_TRY(lk__schedule_halve(s, k, &h));
    return LK_TRACE(lk__schedule_copy(s, k->c.out, acc + bound[h.from[h.n]] * k->elem,
                                      k->counts[k->rank] * k->elem));
}

const lk__coll lk__coll_reduce_scatter_halving = {
    .call = LK_CALL_REDUCE_SCATTER,
    .name = "halving",
    .summary = "recursive halving",
    .needs = "a power of two of ranks with a subtree each, not f16 and bf16",
    .eligible = lk__aligned_eligible,
    .cost = halving_cost,
    .schedule = halving_schedule};
