/* allreduce, ring: segments travel twice round the ring, one behind the other.
 *
 *     first round    0 ─► 1 ─► 2 ─► 3          the subtrees of all pieces so far: rank r
 *     second round   3 ─► 0 ─► 1 ─► 2          merges its own with them and passes them on; the last
 *                                              rank has the sum, and sends it round
 *
 * So the order is that of the fixed tree, which the usual ring (each segment begins elsewhere) is not.
 * What travels from rank r on is one vector for each subtree of the pieces up to r's: at
 * powers of two as many as r + 1 has bits that are set.  Any number of ranks and pieces; not f16 and
 * bf16.  Each rank talks to its two neighbours only.
 *
 * Cost: (S + 2 P - 3) (alpha + m n / S beta) + m n gamma with S segments and m the mean number of
 * subtrees that travel, at most 1 + log2(P) / 2.
 */
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>

enum { SEGMENT_BYTES = 256 * 1024, MAX_SEGMENTS = 64 };

static int segments_of(const lk__coll_args *k)
{
    int64_t n = (k->bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
    return n < 1 ? 1 : n > MAX_SEGMENTS ? MAX_SEGMENTS : (int)n;
}

static double ring_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)k->bytes, m = 1 + lk__coll_args_rounds(k) / 2.0, segments = segments_of(k);
    return (segments + 2 * k->size - 3) * (r->alpha + m * n / segments * r->beta) +
           m * n * r->gamma;
}

struct ring {
    const lk__coll_args *k;
    lk__schedule *s;
    int segments;
    lk_range before[LK_MAX_SUBTREES], own[LK_MAX_SUBTREES];
    int64_t n_before, n_own;
    unsigned char *room[2]; /* for what travels at even and at odd times */
    lk__leaf leaf[2 * LK_MAX_SUBTREES];
};

static lk_range segment_of(const struct ring *g, int i)
{
    return lk_range_split(g->k->c.count, i, g->segments);
}

static unsigned char *out_of(const struct ring *g, int i)
{
    return (unsigned char *)g->k->c.out + segment_of(g, i).first * g->k->elem;
}

/* First round: where the subtrees of segment i are, and the receives of those before. */
static lk_status ring_receive(struct ring *g, int i, unsigned char *room)
{
    int64_t bytes = segment_of(g, i).n * g->k->elem;
    for (int64_t j = 0; j < g->n_before + g->n_own; j++) {
        g->leaf[j].at = j < g->n_before ? g->before[j] : g->own[j - g->n_before];
        g->leaf[j].data = room + j * bytes;
        if (j < g->n_before)
            LK_TRY(lk__schedule_recv(g->s, g->k->rank - 1, g->leaf[j].data, bytes));
    }
    return LK_OK;
}

static lk_status ring_merge(struct ring *g, int i)
{
    const lk__coll_args *k = g->k;
    lk_range segment = segment_of(g, i);
    int64_t bytes = segment.n * k->elem, n = g->n_before + g->n_own;
    for (int64_t j = 0; j < g->n_own; j++)
        LK_TRY(lk__schedule_copy(g->s, g->leaf[g->n_before + j].data,
                                 lk__coll_args_in(k) + j * k->stride + segment.first * k->elem,
                                 bytes));
    LK_TRY(lk__schedule_merge(g->s, k, segment.n, g->leaf, &n));
    if (k->rank < k->size - 1) {
        for (int64_t j = 0; j < n; j++)
            LK_TRY(lk__schedule_send(g->s, k->rank + 1, g->leaf[j].data, bytes));
        return LK_OK;
    }
    LK_TRY(lk__schedule_copy(g->s, out_of(g, i), g->leaf[0].data, bytes));
    LK_TRY(lk__schedule_finish(g->s, out_of(g, i), segment.n));
    return k->size > 1 ? lk__schedule_send(g->s, 0, out_of(g, i), bytes) : LK_OK;
}

/* At each time a rank receives what its neighbour sent at the time before; so no rank waits for
 * one that waits for it. */
static lk_status ring_times(struct ring *g)
{
    const lk__coll_args *k = g->k;
    int rank = k->rank, size = k->size, before = (rank + size - 1) % size;
    for (int t = 0; t <= g->segments + 2 * size - 3; t++) {
        int first = t - rank, second = t - size - rank;
        bool in_first = first >= 0 && first < g->segments;
        bool in_second = second >= 0 && second < g->segments && rank < size - 1;
        if (!in_first && !in_second)
            continue;
        if (in_first)
            LK_TRY(ring_receive(g, first, g->room[t % 2]));
        if (in_second)
            LK_TRY(lk__schedule_recv(g->s, before, out_of(g, second),
                                     segment_of(g, second).n * k->elem));
        LK_TRY(lk__schedule_wait(g->s));
        if (in_first)
            LK_TRY(ring_merge(g, first));
        if (in_second && rank < size - 2)
            LK_TRY(lk__schedule_send(g->s, rank + 1, out_of(g, second),
                                     segment_of(g, second).n * k->elem));
    }
    return LK_OK;
}

static lk_status ring_schedule(const lk__coll_args *k, lk__schedule *s)
{
    lk_status st;
    struct ring *g;
    LK_TRY(lk_alloc_zero(&g, 1, sizeof *g));
    g->k = k;
    g->s = s;
    g->segments = segments_of(k);
    g->n_before = lk_range_subtrees(k->pieces, (lk_range){0, k->first[k->rank]}, g->before);
    g->n_own = lk__coll_args_subtrees(k, k->rank, g->own, LK_MAX_SUBTREES);
    int64_t most = (k->c.count / g->segments + 1) * k->elem * (g->n_before + g->n_own);
    for (int i = 0; i < 2; i++)
        LK_TRY_TO(done, lk__schedule_room(s, most, &g->room[i]));
    LK_TRY_TO(done, ring_times(g));
done:
    lk_free(g);
    return st;
}

const lk__coll lk__coll_allreduce_ring = {.call = LK_CALL_ALLREDUCE,
                                          .name = "ring",
                                          .summary = "segments twice round the ring, in order",
                                          .needs = "any dtype but f16 and bf16",
                                          .eligible = lk__tree_eligible,
                                          .cost = ring_cost,
                                          .schedule = ring_schedule};
