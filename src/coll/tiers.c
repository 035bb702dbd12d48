/* Write the schedules of a tiered allreduce, for lk_ddl and the algorithm `tiers`; tiers.h draws them. */
#include "coll/tiers.h"

#include <lockstep/extra/alloc.h>

#include <stdlib.h>
#include <string.h>

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

static int peer(const lk__tiers_run *run, const lk__stage *g, int i)
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
    }
    return n;
}

lk_status lk__tiers_begin(const lk__coll_args *k, const lk__tiers *tiers, lk__tiers_run *run)
{
    run->k = k;
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
    int at = peer(run, g, i), base = at / g->stride * g->stride;
    if (run->tiers.any)
        return lk__within_subtrees(k, k->comm->w->node[k->comm->member[at]], out ? out : some);
    lk_range pieces = {k->first[base], k->first[base + g->stride] - k->first[base]};
    return lk_range_subtrees(k->pieces, pieces, out);
}

/* Send to or receive from a member, in messages that are not too large for the tier. */
static lk_status pass(const lk__tiers_run *run, const lk__stage *g, int i, unsigned char *data,
                      int64_t n, bool send, lk__schedule *s)
{
    int64_t bytes = n * run->k->elem, piece = run->tiers.piece[g->tier];
    for (int64_t at = 0, length; at < bytes; at += length) {
        length = piece > 0 && bytes - at > piece ? piece : bytes - at;
        LK_TRY(send ? lk__schedule_send(s, peer(run, g, i), data + at, length)
                    : lk__schedule_recv(s, peer(run, g, i), data + at, length));
    }
    return LK_OK;
}

/* Send member `i` its part of every vector. */
static lk_status direct_send(lk__tiers_run *run, const lk__stage *g, int i, lk__schedule *s)
{
    const lk__held *h = &run->held;
    int64_t from, n, elem = run->k->elem;
    lk__stage_part(g, i, &from, &n);
    for (int v = 0; v < h->n_vectors; v++)
        LK_TRY(pass(run, g, i, h->vector[v] + (from - h->from) * elem, n, true, s));
    return LK_OK;
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
    int64_t elem = run->k->elem;
    unsigned char *got = NULL;
    struct given *given = NULL;
    int n_got = 0, n;
    lk__stage_part(g, g->me, &sum.from, &sum.n);
    for (int i = 0; i < g->size; i++)
        n_got += i == g->me ? 0 : subtrees_below(run, g, i, NULL);
    LK_TRY(rooms->room(rooms->context, n_got * sum.n * elem, &got));
    LK_TRY(rooms->room(rooms->context, (n_got + h->n_vectors) * (int64_t)sizeof *given, &given));
    unsigned char *to = got;
    for (int i = 0; i < g->size; i++) {
        n = i == g->me || sum.n == 0 ? 0 : subtrees_below(run, g, i, NULL);
        for (int v = 0; v < n; v++, to += sum.n * elem)
            LK_TRY(pass(run, g, i, to, sum.n, false, s));
    }
    for (int i = 1; i < g->size; i++) /* each begins with its neighbour: nobody is overrun */
        LK_TRY(direct_send(run, g, (g->me + i) % g->size, s));
    LK_TRY(lk__schedule_wait(s));
    n = sum.n > 0 ? given_all(run, g, &sum, got, given) : 0;
    for (int i = 0; i < n; i++)
        LK_TRY(held_push(run, s, &sum, given[i].node, given[i].vector, given[i].ours));
    *h = sum;
    return LK_OK;
}

/* Who of the node has which elements of a shared stage. */
static lk__cuts cuts_of(const lk__stage *g)
{
    lk__cuts cuts;
    for (int i = 0; i < LK_SHM_AREA_RANKS; i++)
        lk__stage_part(g, i, &cuts.from[i], &cuts.n[i]);
    return cuts;
}

static lk_status shared_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__cuts cuts = cuts_of(g);
    return lk__within_reduce(run->k, s, &cuts, &run->rooms, &run->held);
}

static lk_status shared_gather(const lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__cuts cuts = cuts_of(g);
    return lk__within_gather(run->k, s, &cuts);
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
        LK_TRY(pass(run, g, next, send, n, true, s));
        lk__stage_part(g, (g->me + 2 * p - step - 2) % p, &from, &n);
        LK_TRY(pass(run, g, before, got, n, false, s));
        LK_TRY(lk__schedule_wait(s));
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
        LK_TRY(way == LK_WAY_SHARED ? shared_reduce(run, g, s)
               : way == LK_WAY_RING ? ring_reduce(run, g, s)
                                    : direct_reduce(run, g, s));
    }
    return LK_OK;
}

lk_status lk__tiers_finish(lk__tiers_run *run, lk__schedule *s)
{
    const lk__coll_args *k = run->k;
    const lk__held *h = &run->held;
    if (h->n == 0)
        return LK_OK;
    unsigned char *own = (unsigned char *)k->c.out + h->from * k->elem;
    LK_TRY(lk__schedule_copy(s, own, h->vector[0], h->n * k->elem));
    LK_TRY(lk__schedule_finish(s, own, h->n));
    return LK_OK;
}

/* Send part `i` of the result to a member, or receive it. */
static lk_status result_pass(lk__tiers_run *run, const lk__stage *g, int i, int member, bool send,
                             lk__schedule *s)
{
    int64_t from, n;
    lk__stage_part(g, i, &from, &n);
    unsigned char *at = (unsigned char *)run->k->c.out + from * run->k->elem;
    return pass(run, g, member, at, n, send, s);
}

static lk_status stage_gather(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    int p = g->size, me = g->me, next = (me + 1) % p, before = (me + p - 1) % p;
    bool ring = run->tiers.way[g->tier] == LK_WAY_RING;
    for (int i = 1; i < p; i++) {
        int to = ring ? next : (me + i) % p, from = ring ? before : (me + p - i) % p;
        LK_TRY(result_pass(run, g, ring ? (me + p + 1 - i) % p : me, to, true, s));
        LK_TRY(result_pass(run, g, (me + p - i) % p, from, false, s));
        if (ring)
            LK_TRY(lk__schedule_wait(s));
    }
    return lk__schedule_wait(s);
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
