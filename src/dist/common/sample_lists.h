/* Lists of values in samples: one for each rank, put together to one output.  For the ..._list.c of this room. */
#ifndef LK_DIST_COMMON_SAMPLE_LISTS_H
#define LK_DIST_COMMON_SAMPLE_LISTS_H

#include "dist/common/sample_shapes.h"

#include <lockstep/extra/alloc.h>

/* All elements of `n` values, one behind the other; the values are used up. */
static inline LK_NODISCARD lk_status list_join(lk_var *xs, int n, lk_var *out)
{
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        lk_shape shape = lk_shape_of(xs[i]);
        for (int d = 0; d < shape.ndim; d++)
            count *= shape.dim[d];
        LK_TRY(lk_reshape(xs[i], LK_SHAPE(count), &xs[i]));
    }
    return LK_TRACE(lk_concat(xs, n, 0, out));
}

/* Different multiples of x, with r % 2 + 1 of its rows for rank r. */
static inline LK_NODISCARD lk_status list_parts(lk_var x, int n, lk_var *out)
{
    for (int r = 0; r < n; r++) {
        LK_TRY(lk_affine(x, 1 + 0.25 * r, 0, &out[r]));
        LK_TRY(lk_slice(out[r], 0, 0, r % 2 + 1, 1, &out[r]));
    }
    return LK_OK;
}

/* Run a part of a sample that needs room for a value for each rank, twice. */
typedef lk_status list_body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list,
                            lk_var *out);

static inline LK_NODISCARD lk_status list_run(list_body *body, const lk_dist_sample *s,
                                              lk_comm *comm, lk_var x, lk_var *out)
{
    lk_var *list = NULL;
    LK_TRY(lk_alloc(&list, INT64_C(2) * lk_comm_size(comm), sizeof *list));
    lk_status st = body(s, comm, x, list, out);
    lk_free(list);
    return LK_TRACE(st);
}

#endif /* LK_DIST_COMMON_SAMPLE_LISTS_H */
