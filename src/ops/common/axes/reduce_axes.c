/* Reductions over several axes, one group of neighbours at a time. */
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

/* The last group of neighbouring axes in `axes`, [*first, *last); false if there is none. */
static bool last_group(unsigned axes, int *first, int *last)
{
    int d = LK_MAX_NDIM;
    while (d > 0 && !(axes >> (d - 1) & 1))
        d--;
    *last = d;
    while (d > 0 && axes >> (d - 1) & 1)
        d--;
    *first = d;
    return *last > 0;
}

/* Of nothing: whatever the sizes of the other axes are, products of them need not fit. */
static lk_status reduce_nothing(lk_reduce_axis_op op, const lk_tensor *x, unsigned axes, void *y)
{
    int64_t outputs = lk__axes_count(x->shape, ~axes);
    return LK_TRACE(
        lk_reduce_axis(x->dtype, op, &(lk_reduce_axis_shape){outputs, 0, 1, 0}, NULL, y));
}

static int64_t product(const int64_t *dim, int first, int last)
{
    int64_t n = 1;
    for (int d = first; d < last; d++)
        n *= dim[d];
    return n;
}

lk_status lk__reduce_axes(lk_call *c, lk_reduce_axis_op op, const lk_tensor *x, unsigned axes,
                          void *y)
{
    int ndim = x->shape.ndim, first, last;
    int64_t dim[LK_MAX_NDIM];
    size_t size = lk_dtype_size(x->dtype);
    const void *from = lk__tensor_start(x);
    memcpy(dim, x->shape.dim, sizeof dim);
    if (x->count == 0) {
        return LK_TRACE(reduce_nothing(op, x, axes, y));
    }
    if (!axes && op == LK_REDUCE_AXIS_SUMSQ)
        LK_TRY(lk_reduce_axis(x->dtype, op, &(lk_reduce_axis_shape){x->count, 1, 1, 0}, from, y));
    else if (!axes)
        memcpy(y, from, (size_t)x->count * size);
    while (last_group(axes, &first, &last)) {
        lk_reduce_axis_shape s = {.outer = product(dim, 0, first),
                                  .n = product(dim, first, last),
                                  .inner = product(dim, last, ndim)};
        if (first == 0 &&
            lk_tape_shard_size(c->tape) < dim[0]) /* otherwise there is but one piece */
            s.piece = lk_tape_shard_size(c->tape) * product(dim, 1, last);
        for (int d = first; d < last; d++) {
            axes &= ~(1u << d);
            dim[d] = 1;
        }
        void *to = y;
        if (axes)
            LK_TRY(lk_call_scratch(c, s.outer * s.inner * (int64_t)size, &to));
        LK_TRY(lk_reduce_axis(x->dtype, op, &s, from, to));
        from = to;
        op = op == LK_REDUCE_AXIS_SUMSQ ? LK_REDUCE_AXIS_SUM : op; /* squared once */
    }
    return LK_OK;
}
