/* Equality and hash of all elements, by their bits, wherever they lie. */
#include "kernel/copy.h"
#include "tensor/walk.h"

#include <string.h>

enum { CHUNK_BYTES = 4096 };

/* n elements of row k from number `first` on, without gaps: in place, or gathered in `buf`. */
static const char *row_dense(const struct lk__walk *w, int k, int64_t first, int64_t n, char *buf)
{
    const char *src = w->row[k] + first * w->step[k] * w->bytes[k];
    if (w->step[k] == 1)
        return src;
    lk__row_copy(w->bytes[k], n, src, w->step[k], buf, 1);
    return buf;
}

static bool row_equal(const struct lk__walk *w)
{
    char buf[2][CHUNK_BYTES];
    int64_t chunk = CHUNK_BYTES / w->bytes[0];
    for (int64_t done = 0; done < w->n; done += chunk) {
        int64_t m = w->n - done < chunk ? w->n - done : chunk;
        const char *a = row_dense(w, 0, done, m, buf[0]), *b = row_dense(w, 1, done, m, buf[1]);
        if (memcmp(a, b, (size_t)(m * w->bytes[0])) != 0)
            return false;
    }
    return true;
}

bool lk_tensor_is_equal(const lk_tensor *a, const lk_tensor *b)
{
    if (a->dtype != b->dtype || !lk_shape_is_equal(a->shape, b->shape))
        return false;
    struct lk__walk w;
    for (lk__walk_start(&w, a, b); w.rows_left > 0; lk__walk_next(&w))
        if (!row_equal(&w))
            return false;
    return true;
}

static uint64_t row_sum(const struct lk__walk *w, lk_dtype dtype)
{
    char buf[CHUNK_BYTES];
    uint64_t sum = 0;
    int64_t chunk = w->step[0] == 1 ? w->n : CHUNK_BYTES / w->bytes[0];
    for (int64_t done = 0; done < w->n; done += chunk) {
        int64_t m = w->n - done < chunk ? w->n - done : chunk;
        sum += lk_hash_sum(dtype, m, row_dense(w, 0, done, m, buf), w->first + done);
    }
    return sum;
}

void lk_tensor_hash(const lk_tensor *t, const char *name, lk_hash *h)
{
    uint64_t sum = 0;
    struct lk__walk w;
    for (lk__walk_start(&w, t, NULL); w.rows_left > 0; lk__walk_next(&w))
        sum += row_sum(&w, t->dtype);
    lk_hash_add_tensor(h, name, t->dtype, t->shape.ndim, t->shape.dim, sum);
}
