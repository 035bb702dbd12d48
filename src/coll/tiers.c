/* Write the schedules of a tiered allreduce; tiers.h draws them. */
#include "coll/tiers.h"

#include <lockstep/alloc.h>

#include <string.h>

const char *lk__way_name(lk__way way)
{
    static const char *const names[] = {"direct", "halves", "ring", "mpi"};
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
    lk_run run = lk_run_of((g->n + UNIT - 1) / UNIT, i, g->size);
    int64_t end = (run.first + run.n) * UNIT;
    *from = run.first * UNIT;
    *n = (end < g->n ? end : g->n) - *from;
    if (*n < 0)
        *n = 0;
    *from += g->from;
}

static int peer(const lk__tiers_run *run, const lk__stage *g, int i)
{
    return run->k->rank + (i - g->me) * g->stride;
}

int lk__tiers_stages(const lk__tiers *tiers, int rank, int64_t count, lk__stage *out)
{
    int stride = 1, n = 0;
    for (int t = 0; t < tiers->n; t++) {
        int size = tiers->size[t];
        bool halves = tiers->way[t] == LK_WAY_HALVES && is_power_of_two(size);
        for (int below = 1; below < size; below *= halves ? 2 : size) {
            lk__stage *g = &out[n], *before = g - 1;
            int members = halves ? 2 : size, step = stride * below;
            *g = (lk__stage){t, members, step, rank / step % members, false, 0, count};
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

void lk__tiers_begin(const lk__case *k, const lk__tiers *tiers, lk__tiers_run *run)
{
    run->k = k;
    run->tiers = *tiers;
    run->n_stages = lk__tiers_stages(tiers, k->rank, k->c.count, run->stage);
    lk__held *h = &run->held;
    h->from = 0;
    h->n = k->c.count;
    lk_run mine = {k->pieces, k->first[k->rank], k->first[k->rank + 1] - k->first[k->rank]};
    h->n_vectors = lk_run_nodes(mine, h->node);
    unsigned char *in = (unsigned char *)(uintptr_t)(k->c.in ? k->c.in : k->c.out);
    for (int v = 0; v < h->n_vectors; v++) {
        h->vector[v] = in + v * k->stride;
        h->ours[v] = !k->c.in;
    }
}

/* Whether [first, first + n) is a node of the tree over `total` pieces. */
static bool is_node(int64_t total, int64_t first, int64_t n)
{
    lk_node at = {0, total};
    while (at.n > n) {
        int64_t half = INT64_C(1) << (63 - __builtin_clzll((unsigned long long)(at.n - 1)));
        if (first >= at.first + half)
            at = (lk_node){at.first + half, at.n - half};
        else
            at.n = half;
    }
    return at.first == first && at.n == n;
}

/* Put the next vector behind those held, and join as long as the last two are a node's halves. */
static lk_status held_push(lk__tiers_run *run, lk__schedule *s, lk__held *h, lk_node node,
                           unsigned char *vector, bool ours)
{
    const lk__case *k = run->k;
    for (;;) {
        int last = h->n_vectors - 1;
        int64_t n = last < 0 ? 0 : h->node[last].n + node.n;
        if (last < 0 || !is_node(k->pieces, h->node[last].first, n)) {
            h->node[last + 1] = node;
            h->vector[last + 1] = vector;
            h->ours[last + 1] = ours;
            h->n_vectors++;
            return LK_OK;
        }
        if (!h->ours[last]) {
            unsigned char *copy = NULL;
            LK_TRY(run->room(run->context, h->n * k->elem, &copy));
            LK_TRY(lk__schedule_copy(s, copy, h->vector[last], h->n * k->elem));
            h->vector[last] = copy;
        }
        LK_TRY(lk__schedule_join(s, h->vector[last], vector, h->n));
        node = (lk_node){h->node[last].first, n};
        vector = h->vector[last];
        ours = true;
        h->n_vectors--;
    }
}

/* The pieces below member `i` of a stage. */
static lk_run run_below(const lk__tiers_run *run, const lk__stage *g, int i)
{
    int base = peer(run, g, i) / g->stride * g->stride;
    const int64_t *first = run->k->first;
    return (lk_run){run->k->pieces, first[base], first[base + g->stride] - first[base]};
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

static lk_status direct_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    lk__held *h = &run->held, sum = {0};
    int64_t elem = run->k->elem;
    lk_node node[LK_MAX_NODES];
    unsigned char *got = NULL;
    int n_got = 0;
    lk__stage_part(g, g->me, &sum.from, &sum.n);
    for (int i = 0; i < g->size; i++)
        n_got += i == g->me ? 0 : lk_run_nodes(run_below(run, g, i), NULL);
    LK_TRY(run->room(run->context, n_got * sum.n * elem, &got));
    unsigned char *to = got;
    for (int i = 0; i < g->size; i++) {
        int n = i == g->me || sum.n == 0 ? 0 : lk_run_nodes(run_below(run, g, i), NULL);
        for (int v = 0; v < n; v++, to += sum.n * elem)
            LK_TRY(pass(run, g, i, to, sum.n, false, s));
    }
    for (int i = 1; i < g->size; i++) /* each begins with its neighbour: nobody is overrun */
        LK_TRY(direct_send(run, g, (g->me + i) % g->size, s));
    LK_TRY(lk__schedule_wait(s));
    for (int i = 0; i < g->size && sum.n > 0; i++) {
        int n = lk_run_nodes(run_below(run, g, i), node);
        for (int v = 0; v < n; v++) {
            bool mine = i == g->me;
            unsigned char *x = mine ? h->vector[v] + (sum.from - h->from) * elem : got;
            LK_TRY(held_push(run, s, &sum, node[v], x, mine ? h->ours[v] : true));
            got += mine ? 0 : sum.n * elem;
        }
    }
    *h = sum;
    return LK_OK;
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
        LK_TRY(run->room(run->context, largest * elem, &room[i]));
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
        if (run->tiers.way[tier] == LK_WAY_RING)
            LK_TRY(ring_reduce(run, g, s));
        else
            LK_TRY(direct_reduce(run, g, s));
    }
    return LK_OK;
}

lk_status lk__tiers_finish(lk__tiers_run *run, lk__schedule *s)
{
    const lk__case *k = run->k;
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
    for (int i = run->n_stages - 1; i >= 0; i--)
        if (run->stage[i].tier == tier && !run->stage[i].whole)
            LK_TRY(stage_gather(run, &run->stage[i], s));
    return LK_OK;
}
