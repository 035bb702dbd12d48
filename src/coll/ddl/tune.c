/* The latency and bandwidth of lk_ddl's tiers, measured when it is made, and the algorithm chosen
 * for each. */
#include "coll/ddl/ddl.h"

#include <string.h>

lk_status lk__ddl_measure(lk_ddl *d)
{
    LK_TRY(lk__tiers_measure(d->comm, &d->tiers));
    d->measured = true;
    return LK_OK;
}

static bool can_halve(int p)
{
    return p > 2 && (p & (p - 1)) == 0;
}

static lk__ddl_class *class_of(lk_ddl *d, const lk__coll_args *k)
{
    return &d->probe[k->bytes > 0 ? 63 - __builtin_clzll((unsigned long long)k->bytes) : 0];
}

/* Whether the letter leaves it to us how the ranks of a host do it. */
static bool may_share(const lk_ddl *d)
{
    lk_tier_algorithm letter = d->options.mode.algorithm;
    return letter != LK_TIER_RING && letter != LK_TIER_MPI;
}

lk_status lk__ddl_share(lk_ddl *d, const lk__coll_args *k)
{
    lk__coll_state *state = NULL;
    if (!may_share(d))
        return LK_OK;
    LK_TRY_COMM(k->comm->w, lk__coll_state_get(k->comm, &state));
    return LK_TRACE(lk__within_open(k));
}

void lk__ddl_ways(lk_ddl *d, const lk__coll_args *k, lk__tiers *tiers)
{
    lk_tier_algorithm letter = d->options.mode.algorithm;
    if (may_share(d))
        lk__tiers_share(k, tiers);
    if (letter == LK_TIER_BEST) {
        lk__tiers_choose(k, tiers);
        return;
    }
    const lk__ddl_class *c = class_of(d, k);
    for (int t = lk__tiers_shared(tiers); t < tiers->n; t++) {
        bool halves = can_halve(tiers->size[t]) &&
                      (letter == LK_TIER_CUT || (letter == LK_TIER_PROBE && c->n_tried % 2 == 1));
        tiers->way[t] = letter == LK_TIER_RING  ? LK_WAY_RING
                        : letter == LK_TIER_MPI ? LK_WAY_MPI
                        : halves                ? LK_WAY_HALVES
                                                : LK_WAY_DIRECT;
        if (letter == LK_TIER_PROBE && c->chosen)
            tiers->way[t] = c->way[t];
    }
}

lk_status lk__ddl_learn(lk_ddl *d, const lk__coll_args *k, const double *seconds)
{
    lk__ddl_class *c = class_of(d, k);
    if (d->options.mode.algorithm != LK_TIER_PROBE || c->chosen)
        return LK_OK;
    for (int t = 0; t < d->tiers.n; t++) {
        int way = c->n_tried % 2;
        if (c->n_tried < 2 || seconds[t] < c->best[t][way])
            c->best[t][way] = seconds[t];
    }
    if (++c->n_tried < 2 * LK_DDL_TRIES)
        return LK_OK;
    double slowest[LK_MAX_TIERS][2];
    int64_t n = sizeof slowest / sizeof(double);
    memcpy(slowest, c->best, sizeof slowest);
    LK_TRY(lk_allreduce(d->comm, NULL, slowest, n, LK_F64, LK_REDUCE_MAX, "probe"));
    for (int t = 0; t < d->tiers.n; t++) {
        bool halves = can_halve(d->tiers.size[t]) && slowest[t][1] < slowest[t][0];
        c->way[t] = halves ? LK_WAY_HALVES : LK_WAY_DIRECT;
    }
    c->chosen = true;
    return LK_OK;
}
