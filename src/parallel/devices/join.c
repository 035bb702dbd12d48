/* Sums of micro-batches, joined by the fixed tree over the shards.
 *
 * The micro-batches of all replicas are in the order of the shards, and each is a subtree: so the tree over
 * the shards has them as leaves.  It is run through block by block, so that what is joined stays near.
 */
#include "parallel/devices/replicas.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

enum { BLOCK = 2048, ROOMS = 32 }; /* bytes; a tree of 2^k shards needs at most k rooms */

/* A walk over the leaves. */
typedef struct walk {
    const lk__parallel_run *run;
    int replica, k;
    int64_t from, n; /* elements of the block */
    char (*room)[BLOCK];
} walk;

static const lk__gradients *next_leaf(walk *w)
{
    while (w->k == w->run->replica[w->replica].n_sums) {
        w->replica++;
        w->k = 0;
    }
    return &w->run->replica[w->replica].sums[w->k];
}

lk_status lk__gradients_add(lk_dtype dtype, int64_t n, void *a, const void *b)
{
    return LK_TRACE(lk_map2(dtype, LK_MAP2_ADD, 0, n, a, b, a));
}

lk_status lk__gradients_fold(lk_dtype dtype, int64_t count, char *array, int64_t stride, int64_t n)
{
    if (n < 2)
        return LK_OK;
    int64_t half = lk_tree_half(n);
    LK_TRY(lk__gradients_fold(dtype, count, array, stride, half));
    LK_TRY(lk__gradients_fold(dtype, count, array + half * stride, stride, n - half));
    return LK_TRACE(lk__gradients_add(dtype, count, array, array + half * stride));
}

/* The sum of a subtree: *out is where it lies, a leaf or room[depth]. */
static lk_status subtree_join(walk *w, lk_range at, int depth, const char **out)
{
    lk_dtype dtype = w->run->shape.dtype;
    const lk__gradients *leaf = next_leaf(w);
    if (leaf->shards.first == at.first && leaf->shards.n == at.n) {
        *out = (const char *)lk_slab_data(leaf->slab) + w->from * (int64_t)lk_dtype_size(dtype);
        w->k++;
        return LK_OK;
    }
    const char *lower = NULL, *upper = NULL;
    char *room = w->room[depth];
    int64_t half = lk_tree_half(at.n);
    LK_TRY(subtree_join(w, (lk_range){at.first, half}, depth, &lower));
    LK_TRY(
        subtree_join(w, (lk_range){at.first + half, at.n - half}, depth + (lower == room), &upper));
    LK_TRY(lk_map2(dtype, LK_MAP2_ADD, 0, w->n, lower, upper, room));
    *out = room;
    return LK_OK;
}

lk_status lk__join_run(const lk__join *j)
{
    _Alignas(64) char room[ROOMS][BLOCK];
    const lk__gradients_shape *shape = &j->run->shape;
    int64_t elem = (int64_t)lk_dtype_size(shape->dtype), block = BLOCK / elem;
    for (int64_t at = 0; at < j->n; at += block) {
        const char *sum = NULL;
        int64_t n = j->n - at < block ? j->n - at : block;
        char *out = (char *)j->out + at * elem;
        walk w = {.run = j->run, .from = j->from + at, .n = n, .room = room};
        LK_TRY(subtree_join(&w, (lk_range){0, j->run->shards}, 0, &sum));
        if (j->zeros)
            memset(out, 0, (size_t)(n * elem));
        if (j->zeros || j->add)
            LK_TRY(lk__gradients_add(shape->dtype, n, out, sum));
        else
            memcpy(out, sum, (size_t)(n * elem));
    }
    return LK_OK;
}
