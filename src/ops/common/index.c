/* Indices within bounds. */
#include "ops/common/index.h"

#include "base/memory/rehearsal.h"

/* Where element `i` in row-major order is. */
static lk_short_string place_text(lk_shape shape, int64_t i)
{
    lk_shape at = {.ndim = shape.ndim};
    for (int d = shape.ndim - 1; d >= 0; d--) {
        at.dim[d] = i % shape.dim[d];
        i /= shape.dim[d];
    }
    return lk_shape_text(at);
}

lk_status lk__index_check(const lk_tensor *t, int64_t bound, const char *what)
{
    for (int64_t i = 0; i < t->count && !lk__rehearses(); i++) {
        int64_t v = lk__index_at(t, i);
        LK_CHECK(v >= 0 && v < bound, LK_EINVAL, "%s %lld at %s of %s is not in [0, %lld)", what,
                 (long long)v, place_text(t->shape, i).s, lk_tensor_text(t).s, (long long)bound);
    }
    return LK_OK;
}

lk_status lk__index_infer(const lk_call *c)
{
    const lk_tensor *index = c->x[1];
    LK_CHECK(lk__is_index(index->dtype), LK_EDTYPE, "%s of %s by %s: indices are i32 or i64",
             c->op->name, lk_tensor_text(c->x[0]).s, lk_tensor_text(index).s);
    LK_CHECK(index->shape.ndim == 1, LK_ESHAPE, "%s of %s by %s: indices are a vector", c->op->name,
             lk_tensor_text(c->x[0]).s, lk_tensor_text(index).s);
    return LK_OK;
}
