/* Parameters of ops on tiles: plain, or one for each tile (tiles.h).  The calls of such ops bring them to
 * one form, [leaves][...], of which the op reads the first.
 */
#include "dist/common/tiles.h"
#include "tensor/tensor.h"

#include <lockstep/ops.h>

/* Whether what lies in one index of axis 0 is without gaps. */
static bool is_dense_within(const lk_tensor *t)
{
    int64_t step = 1;
    for (int d = t->shape.ndim - 1; d > 0; d--) {
        if (t->shape.dim[d] > 1 && t->stride[d] != step)
            return t->count == 0;
        step *= t->shape.dim[d];
    }
    return true;
}

lk_status lk__tile_param(const lk_tiling *tiling, lk_var w, int ndim, const char *name, lk_var *out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(w, &t));
    if (t->shape.ndim != ndim + 1) { /* of neither form: the op says what it should be */
        LK_TRY(lk_contiguous(w, &w));
        LK_TRY(lk_dist_each_tile(tiling, w, name, out));
    } else if (!is_dense_within(t)) {
        LK_TRY(lk_contiguous(w, out));
    } else {
        *out = w;
    }
    return LK_OK;
}
