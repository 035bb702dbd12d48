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

bool lk__run_next(const lk_update_call *call, int64_t *at, int64_t end, lk_range *out)
{
    int64_t n = lk_slab_layout_slices(call->layout), i = 0;
    *out = (lk_range){*at, end - *at};
    if (call->frozen) {
        while (i < n && begin_of(call, i + 1, end) <= *at)
            i++;
        while (i < n && call->frozen[i])
            i++;
        int64_t first = begin_of(call, i, end);
        out->first = first > *at ? first : *at;
        while (i < n && !call->frozen[i])
            i++;
        int64_t last = begin_of(call, i, end);
        out->n = (last < end ? last : end) - out->first;
    }
    *at = out->first + out->n;
    return out->n > 0;
}
