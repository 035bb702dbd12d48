/* allreduce, tiers: reduce-scatter inside the nodes, then between them; allgather back.
 *
 * tiers.h draws it, tiers/cost.c has the cost: with X ranks on each of Y nodes about
 *
 *     0.8 X a_near + n (0.9 b_near + g) + 2 a_far + 2 (Y-1)/Y n b_far + n g
 *
 * inside the nodes in shared memory, between them for a node's link that its ranks share, against
 * 2 (P-1)/P n b_far for a ring across the nodes.  Tiers are those of LK_TIERS (`4x3`), else ranks of
 * a node and nodes.  Where the ranks of a node cannot share memory they send messages, and then only
 * nodes with equally many ranks that follow each other are tiers; otherwise it is one tier of all
 * ranks.  Canonical for any pieces and ranges; of f16 and bf16 for one piece on each rank.
 */
#include "coll/tiers/tiers.h"

static bool tiers_eligible(const lk__coll_args *k, const char **why)
{
    *why = "of f16 and bf16 each rank must give one piece";
    return k->work == k->c.dtype || (k->pieces == k->size && !k->c.first);
}

/* As measured, if that was done; with the way of each. */
static lk_status tiers_get(const lk__coll_args *k, lk__tiers *out)
{
    const lk__coll_state *state = k->comm->coll;
    bool within = lk__within_can(k);
    if (state && state->tiers && (within || !state->tiers->any))
        *out = *state->tiers;
    else
        LK_TRY(lk__tiers_of(k->comm, within, out));
    out->half = k->work != k->c.dtype;
    lk__tiers_share(k, out);
    lk__tiers_choose(k, out);
    return LK_OK;
}

/* By the rates of its own tiers. */
static double tiers_cost(const lk__coll_args *k, const lk__rates *r)
{
    lk__tiers tiers;
    double sum = 0;
    (void)r;
    if (tiers_get(k, &tiers) != LK_OK) {
        lk_error_clear(); /* the schedule will say it */
        return 0;
    }
    for (int t = 0; t < tiers.n; t++)
        sum += lk__tiers_cost(k, &tiers, t);
    return sum;
}

static lk_status room(void *context, int64_t bytes, void *out)
{
    return lk__schedule_room(context, bytes, out);
}

static lk_status tiers_schedule(const lk__coll_args *k, lk__schedule *s)
{
    lk__tiers tiers;
    lk__tiers_run run = {.rooms = {room, s}};
    LK_TRY(tiers_get(k, &tiers));
    LK_TRY(lk__tiers_begin(k, &tiers, &run));
    for (int t = 0; t < tiers.n; t++)
        LK_TRY(lk__tiers_reduce(&run, t, s));
    LK_TRY(lk__tiers_finish(&run, s));
    for (int t = tiers.n - 1; t >= 0; t--)
        LK_TRY(lk__tiers_gather(&run, t, s));
    return LK_OK;
}

const lk__coll lk__coll_allreduce_tiers = {
    .call = LK_CALL_ALLREDUCE,
    .name = "tiers",
    .summary = "parts summed inside the nodes, then between them, and back",
    .uses = LK__COLL_RATES | LK__COLL_WITHIN,
    .needs = "of f16 and bf16 one piece from each rank",
    .eligible = tiers_eligible,
    .cost = tiers_cost,
    .schedule = tiers_schedule};
