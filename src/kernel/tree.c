/* The fixed tree as a stream: a binary counter of partial sums.
 *
 * After n pieces, level k holds a sum of 2^k pieces where bit k of n is set.  A new piece is carried
 * upwards through the levels that are full, the older sum always the first operand:
 *
 *     n = 3 (levels 0, 1)      level 0 + piece  ->  level 1 + that  ->  level 2
 *
 * and at the end the levels are joined from the lowest up.  That is the tree of reduce.h.  A level's
 * buffer moves with its sum, so there are never more buffers than sums at one time.
 */
#include "base/fpenv.h"
#include "kernel/parallel.h"
#include "kernel/reduce.h"

#include <lockstep/alloc.h>

#include <string.h>

enum {
    MAX_LEVELS = 63,
    SLICE_BYTES = 4096, /* carried through all levels while it is in cache */
    GRAIN_SLICES = 32,
};

struct lk_tree {
    int64_t count, elem;
    lk_dtype dtype;
    int64_t n_pieces;
    unsigned char *level[MAX_LEVELS + 1];
};

lk_status lk_tree_new(lk_dtype dtype, int64_t count, lk_tree **out)
{
    LK_CHECK(out, LK_EINVAL, "lk_tree_new: out is NULL");
    *out = NULL;
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "lk_tree_new: pieces of %s: must be f32 or f64",
             lk_dtype_name(dtype));
    int64_t elem = (int64_t)lk_dtype_size(dtype), bytes;
    LK_CHECK(count >= 0, LK_EINVAL, "lk_tree_new: pieces of %lld elements", (long long)count);
    LK_CHECK(!__builtin_mul_overflow(count, elem, &bytes), LK_EOVERFLOW,
             "lk_tree_new: pieces of %lld elements of %s", (long long)count, lk_dtype_name(dtype));
    lk_tree *t;
    LK_TRY(lk_alloc_zero(&t, 1, sizeof *t));
    t->count = count;
    t->elem = elem;
    t->dtype = dtype;
    *out = t;
    return LK_OK;
}

void lk_tree_free(lk_tree *t)
{
    if (!t)
        return;
    for (int k = 0; k <= MAX_LEVELS; k++)
        lk_free(t->level[k]);
    lk_free(t);
}

/* sum[i] = sum[i] + sum[i - 1] for i = 1 ... n - 1: each is older than the one before. */
struct chain {
    unsigned char *sum[MAX_LEVELS + 2];
    int n;
    int64_t bytes, elem;
    lk__reduce_join_fn *join;
};

static void chain_tasks(void *arg, int64_t first, int64_t last)
{
    const struct chain *c = arg;
    for (int64_t i = first; i < last; i++) {
        int64_t at = i * SLICE_BYTES;
        int64_t n = (c->bytes - at < SLICE_BYTES ? c->bytes - at : SLICE_BYTES) / c->elem;
        for (int k = 1; k < c->n; k++)
            c->join(n, c->sum[k] + at, c->sum[k - 1] + at);
    }
}

static lk_status chain_join(const lk_tree *t, struct chain *c)
{
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    c->bytes = t->count * t->elem;
    c->elem = t->elem;
    c->join = table->of[t->dtype].join[LK_REDUCE_SUM];
    LK_TRY(lk__parallel((c->bytes + SLICE_BYTES - 1) / SLICE_BYTES, GRAIN_SLICES, chain_tasks, c));
    return LK_OK;
}

lk_status lk_tree_push(lk_tree *t, const void *piece)
{
    LK_FP_GUARD();
    LK_TRY(lk__fp_check());
    LK_CHECK(t, LK_EINVAL, "lk_tree_push: the tree is NULL");
    LK_CHECK(piece || t->count == 0, LK_EINVAL, "lk_tree_push: the piece of %lld elements is NULL",
             (long long)t->count);
    int full = __builtin_ctzll(~(unsigned long long)t->n_pieces);
    if (full == 0) {
        if (!t->level[0])
            LK_TRY(lk_alloc(&t->level[0], t->count, (size_t)t->elem));
        if (t->count > 0)
            memcpy(t->level[0], piece, (size_t)(t->count * t->elem));
    } else {
        /* The piece is only read: it is the first of the chain. */
        struct chain c = {.sum = {(unsigned char *)(uintptr_t)piece}, .n = full + 1};
        memcpy(&c.sum[1], t->level, (size_t)full * sizeof t->level[0]);
        LK_TRY(chain_join(t, &c));
        unsigned char *spare = t->level[full];
        t->level[full] = t->level[full - 1];
        t->level[full - 1] = spare;
    }
    t->n_pieces++;
    return LK_OK;
}

lk_status lk_tree_finish(lk_tree *t, void *sum)
{
    LK_FP_GUARD();
    LK_TRY(lk__fp_check());
    LK_CHECK(t, LK_EINVAL, "lk_tree_finish: the tree is NULL");
    LK_CHECK(sum || t->count == 0, LK_EINVAL, "lk_tree_finish: the sum of %lld elements is NULL",
             (long long)t->count);
    struct chain c = {.n = 0};
    for (int k = 0; k < MAX_LEVELS; k++)
        if (t->n_pieces >> k & 1)
            c.sum[c.n++] = t->level[k];
    if (c.n > 1)
        LK_TRY(chain_join(t, &c));
    size_t bytes = (size_t)(t->count * t->elem);
    if (bytes > 0 && c.n > 0)
        memcpy(sum, c.sum[c.n - 1], bytes);
    else if (bytes > 0)
        memset(sum, 0, bytes);
    t->n_pieces = 0;
    return LK_OK;
}
