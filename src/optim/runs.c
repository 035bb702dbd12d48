/* Runs of elements that move: where some tensors are frozen, a step goes over the others only, several at a
 * time where they lie side by side.  Steps and rules call this, on any thread. */
#include "optim/optimizer.h"

/* Where tensor `i` begins in the slab; behind the last, where the slab ends. */
static int64_t begin_of(const lk_update_call *call, int64_t i, int64_t end)
{
    lk_slab_slice slice;
    if (i >= lk_slab_layout_slices(call->layout) ||
        lk_slab_layout_slice(call->layout, i, &slice) != LK_OK)
        return end;
    return slice.offset / (int64_t)lk_dtype_size(call->dtype);
}

/* What tensor `i` has of the elements from `at` on and before `end`, the gap behind it too. */
static lk_range part_of(const lk_update_call *call, int64_t i, int64_t at, int64_t end)
{
    int64_t first = begin_of(call, i, end), last = begin_of(call, i + 1, end);
    first = first > at ? first : at;
    last = last < end ? last : end;
    return (lk_range){first, last > first ? last - first : 0};
}

bool lk__run_next(const lk_update_call *call, int64_t *at, int64_t end, lk_range *out)
{
    int64_t n = lk_slab_layout_slices(call->layout);
    *out = (lk_range){*at, call->frozen ? 0 : end - *at};
    for (int64_t i = 0; call->frozen && i < n; i++) {
        lk_range part = part_of(call, i, *at, end);
        if (part.n == 0) /* before `at`, behind the end, or nothing of it is here */
            continue;
        if (call->frozen[i] && out->n > 0)
            break;
        if (!call->frozen[i]) {
            out->first = out->n > 0 ? out->first : part.first;
            out->n += part.n;
        }
    }
    *at = out->first + out->n;
    return out->n > 0;
}
