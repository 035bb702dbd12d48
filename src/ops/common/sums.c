/* Sums of maps with the scratch memory of a call. */
#include "ops/common/sums.h"

#include <lockstep/extra/reduce.h>

lk_status lk__call_sums(lk_call *c, lk__map_sums *s)
{
    int64_t bytes;
    void *room;
    LK_TRY(lk__map_sums_room(s, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk__map_sums_run(s, room));
}

lk_status lk__call_sums_joined(lk_call *c, lk__map_sums *s, void *const out[LK_SUMS_MOST])
{
    const int terms = lk__down_terms[s->down][1] == LK__TERM_NONE ? 1 : 2;
    lk_reduce_axis_shape tree = {
        .outer = 1, .n = lk__map_sums_pieces(s), .inner = s->n, .piece = 1};
    const int64_t bytes = tree.n * s->n * (int64_t)lk_dtype_size(s->dtype);
    LK_TRY(lk_call_scratch(c, terms * bytes, &s->sums));
    LK_TRY(lk__call_sums(c, s));
    for (int k = 0; k < terms; k++)
        LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &tree, (char *)s->sums + k * bytes,
                              out[k]));
    return LK_OK;
}
