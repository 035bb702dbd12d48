/* Shares: each rank joins a part of the vector, of which all others send it what they have.
 *
 *     rank 0   a0 b0 c0        rank 0 gets a0 a1 a2 and joins them, rank 1 b0 b1 b2, ...
 *     rank 1   a1 b1 c1
 *     rank 2   a2 b2 c2        P - 1 messages out and in, whatever the pieces
 *
 * What is sent is the input itself, so f16 and bf16 lose nothing on the way.
 */
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

lk_range lk__coll_args_share(const lk__coll_args *k, int r)
{
    if (k->counts)
        return (lk_range){k->offsets[r], k->counts[r]};
    return lk_range_split(k->c.count, r, k->size);
}

/* The leaves of all ranks, in order, with room for `count` elements of each: `wire` as they travel,
 * `leaf` as they are joined. */
static lk_status leaves_make(lk__schedule *s, const lk__coll_args *k, int64_t count, lk__leaf *leaf,
                             int64_t n, unsigned char **wire)
{
    unsigned char *data;
    int64_t elements, bytes;
    LK_TRY(lk_mul_i64(n, count, &elements));
    LK_TRY(lk_mul_i64(elements, k->work_elem, &bytes));
    LK_TRY(lk__schedule_room(s, bytes, &data));
    *wire = data;
    if (k->work != k->c.dtype)
        LK_TRY(lk__schedule_room(s, elements * k->elem, wire));
    int64_t at = 0;
    for (int r = 0; r < k->size; r++) {
        lk_range node[LK_MAX_SUBTREES];
        int64_t n_nodes = lk__coll_args_subtrees(k, r, node, LK_MAX_SUBTREES);
        for (int64_t i = 0; i < n_nodes; i++, at++) {
            leaf[at].at = k->work != k->c.dtype ? (lk_range){k->first[r] + i, 1} : node[i];
            leaf[at].data = data + at * count * k->work_elem;
        }
    }
    return LK_OK;
}

static lk_status shares_exchange(lk__schedule *s, const lk__coll_args *k, const int64_t *first_leaf,
                                 unsigned char *wire)
{
    const unsigned char *in = lk__coll_args_in(k);
    lk_range mine = lk__coll_args_share(k, k->rank);
    for (int step = 0; step < k->size; step++) {
        int to = (k->rank + step) % k->size, from = (k->rank - step + k->size) % k->size;
        lk_range theirs = lk__coll_args_share(k, to);
        for (int64_t i = 0; mine.n > 0 && i < first_leaf[from + 1] - first_leaf[from]; i++) {
            unsigned char *room = wire + (first_leaf[from] + i) * mine.n * k->elem;
            if (step > 0)
                LK_TRY(lk__schedule_recv(s, from, room, mine.n * k->elem));
            else
                LK_TRY(lk__schedule_copy(s, room, in + i * k->stride + mine.first * k->elem,
                                         mine.n * k->elem));
        }
        for (int64_t i = 0; step > 0 && theirs.n > 0 && i < k->n_vectors; i++)
            LK_TRY(lk__schedule_send(s, to, in + i * k->stride + theirs.first * k->elem,
                                     theirs.n * k->elem));
    }
    return lk__schedule_wait(s);
}

static lk_status shares_join(lk__schedule *s, const lk__coll_args *k, lk__leaf *leaf, int64_t n,
                             const unsigned char *wire, void *out)
{
    int64_t count = lk__coll_args_share(k, k->rank).n;
    bool half = k->work != k->c.dtype;
    if (count == 0)
        return LK_OK;
    if (half)
        LK_TRY(lk__schedule_widen(s, leaf[0].data, wire, n * count));
    LK_TRY(lk__schedule_merge(s, k, count, leaf, &n));
    LK_TRY(lk__schedule_finish(s, leaf[0].data, count));
    if (half)
        return lk__schedule_narrow(s, out, leaf[0].data, count);
    return lk__schedule_copy(s, out, leaf[0].data, count * k->elem);
}

lk_status lk__schedule_shares(lk__schedule *s, const lk__coll_args *k, void *out)
{
    lk_status st;
    lk__leaf *leaf = NULL;
    int64_t *first_leaf = NULL, n = 0;
    unsigned char *wire = NULL;
    LK_TRY(lk_alloc(&first_leaf, k->size + 1, sizeof *first_leaf));
    for (int r = 0; r < k->size; r++) {
        first_leaf[r] = n;
        n += lk__coll_args_subtrees(k, r, NULL, 0);
    }
    first_leaf[k->size] = n;
    LK_TRY_TO(done, lk_alloc(&leaf, n, sizeof *leaf));
    LK_TRY_TO(done, leaves_make(s, k, lk__coll_args_share(k, k->rank).n, leaf, n, &wire));
    LK_TRY_TO(done, shares_exchange(s, k, first_leaf, wire));
    LK_TRY_TO(done, shares_join(s, k, leaf, n, wire, out));
done:
    lk_free(leaf);
    lk_free(first_leaf);
    return st;
}

double lk__shares_cost(const lk__coll_args *k, const lk__rates *r)
{
    double others = k->size - 1, n = (double)k->bytes;
    double m = (double)k->pieces < k->size ? 1 : (double)lk__coll_args_subtrees(k, 0, NULL, 0);
    return 2 * others * r->alpha + others / k->size * n * (m + 1) * r->beta + m * n * r->gamma;
}

double lk__direct_cost(const lk__coll_args *k, const lk__rates *r)
{
    return (k->size - 1) * r->alpha + (double)(k->extent * k->elem) * r->beta;
}
