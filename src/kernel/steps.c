/* Check the steps of a window into a larger array, and fill in those that were left out. */
#include "kernel/steps.h"

#include <stdbool.h>

enum { AXES = 3 };

/* `n` blocks of `span` elements, `*step` apart (0: dense); afterwards `*span` covers all of them.
 * False if it does not fit in 64 bits. */
static bool span_extend(int64_t n, int64_t *step, int64_t *dense, int64_t *span)
{
    if (*step == 0)
        *step = *dense;
    int64_t reach;
    return !__builtin_mul_overflow(n, *step, dense) &&
           !__builtin_mul_overflow(n - 1, *step, &reach) &&
           !__builtin_add_overflow(*span, reach, span);
}

lk_status lk__steps_fill(const lk__steps *v, int64_t elem)
{
    bool empty = v->batch == 0 || v->channels == 0;
    for (int d = 0; d < AXES; d++)
        empty = empty || v->size[d] == 0;
    if (empty) {
        *v->sample = *v->extent = 0;
        for (int d = 0; d < AXES; d++)
            v->step[d] = 0;
        return LK_OK;
    }
    int64_t span = v->channels, dense = v->channels;
    for (int d = AXES - 1; d >= 0; d--) {
        int64_t inner = span;
        LK_CHECK(span_extend(v->size[d], &v->step[d], &dense, &span), LK_EOVERFLOW,
                 "%s has %lld positions along %s[%d], %lld elements apart", v->name,
                 (long long)v->size[d], v->size_name, d - v->front, (long long)v->step[d]);
        LK_CHECK(v->size[d] == 1 || v->step[d] >= inner, LK_ESHAPE,
                 "%s[%d] is %lld, but what lies within one step takes %lld elements", v->step_name,
                 d - v->front, (long long)v->step[d], (long long)inner);
    }
    int64_t inner = span, bytes;
    LK_CHECK(span_extend(v->batch, v->sample, &dense, &span) &&
                 !__builtin_mul_overflow(span, elem, &bytes),
             LK_EOVERFLOW, "%s has %lld samples of %lld elements, %lld apart", v->name,
             (long long)v->batch, (long long)inner, (long long)*v->sample);
    LK_CHECK(v->batch == 1 || *v->sample >= inner, LK_ESHAPE,
             "%s is %lld, but one sample takes %lld elements", v->sample_name,
             (long long)*v->sample, (long long)inner);
    *v->extent = span;
    return LK_OK;
}
