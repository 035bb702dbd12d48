/* struct lk__walk: joining axes into rows, and from one row to the next (walk.h).  Copies, fills and
 * comparisons of this room, and halo.c of dist, have one on their stack; any thread.
 */
#include "tensor/walk.h"

#include <string.h>

/* Append an axis, or join it to the last one. */
static void axis_add(struct lk__walk *w, int64_t dim, int64_t stride_a, int64_t stride_b)
{
    int last = w->ndim - 1;
    if (last >= 0 && w->stride[0][last] == stride_a * dim && w->stride[1][last] == stride_b * dim) {
        w->dim[last] *= dim;
    } else {
        w->dim[++last] = dim;
        w->ndim++;
    }
    w->stride[0][last] = stride_a;
    w->stride[1][last] = stride_b;
}

void lk__walk_start(struct lk__walk *w, const lk_tensor *a, const lk_tensor *b)
{
    memset(w, 0, sizeof *w);
    const lk_tensor *t[2] = {a, b ? b : a};
    w->rows_left = a->count > 0;
    for (int i = 0; i < a->shape.ndim && a->count > 0; i++)
        if (a->shape.dim[i] > 1)
            axis_add(w, a->shape.dim[i], t[0]->stride[i], t[1]->stride[i]);
    if (w->ndim == 0)
        axis_add(w, 1, 1, 1);
    int last = w->ndim - 1;
    for (int i = 0; i < last; i++)
        w->rows_left *= w->dim[i];
    w->n = w->dim[last];
    for (int k = 0; k < 2; k++) {
        w->step[k] = w->stride[k][last];
        w->row[k] = lk__tensor_start(t[k]);
        w->bytes[k] = (int64_t)lk_dtype_size(t[k]->dtype);
    }
}

void lk__walk_strip(struct lk__walk *w, int64_t start, int64_t n)
{
    w->n = n;
    for (int k = 0; k < 2; k++)
        w->row[k] += start * w->step[k] * w->bytes[k];
}

void lk__walk_next(struct lk__walk *w)
{
    w->first += w->n;
    if (--w->rows_left <= 0)
        return;
    for (int i = w->ndim - 2; i >= 0; i--) {
        bool carry = ++w->index[i] == w->dim[i];
        int64_t by = carry ? -(w->dim[i] - 1) : 1;
        for (int k = 0; k < 2; k++)
            w->row[k] += by * w->stride[k][i] * w->bytes[k];
        if (!carry)
            return;
        w->index[i] = 0;
    }
}
