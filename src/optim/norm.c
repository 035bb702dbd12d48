/* Sums over all parameters, such as the norm of all gradients: each slice by pieces, slices joined in
 * their order by the fixed tree. */
#include "base/fpenv.h"
#include "base/partials.h"
#include "optim/optimizer.h"

#include <math.h>

enum { PIECE = 4096 };

/* The sums so far, one double each. */
typedef struct tree {
    lk__partials sums;
    double room[LK__LEVELS + 1];
} tree;

static double *chain_join(void **chain, int n)
{
    for (int i = 1; i < n; i++)
        *(double *)chain[i] += *(double *)chain[i - 1];
    return chain[n - 1];
}

static void push(tree *t, double value)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_chain(&t->sums, &value, chain);
    double sum = *chain_join(chain, n);
    if (n == 1)
        *(double *)t->sums.level[0] = sum;
    lk__partials_carry(&t->sums);
}

static double finish(const tree *t)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_rest(&t->sums, chain);
    return n > 0 ? *chain_join(chain, n) : 0;
}

lk_status lk__tensors_reduce(const lk_slab_layout *layout, lk_reduce_axis_op op, const void *data,
                             double *out)
{
    tree all;
    lk_slab_slice slice;
    LK_CHECK(lk_slab_layout_is_whole(layout, &slice), LK_ENOTSUP,
             "the norm of all gradients: of %s there is %s here, a part", slice.name,
             lk_slab_slice_text(&slice).s);
    all.sums.n = 0;
    for (int k = 0; k <= LK__LEVELS; k++)
        all.sums.level[k] = &all.room[k];
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        union {
            float f32;
            double f64;
        } sum;
        LK_TRY(lk_slab_layout_slice(layout, i, &slice));
        lk_reduce_axis_shape shape = {.outer = 1, .n = slice.count, .inner = 1, .piece = PIECE};
        LK_TRY(lk_reduce_axis(slice.dtype, op, &shape, (const char *)data + slice.offset, &sum));
        push(&all, slice.dtype == LK_F32 ? (double)sum.f32 : sum.f64);
    }
    *out = finish(&all);
    return LK_OK;
}

lk_status lk_gradient_norm(const lk_slab *params, const lk_slab *grads, double *out)
{
    LK_FP_GUARD();
    double squares;
    LK_TRY(lk__tensors_reduce(lk_slab_layout_of(params), LK_REDUCE_AXIS_SUMSQ, lk_slab_data(grads),
                              &squares));
    *out = sqrt(squares);
    return LK_OK;
}
