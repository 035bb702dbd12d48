/* allreduce, tiers: reduce-scatter inside the nodes, then between them; allgather back.
 *
 * tiers.h draws it, tiers_cost.c has the cost: with X ranks on each of Y nodes about
 *
 *     2 (X-1)/X n b_near + 2 (Y-1)/Y n b_far + n g        plus latencies
 *
 * for a node's link that its ranks share, against 2 (P-1)/P n b_far for a ring across the nodes.
 * Tiers are those of LK_TIERS (`4x3`), else ranks of a node and nodes, where nodes have equally many
 * ranks that follow each other; otherwise one tier of all ranks.  Canonical for any pieces and runs;
 * not for f16 and bf16, whose partial sums must not be rounded.
 */
#include "coll/tiers.h"

static bool tiers_eligible(const lk__case *k, const char **why)
{
    *why = "partial sums of f16 and bf16 would be rounded";
    return k->c.dtype != LK_F16 && k->c.dtype != LK_BF16;
}

/* As measured, if that was done. */
static lk_status tiers_get(const lk__case *k, lk__tiers *out)
{
    const lk__coll_state *state = k->comm->coll;
    if (!state || !state->tiers)
        return lk__tiers_of(k->comm, out);
    *out = *state->tiers;
    return LK_OK;
}

static double tiers_cost(const lk__case *k, const lk__rates *r)
{
    lk__tiers tiers;
    double sum = 0;
    if (tiers_get(k, &tiers) != LK_OK) {
        lk_error_clear(); /* the schedule will say it */
        return 0;
    }
    lk__tiers_choose(k, &tiers);
    if (k->comm->inter_size > 1 && tiers.n == 1)
        tiers.rates[0] = *r;
    for (int t = 0; t < tiers.n; t++)
        sum += lk__tiers_cost(k, &tiers, t);
    return sum;
}

static lk_status room(void *context, int64_t bytes, void *out)
{
    return lk__schedule_room(context, bytes, out);
}

static lk_status tiers_schedule(const lk__case *k, lk__schedule *s)
{
    lk__tiers tiers;
    lk__tiers_run run = {.room = room, .context = s};
    LK_TRY(tiers_get(k, &tiers));
    lk__tiers_choose(k, &tiers);
    lk__tiers_begin(k, &tiers, &run);
    for (int t = 0; t < tiers.n; t++)
        LK_TRY(lk__tiers_reduce(&run, t, s));
    LK_TRY(lk__tiers_finish(&run, s));
    for (int t = tiers.n - 1; t >= 0; t--)
        LK_TRY(lk__tiers_gather(&run, t, s));
    return LK_OK;
}

const lk_coll lk_coll_allreduce_tiers = {
    .call = LK_CALL_ALLREDUCE,
    .name = "tiers",
    .summary = "parts summed inside the nodes, then between them, and back",
    .needs = "any dtype but f16 and bf16",
    .eligible = tiers_eligible,
    .cost = tiers_cost,
    .schedule = tiers_schedule};
