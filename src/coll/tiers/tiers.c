/* lk__tiers_run: one call of a tiered allreduce; its way back, and what both ways share (tiers.h draws it).
 * lk_ddl and the algorithm `tiers` have one on the stack while they write a schedule, on the rank's thread.
 */
#include "coll/tiers/tiers.h"

const char *lk__way_name(lk__way way)
{
    static const char *const names[] = {"direct", "halves", "ring", "mpi", "shared"};
    return names[way];
}

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Parts begin at multiples of this many elements: a line of f32. */
enum { UNIT = 16 };

void lk__stage_part(const lk__stage *g, int i, int64_t *from, int64_t *n)
{
    *from = g->from;
    *n = g->n;
    if (g->whole)
        return;
    if (i >= g->size) { /* one that only helps */
        *from += g->n;
        *n = 0;
        return;
    }
    lk_range run = lk_range_split((g->n + UNIT - 1) / UNIT, i, g->size);
    int64_t end = (run.first + run.n) * UNIT;
    *from = run.first * UNIT;
    *n = (end < g->n ? end : g->n) - *from;
    if (*n < 0)
        *n = 0;
    *from += g->from;
}

int lk__stage_peer(const lk__tiers_run *run, const lk__stage *g, int i)
{
    int place = run->place + (i - g->me) * g->stride;
    return run->tiers.any ? run->rank_at[place] : place;
}

int lk__tiers_shared(const lk__tiers *tiers)
{
    int n = 0;
    while (n < tiers->n && tiers->way[n] == LK_WAY_SHARED)
        n++;
    return n;
}

int lk__tiers_place(const lk_comm *comm, const lk__tiers *tiers)
{
    int carriers = tiers->size[0];
    if (!tiers->any)
        return comm->rank;
    return comm->intra_rank < carriers ? comm->inter_rank * carriers + comm->intra_rank : -1;
}

void lk__tiers_places(const lk_comm *comm, const lk__tiers *tiers, int *room, int *rank_at)
{
    const lk__world *w = comm->w;
    int *number = room, *used = room + w->size, n_nodes = 0, carriers = tiers->size[0];
    for (int i = 0; i < w->size; i++)
        number[i] = -1;
    for (int r = 0; r < comm->size; r++) {
        int node = w->node[comm->member[r]];
        if (number[node] < 0) {
            used[n_nodes] = 0;
            number[node] = n_nodes++;
        }
        int y = number[node], i = used[y]++;
        if (i < carriers)
            rank_at[y * carriers + i] = r;
    }
}

int lk__tiers_stages(const lk__tiers *tiers, int place, int64_t count, lk__stage *out)
{
    int stride = 1, n = 0, shared = lk__tiers_shared(tiers);
    for (int t = 0; t < shared; t++)
        stride *= tiers->size[t];
    if (shared > 0)
        out[n++] = (lk__stage){0, stride, 1, place < 0 ? stride : place % stride, false, 0, count};
    for (int t = shared; t < tiers->n && place >= 0; t++) {
        int size = tiers->size[t];
        bool halves = tiers->way[t] == LK_WAY_HALVES && is_power_of_two(size);
        for (int below = 1; below < size; below *= halves ? 2 : size) {
            lk__stage *g = &out[n], *before = g - 1;
            int members = halves ? 2 : size, step = stride * below;
            *g = (lk__stage){t, members, step, place / step % members, false, 0, count};
            if (n++ > 0)
                lk__stage_part(before, before->me, &g->from, &g->n);
        }
        stride *= size;
    }
    if (n > 0) {
        lk__way way = tiers->way[out[n - 1].tier];
        out[n - 1].whole = out[n - 1].size == 2 && (way == LK_WAY_DIRECT || way == LK_WAY_HALVES);
        if (tiers->half && n > 1) /* sums are larger than results */
            out[n - 1].whole = false;
    }
    return n;
}

/* The call in f32; where its vector lies is known when it is widened. */
static void wide_make(lk__tiers_run *run)
{
    const lk__coll_args *k = run->given;
    lk__coll_args *wide = &run->wide;
    *wide = *k;
    wide->first = k->first == k->few ? wide->few : k->first;
    wide->c.dtype = k->work;
    wide->c.in = NULL;
    wide->elem = k->work_elem;
    wide->bytes = wide->stride = k->c.count * k->work_elem;
    run->k = wide;
    run->narrow = true;
}

lk_status lk__held_widen(lk__tiers_run *run, int64_t from, int64_t n, lk__schedule *s)
{
    lk__held *h = &run->held;
    for (int v = 0; v < h->n_vectors; v++) {
        const unsigned char *x = h->vector[v] + (from - h->from) * run->given->elem;
        LK_TRY(run->rooms.room(run->rooms.context, n * run->k->elem, &h->vector[v]));
        LK_TRY(lk__schedule_widen(s, h->vector[v], x, n));
        h->ours[v] = true;
    }
    h->from = from;
    h->n = n;
    run->wide.c.out = h->vector[0];
    run->narrow = false;
    return LK_OK;
}

lk_status lk__tiers_begin(const lk__coll_args *k, const lk__tiers *tiers, lk__tiers_run *run)
{
    run->k = run->given = k;
    if (tiers->half)
        wide_make(run);
    run->tiers = *tiers;
    run->place = lk__tiers_place(k->comm, tiers);
    run->n_stages = lk__tiers_stages(tiers, run->place, k->c.count, run->stage);
    if (tiers->any) {
        int *room = NULL;
        int64_t helps = 2 * (int64_t)k->comm->w->size;
        int64_t places = (int64_t)tiers->size[0] * tiers->size[1];
        LK_TRY(
            run->rooms.room(run->rooms.context, (helps + places) * (int64_t)sizeof *room, &room));
        run->rank_at = room + helps;
        lk__tiers_places(k->comm, tiers, room, run->rank_at);
    }
    lk__held *h = &run->held;
    h->from = 0;
    h->n = k->c.count;
    lk_range mine = {k->first[k->rank], k->first[k->rank + 1] - k->first[k->rank]};
    h->n_vectors = lk_range_subtrees(k->pieces, mine, h->node);
    unsigned char *in = (unsigned char *)(uintptr_t)(k->c.in ? k->c.in : k->c.out);
    for (int v = 0; v < h->n_vectors; v++) {
        h->vector[v] = in + v * k->stride;
        h->ours[v] = !k->c.in;
    }
    return LK_OK;
}

lk__cuts lk__stage_cuts(const lk__stage *g)
{
    lk__cuts cuts;
    for (int i = 0; i < LK_SHM_AREA_RANKS; i++)
        lk__stage_part(g, i, &cuts.from[i], &cuts.n[i]);
    return cuts;
}

lk_status lk__tiers_finish(lk__tiers_run *run, lk__schedule *s)
{
    const lk__coll_args *k = run->given;
    const lk__held *h = &run->held;
    if (h->n == 0)
        return LK_OK;
    unsigned char *own = (unsigned char *)k->c.out + h->from * k->elem;
    if (run->narrow) /* this rank is alone */
        LK_TRY(lk__held_widen(run, h->from, h->n, s));
    if (run->tiers.half) {
        LK_TRY(lk__schedule_finish(s, h->vector[0], h->n));
        return LK_TRACE(lk__schedule_narrow(s, own, h->vector[0], h->n));
    }
    LK_TRY(lk__schedule_copy(s, own, h->vector[0], h->n * k->elem));
    return LK_TRACE(lk__schedule_finish(s, own, h->n));
}

lk_status lk__stage_pass(const lk__tiers_run *run, const lk__stage *g, const lk__parcel *parcel,
                         int64_t n, lk__schedule *s)
{
    return lk__schedule_parcels(s, parcel, n, run->tiers.piece[g->tier], NULL);
}

/* Part `i` of the result, to a member or from it. */
static lk__parcel result_parcel(const lk__tiers_run *run, const lk__stage *g, int i, int member,
                                bool sends)
{
    int64_t from, n, elem = run->given->elem;
    lk__stage_part(g, i, &from, &n);
    unsigned char *at = (unsigned char *)run->given->c.out + from * elem;
    return (lk__parcel){lk__stage_peer(run, g, member), sends, at, n * elem};
}

static lk_status stage_gather(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    int p = g->size, me = g->me, next = (me + 1) % p, before = (me + p - 1) % p;
    bool ring = run->tiers.way[g->tier] == LK_WAY_RING;
    lk__parcel *parcel = NULL;
    LK_TRY(run->rooms.room(run->rooms.context, p * (int64_t)(2 * sizeof *parcel), &parcel));
    for (int i = 1; i < p; i++) {
        lk__parcel *two = &parcel[ring ? 0 : 2 * (i - 1)];
        two[0] = result_parcel(run, g, ring ? (me + p + 1 - i) % p : me, ring ? next : (me + i) % p,
                               true);
        two[1] = result_parcel(run, g, (me + p - i) % p, ring ? before : (me + p - i) % p, false);
        if (ring)
            LK_TRY(lk__stage_pass(run, g, two, 2, s));
    }
    return ring ? LK_OK : lk__stage_pass(run, g, parcel, 2 * (int64_t)(p - 1), s);
}

static lk_status shared_gather(const lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__cuts cuts = lk__stage_cuts(g);
    return lk__within_gather(run->given, s, &cuts);
}

lk_status lk__tiers_gather(lk__tiers_run *run, int tier, lk__schedule *s)
{
    bool shared = run->tiers.way[tier] == LK_WAY_SHARED;
    for (int i = run->n_stages - 1; i >= 0; i--)
        if (run->stage[i].tier == tier && !run->stage[i].whole)
            LK_TRY(shared ? shared_gather(run, &run->stage[i], s)
                          : stage_gather(run, &run->stage[i], s));
    return LK_OK;
}
