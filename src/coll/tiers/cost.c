/* What tiers cost, which way is the best for each, and which tiers there are.
 *
 * A stage of p members, each of which holds n bytes, with latency a, seconds b for a byte and g for
 * joining one:
 *
 *     direct    2 (a + (p - 2) a / 4 + (p-1)/p n b) + (p-1)/p n g         messages overlap
 *     ring      2 ((p - 1) a         + (p-1)/p n b) + (p-1)/p n g
 *     whole     a + n b + n g                                             the last one, of pairs
 *     shared    0.8 X a + n (0.9 b + g), X ranks on a node                as within.c has it
 *
 * and n is divided by p for the next.  Where the range of a member is several subtrees, as
 * many vectors travel on the way there.  Of f16 and bf16, n is twice as large on the way there of all
 * stages but the first, which is that of single ranks.
 */
#include "base/env.h"
#include "coll/tiers/tiers.h"

#include <math.h>

/* Vectors of the member below a stage: of the first rank's group, which stands for all. */
static double vectors_below(const lk__coll_args *k, const lk__tiers *tiers, int stride)
{
    lk_range node[LK_PROGRAM_DEPTH];
    if (tiers->any)
        return lk__within_subtrees(k, k->comm->w->node[k->comm->member[0]], node);
    lk_range range = {k->first[0], k->first[stride] - k->first[0]};
    int n = lk_range_subtrees(k->pieces, range, NULL);
    return n > 1 ? n : 1;
}

static double stage_cost(const lk__coll_args *k, const lk__tiers *tiers, const lk__stage *g)
{
    lk__way way = tiers->way[g->tier];
    const lk__rates *r = &tiers->rates[g->tier];
    if (way == LK_WAY_SHARED)
        return lk__within_cost(k);
    double n = (double)(g->n * k->elem), p = g->size, vectors = vectors_below(k, tiers, g->stride);
    if (tiers->half && g->stride > 1)
        vectors *= (double)k->work_elem / (double)k->elem;
    if (g->whole)
        return r->alpha + n * vectors * (r->beta + r->gamma);
    double moved = n * (p - 1) / p;
    double latency = way == LK_WAY_RING ? (p - 1) * r->alpha : r->alpha + (p - 2) * r->alpha / 4;
    return 2 * latency + moved * r->beta * (1 + vectors) + moved * r->gamma * vectors;
}

double lk__tiers_cost(const lk__coll_args *k, const lk__tiers *tiers, int tier)
{
    lk__stage stage[LK_MAX_STAGES];
    double sum = 0;
    int n = lk__tiers_stages(tiers, 0, k->c.count, stage);
    for (int i = 0; i < n; i++)
        if (stage[i].tier == tier)
            sum += stage_cost(k, tiers, &stage[i]);
    return sum;
}

void lk__tiers_choose(const lk__coll_args *k, lk__tiers *tiers)
{
    for (int t = lk__tiers_shared(tiers); t < tiers->n; t++) {
        int p = tiers->size[t];
        tiers->way[t] = LK_WAY_DIRECT;
        if (tiers->any || p <= 2 || (p & (p - 1)) != 0)
            continue;
        double direct = lk__tiers_cost(k, tiers, t);
        tiers->way[t] = LK_WAY_HALVES;
        if (lk__tiers_cost(k, tiers, t) >= direct)
            tiers->way[t] = LK_WAY_DIRECT;
    }
}

lk__rates lk__tiers_slowest(const lk__tiers *tiers)
{
    lk__rates r = {0, 0, 0};
    for (int t = 0; t < tiers->n; t++) {
        const lk__rates *of = &tiers->uncut[t];
        if (tiers->size[t] == 1)
            continue;
        r.alpha = of->alpha > r.alpha ? of->alpha : r.alpha;
        r.beta = of->beta > r.beta ? of->beta : r.beta;
        r.gamma = of->gamma > r.gamma ? of->gamma : r.gamma;
    }
    return r;
}

/* Ranks on each node, if all have the same number and follow each other; otherwise 0. */
static int even_nodes(const lk_comm *comm)
{
    int n_nodes = comm->inter_size, on_node = comm->size / n_nodes;
    if (on_node * n_nodes != comm->size)
        return 0;
    for (int r = 0; r < comm->size; r++) {
        int first = comm->member[r - r % on_node];
        if (comm->w->node[comm->member[r]] != comm->w->node[first])
            return 0;
    }
    return on_node;
}

/* Ranks on the node that has the fewest. */
static int least_on_a_node(const lk_comm *comm)
{
    int least = comm->size;
    for (int r = 0; r < comm->size; r++) {
        int n = 0;
        for (int s = 0; s < comm->size && n < least; s++)
            n += comm->w->node[comm->member[s]] == comm->w->node[comm->member[r]];
        least = n < least ? n : least;
    }
    return least;
}

bool lk__tiers_share(const lk__coll_args *k, lk__tiers *tiers)
{
    int on_node = even_nodes(k->comm), n = 0, below = 1;
    if (tiers->any) {
        tiers->way[0] = LK_WAY_SHARED;
        return true;
    }
    while (n < tiers->n && below < on_node)
        below *= tiers->size[n++];
    if (on_node < 2 || below != on_node || !lk__within_can(k))
        return false;
    for (int t = 0; t < n; t++)
        tiers->way[t] = LK_WAY_SHARED;
    return true;
}

/* Tiers as declared, if they are meant for a communicator of this size. */
static lk_status tiers_declared(const lk_comm *comm, lk__tiers *out)
{
    const char *declared = lk__env("LK_TIERS");
    lk_tier_spec mode;
    int64_t places = 1;
    if (!declared || !*declared)
        return LK_OK;
    LK_TRY(lk_tier_spec_parse(declared, &mode));
    for (int t = 0; t < mode.n_tiers && places <= comm->size; t++)
        places *= mode.size[t];
    if (places == comm->size)
        for (out->n = 0; out->n < mode.n_tiers; out->n++)
            out->size[out->n] = mode.size[out->n];
    return LK_OK;
}

lk_status lk__tiers_of(const lk_comm *comm, bool any, lk__tiers *out)
{
    int on_node = even_nodes(comm), below = 1;
    *out = (lk__tiers){.n = 0};
    LK_TRY(tiers_declared(comm, out));
    if (out->n == 0 && ((on_node > 1 && on_node < comm->size) || (on_node == 0 && any))) {
        out->n = 2;
        out->any = on_node == 0;
        out->size[0] = on_node ? on_node : least_on_a_node(comm);
        out->size[1] = comm->inter_size;
        on_node = out->size[0];
    }
    if (out->n == 0) {
        out->n = 1;
        out->size[0] = comm->size;
    }
    for (int t = 0; t < out->n; t++) {
        int above = below * out->size[t];
        bool inside = comm->inter_size == 1 || (on_node > 0 && on_node % above == 0);
        out->rates[t] = lk__rates_of(comm, inside);
        /* The ranks of a node share its link. */
        if (!inside && on_node > 0)
            out->rates[t].beta *= on_node < below ? on_node : below;
        out->uncut[t] = out->rates[t];
        below = above;
    }
    return LK_OK;
}
