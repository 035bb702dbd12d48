/* The way there of a tiered allreduce: the reduce-scatter along each tier, written into the schedule of a
 * lk__tiers_run (tiers.c); tiers.h draws it. */
#include "coll/tiers/tiers.h"

#include <stdlib.h>

/* Whether [first, first + n) is a subtree of the tree over `total` pieces. */
static bool is_subtree(int64_t total, int64_t first, int64_t n)
{
    lk_range at = {0, total};
    while (at.n > n) {
        int64_t half = lk_tree_half(at.n);
        if (first >= at.first + half)
            at = (lk_range){at.first + half, at.n - half};
        else
            at.n = half;
    }
    return at.first == first && at.n == n;
}

/* Put the next vector behind those held, and join as long as the last two are a subtree's halves. */
static lk_status held_push(lk__tiers_run *run, lk__schedule *s, lk__held *h, lk_range node,
                           unsigned char *vector, bool ours)
{
    const lk__coll_args *k = run->k;
    for (;;) {
        int last = h->n_vectors - 1;
        int64_t n = last < 0 ? 0 : h->node[last].n + node.n;
        if (last < 0 || !is_subtree(k->pieces, h->node[last].first, n)) {
            h->node[last + 1] = node;
            h->vector[last + 1] = vector;
            h->ours[last + 1] = ours;
            h->n_vectors++;
            return LK_OK;
        }
        if (!h->ours[last]) {
            unsigned char *copy = NULL;
            LK_TRY(run->rooms.room(run->rooms.context, h->n * k->elem, &copy));
            LK_TRY(lk__schedule_copy(s, copy, h->vector[last], h->n * k->elem));
            h->vector[last] = copy;
        }
        LK_TRY(lk__schedule_join(s, h->vector[last], vector, h->n));
        node = (lk_range){h->node[last].first, n};
        vector = h->vector[last];
        ours = true;
        h->n_vectors--;
    }
}

/* The subtrees that member `i` of a stage holds, at most LK_MAX_SUBTREES (`out` may be NULL). */
static int subtrees_below(const lk__tiers_run *run, const lk__stage *g, int i, lk_range *out)
{
    const lk__coll_args *k = run->k;
    lk_range some[LK_PROGRAM_DEPTH];
    int at = lk__stage_peer(run, g, i), base = at / g->stride * g->stride;
    if (run->tiers.any)
        return lk__within_subtrees(k, k->comm->w->node[k->comm->member[at]], out ? out : some);
    lk_range pieces = {k->first[base], k->first[base + g->stride] - k->first[base]};
    return lk_range_subtrees(k->pieces, pieces, out);
}

/* To the others, each rank from its neighbour on, so that no rank gets all messages at once. */
int64_t lk__direct_parcels(const lk__tiers_run *run, const lk__stage *g, unsigned char *got,
                           lk__parcel *parcel)
{
    const lk__held *h = &run->held;
    int64_t from, n, n_parcels = 0, elem = run->narrow ? run->given->elem : run->k->elem;
    lk__stage_part(g, g->me, &from, &n);
    for (int i = 0; i < g->size; i++) {
        int vectors = i == g->me || n == 0 ? 0 : subtrees_below(run, g, i, NULL);
        for (int v = 0; v < vectors; v++, got += n * elem)
            parcel[n_parcels++] = (lk__parcel){lk__stage_peer(run, g, i), false, got, n * elem};
    }
    for (int k = 1; k < g->size; k++) {
        int i = (g->me + k) % g->size;
        lk__stage_part(g, i, &from, &n);
        for (int v = 0; v < h->n_vectors; v++)
            parcel[n_parcels++] = (lk__parcel){lk__stage_peer(run, g, i), true,
                                               h->vector[v] + (from - h->from) * elem, n * elem};
    }
    return n_parcels;
}

/* A vector that is to be joined. */
struct given {
    lk_range node;
    unsigned char *vector;
    bool ours;
};

static int given_order(const void *a, const void *b)
{
    const struct given *x = a, *y = b;
    return x->node.first < y->node.first ? -1 : x->node.first > y->node.first;
}

/* The vectors of all members, those of the others behind each other at `got`; in the order of the tree,
 * in which they are given unless the nodes' ranks do not follow each other. */
static int given_all(const lk__tiers_run *run, const lk__stage *g, const lk__held *sum,
                     unsigned char *got, struct given *out)
{
    const lk__held *h = &run->held;
    int64_t elem = run->k->elem;
    lk_range node[LK_MAX_SUBTREES];
    int n = 0;
    for (int i = 0; i < g->size; i++) {
        int m = subtrees_below(run, g, i, node);
        for (int v = 0; v < m; v++) {
            bool mine = i == g->me;
            unsigned char *x = mine ? h->vector[v] + (sum->from - h->from) * elem : got;
            out[n++] = (struct given){node[v], x, mine ? h->ours[v] : true};
            got += mine ? 0 : sum->n * elem;
        }
    }
    if (run->tiers.any)
        qsort(out, (size_t)n, sizeof *out, given_order);
    return n;
}

static lk_status direct_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__held *h = &run->held, sum = {0};
    const lk__rooms *rooms = &run->rooms;
    int64_t elem = run->narrow ? run->given->elem : run->k->elem;
    unsigned char *got = NULL, *wide = NULL;
    struct given *given = NULL;
    lk__parcel *parcel = NULL;
    int n_got = 0, n;
    lk__stage_part(g, g->me, &sum.from, &sum.n);
    for (int i = 0; i < g->size; i++)
        n_got += i == g->me ? 0 : subtrees_below(run, g, i, NULL);
    LK_TRY(rooms->room(rooms->context, n_got * sum.n * elem, &got));
    LK_TRY(rooms->room(rooms->context, (n_got + h->n_vectors) * (int64_t)sizeof *given, &given));
    LK_TRY(rooms->room(rooms->context,
                       (n_got + (int64_t)g->size * h->n_vectors) * (int64_t)sizeof *parcel,
                       &parcel));
    LK_TRY(lk__stage_pass(run, g, parcel, lk__direct_parcels(run, g, got, parcel), s));
    if (run->narrow) {
        LK_TRY(rooms->room(rooms->context, n_got * sum.n * run->k->elem, &wide));
        LK_TRY(lk__schedule_widen(s, wide, got, n_got * sum.n));
        LK_TRY(lk__held_widen(run, sum.from, sum.n, s));
        got = wide;
    }
    n = sum.n > 0 ? given_all(run, g, &sum, got, given) : 0;
    for (int i = 0; i < n; i++)
        LK_TRY(held_push(run, s, &sum, given[i].node, given[i].vector, given[i].ours));
    *h = sum;
    return LK_OK;
}

static lk_status shared_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__cuts cuts = lk__stage_cuts(g);
    if (run->narrow)
        LK_TRY(lk__held_widen(run, 0, run->given->c.count, s));
    return lk__within_reduce(run->k, s, &cuts, &run->rooms, &run->held);
}

/* Round the ring, p - 1 times: what came from before, and this rank's own, go on to the next. */
static lk_status ring_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__held *h = &run->held;
    int64_t elem = run->k->elem, from, n, largest;
    int p = g->size, next = (g->me + 1) % p, before = (g->me + p - 1) % p;
    unsigned char *room[2] = {NULL, NULL}, *send;
    lk__stage_part(g, 0, &from, &largest);
    for (int i = 1; i < p; i++) {
        lk__stage_part(g, i, &from, &n);
        largest = n > largest ? n : largest;
    }
    for (int i = 0; i < 2; i++)
        LK_TRY(run->rooms.room(run->rooms.context, largest * elem, &room[i]));
    lk__stage_part(g, (g->me + p - 1) % p, &from, &n);
    send = h->vector[0] + (from - h->from) * elem;
    for (int step = 0; step < p - 1; step++) {
        unsigned char *got = room[step % 2];
        lk__parcel parcel[2] = {{lk__stage_peer(run, g, next), true, send, n * elem},
                                {lk__stage_peer(run, g, before), false, got, 0}};
        lk__stage_part(g, (g->me + 2 * p - step - 2) % p, &from, &n);
        parcel[1].bytes = n * elem;
        LK_TRY(lk__stage_pass(run, g, parcel, 2, s));
        if (n > 0)
            LK_TRY(lk__schedule_join(s, got, h->vector[0] + (from - h->from) * elem, n));
        send = got;
    }
    h->vector[0] = send;
    h->ours[0] = true;
    h->from = from;
    h->n = n;
    return LK_OK;
}

lk_status lk__tiers_reduce(lk__tiers_run *run, int tier, lk__schedule *s)
{
    for (int i = 0; i < run->n_stages; i++) {
        const lk__stage *g = &run->stage[i];
        if (g->tier != tier)
            continue;
        lk__way way = run->tiers.way[tier];
        LK_TRY(way == LK_WAY_SHARED   ? shared_reduce(run, g, s)
               : way == LK_WAY_RING   ? ring_reduce(run, g, s)
               : lk__half_can(run, g) ? lk__half_reduce(run, g, s)
                                      : direct_reduce(run, g, s));
    }
    return LK_OK;
}
