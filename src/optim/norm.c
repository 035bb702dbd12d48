/* The norm of all gradients: the squares of each slice by pieces, slices joined in their order by the
 * fixed tree. */
#include "base/fpenv.h"

#include <lockstep/optim.h>
#include <lockstep/reduce.h>

#include <math.h>

enum { PIECE = 4096, LEVELS = 64 };

/* A tree that holds the open partial sums: level k has seen 2^k slices. */
typedef struct partials {
    double sum[LEVELS];
    int64_t n;
} partials;

static void push(partials *p, double value)
{
    int level = 0;
    for (int64_t bits = p->n++; bits % 2; bits /= 2)
        value = p->sum[level++] + value;
    p->sum[level] = value;
}

static double finish(const partials *p)
{
    double sum = 0;
    bool any = false;
    for (int level = 0; level < LEVELS && p->n >> level; level++)
        if ((p->n >> level) % 2) {
            sum = any ? p->sum[level] + sum : p->sum[level];
            any = true;
        }
    return sum;
}

lk_status lk_optim_norm(const lk_slab *params, const lk_slab *grads, double *out)
{
    LK_FP_GUARD();
    lk_layout *layout = lk_slab_layout(params);
    partials all = {.n = 0};
    lk_slab_slice slice;
    for (int64_t i = 0; i < lk_layout_slices(layout); i++) {
        union {
            float f32;
            double f64;
        } sum;
        LK_TRY(lk_layout_get(layout, i, &slice));
        lk_reduce_shape shape = {.outer = 1, .n = slice.count, .inner = 1, .piece = PIECE};
        LK_TRY(lk_reduce(slice.dtype, LK_REDUCE_SUMSQ, &shape,
                         (const char *)lk_slab_data(grads) + slice.offset, &sum));
        push(&all, slice.dtype == LK_F32 ? (double)sum.f32 : sum.f64);
    }
    *out = sqrt(finish(&all));
    return LK_OK;
}
