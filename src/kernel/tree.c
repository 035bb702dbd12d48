/* The tree over vectors as a stream: partials.h, with the threads that add. */
#include "base/fpenv.h"
#include "base/partials.h"
#include "kernel/reduce.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum {
    SLICE_BYTES = 4096, /* carried through all levels while it is in cache */
};

struct lk_tree {
    int64_t count, elem;
    lk_dtype dtype;
    lk__partials sums;
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
    for (int k = 0; k <= LK__LEVELS; k++)
        lk_free(t->sums.level[k]);
    lk_free(t);
}

/* sum[i] = sum[i] + sum[i - 1] for i = 1 ... n - 1: each is older than the one before. */
struct chain {
    void *sum[LK__CHAIN];
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
            c->join(n, (char *)c->sum[k] + at, (char *)c->sum[k - 1] + at);
    }
}

static lk_status chain_join(const lk_tree *t, struct chain *c)
{
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    c->bytes = t->count * t->elem;
    c->elem = t->elem;
    c->join = table->of[t->dtype].join[LK_REDUCE_AXIS_SUM];
    return LK_TRACE(lk__parallel(lk__tasks_bytes((c->bytes + SLICE_BYTES - 1) / SLICE_BYTES,
                                                 (int64_t)SLICE_BYTES * (c->n - 1)),
                                 chain_tasks, c));
}

lk_status lk_tree_push(lk_tree *t, const void *piece)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(t, LK_EINVAL, "lk_tree_push: the tree is NULL");
    LK_CHECK(piece || t->count == 0, LK_EINVAL, "lk_tree_push: the piece of %lld elements is NULL",
             (long long)t->count);
    struct chain c;
    c.n = lk__partials_chain(&t->sums, piece, c.sum);
    if (c.n > 1) {
        LK_TRY(chain_join(t, &c));
    } else {
        if (!t->sums.level[0])
            LK_TRY(lk_alloc(&t->sums.level[0], t->count, (size_t)t->elem));
        if (t->count > 0)
            memcpy(t->sums.level[0], piece, (size_t)(t->count * t->elem));
    }
    lk__partials_carry(&t->sums);
    return LK_OK;
}

lk_status lk_tree_finish(lk_tree *t, void *sum)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(t, LK_EINVAL, "lk_tree_finish: the tree is NULL");
    LK_CHECK(sum || t->count == 0, LK_EINVAL, "lk_tree_finish: the sum of %lld elements is NULL",
             (long long)t->count);
    struct chain c;
    c.n = lk__partials_rest(&t->sums, c.sum);
    if (c.n > 1)
        LK_TRY(chain_join(t, &c));
    size_t bytes = (size_t)(t->count * t->elem);
    if (bytes > 0 && c.n > 0)
        memcpy(sum, c.sum[c.n - 1], bytes);
    else if (bytes > 0)
        memset(sum, 0, bytes);
    t->sums.n = 0;
    return LK_OK;
}
