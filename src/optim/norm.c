/* Sums over all parameters, such as the norm of all gradients: each slice by pieces, slices joined in
 * their order by the fixed tree.  Of slices that other ranks hold, these have the sums
 * (lk_optimizer_input.join_sums); of positions, too (lk_optimizer_positions), and of blocks (blocks.c). */
#include "base/fpenv.h"
#include "base/partials.h"
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

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

bool lk__slice_is_elsewhere(const lk_slab_slice *slice)
{
    int64_t elements = 1;
    for (int i = 0; i < slice->shape.ndim; i++)
        elements *= slice->shape.dim[i];
    return slice->count == 0 && elements > 0;
}

static lk_status slice_reduce(const lk_slab_slice *slice, lk_reduce_axis_op op, const void *data,
                              double *out)
{
    union {
        float f32;
        double f64;
    } sum;
    lk_reduce_axis_shape shape = {.outer = 1, .n = slice->count, .inner = 1, .piece = PIECE};
    LK_TRY(lk_reduce_axis(slice->dtype, op, &shape, (const char *)data + slice->offset, &sum));
    *out = slice->dtype == LK_F32 ? (double)sum.f32 : sum.f64;
    return LK_OK;
}

/* Whether tensor `i` has no part in sums over what moves. */
static bool is_frozen(const lk_update_call *call, int64_t i)
{
    return call->frozen && call->frozen[i];
}

/* Whether tensor `i` is added up by blocks. */
static bool is_cut(const lk_update_call *call, int64_t i)
{
    return call->blocks && call->blocks->cut[i].n > 0;
}

/* How many axes of tensor `i` are positions. */
static int position_axes(const lk_update_call *call, int64_t i)
{
    return call->positions ? call->positions->axes[i] : 0;
}

/* The sums of the positions that are here, which p->sum gets at their places in the whole; others are 0. */
static lk_status positions_fill(const lk_optimizer_positions *p, const lk_slab_slice *slice,
                                const lk_box *box, lk_reduce_axis_op op, const void *data)
{
    int64_t held = lk_box_count(box);
    lk_box all = lk_box_whole(box->ndim, slice->shape.dim);
    double *own = p->sum + lk_box_count(&all);
    memset(p->sum, 0, (size_t)lk_box_count(&all) * sizeof *p->sum);
    if (held == 0 || slice->count == 0)
        return LK_OK;
    lk_reduce_axis_shape shape = {
        .outer = held, .n = slice->count / held, .inner = 1, .piece = PIECE};
    LK_TRY(lk_reduce_axis(slice->dtype, op, &shape, (const char *)data + slice->offset, own));
    lk_box_walk walk = lk_box_start(box, slice->shape.dim);
    while (lk_box_next(&walk))
        for (int64_t i = 0; i < walk.n; i++) /* + 0: no sum of sums depends on the sign of a zero */
            p->sum[walk.place + i] = 0.0 + (slice->dtype == LK_F32
                                                ? (double)((const float *)own)[walk.at + i]
                                                : own[walk.at + i]);
    return LK_OK;
}

static lk_status positions_reduce(const lk_update_call *call, int axes, const lk_slab_slice *slice,
                                  lk_reduce_axis_op op, const void *data, double *out)
{
    const lk_optimizer_positions *p = call->positions;
    lk_box box = {.ndim = axes}, all = lk_box_whole(axes, slice->shape.dim);
    for (int d = 0; d < axes; d++) {
        box.first[d] = slice->box.first[d];
        box.n[d] = slice->box.n[d];
    }
    LK_TRY(positions_fill(p, slice, &box, op, data));
    if (p->join)
        LK_TRY(p->join(p->context, p->sum, lk_box_count(&all)));
    lk_reduce_axis_shape shape = {.outer = 1, .n = lk_box_count(&all), .inner = 1, .piece = PIECE};
    return LK_TRACE(lk_reduce_axis(LK_F64, LK_REDUCE_AXIS_SUM, &shape, p->sum, out));
}

/* The sum of each tensor into call->sum, those of other ranks as well. */
static lk_status sums_join(const lk_update_call *call, lk_reduce_axis_op op, const void *data)
{
    int64_t n = lk_slab_layout_slices(call->layout);
    for (int64_t i = 0; i < n; i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(call->layout, i, &slice));
        call->sum[i] = 0;
        if (is_frozen(call, i) || (!is_cut(call, i) && lk__slice_is_elsewhere(&slice)))
            continue;
        if (is_cut(call, i))
            LK_TRY(lk__blocks_tensor(call->blocks, i, &call->sum[i]));
        else if (position_axes(call, i) > 0)
            LK_TRY(positions_reduce(call, position_axes(call, i), &slice, op, data, &call->sum[i]));
        else
            LK_TRY(slice_reduce(&slice, op, data, &call->sum[i]));
    }
    return LK_TRACE(call->join_sums(call->context, call->sum, n));
}

/* Whether each tensor is here, or is joined from elsewhere. */
static lk_status slices_check(const lk_update_call *call)
{
    lk_slab_slice slice;
    if (lk_slab_layout_is_whole(call->layout, &slice))
        return LK_OK;
    for (int64_t i = 0; i < lk_slab_layout_slices(call->layout); i++) {
        int64_t elements;
        LK_TRY(lk_slab_layout_slice(call->layout, i, &slice));
        LK_TRY(lk_shape_count(slice.shape, &elements));
        LK_CHECK(slice.count == elements || (call->join_sums && slice.count == 0) ||
                     (position_axes(call, i) > 0 && call->positions->join) || is_cut(call, i),
                 LK_ENOTSUP, "a number over all parameters: of %s there is %s here, a part",
                 slice.name, lk_slab_slice_text(&slice).s);
    }
    return LK_OK;
}

lk_status lk__tensors_reduce(const lk_update_call *call, lk_reduce_axis_op op, const void *data,
                             double *out)
{
    tree all;
    LK_TRY(slices_check(call));
    if (call->blocks)
        LK_TRY(lk__blocks_reduce(call, op, data));
    if (call->join_sums)
        LK_TRY(sums_join(call, op, data));
    all.sums.n = 0;
    for (int k = 0; k <= LK__LEVELS; k++)
        all.sums.level[k] = &all.room[k];
    for (int64_t i = 0; i < lk_slab_layout_slices(call->layout); i++) {
        lk_slab_slice slice;
        double sum = call->join_sums ? call->sum[i] : 0;
        LK_TRY(lk_slab_layout_slice(call->layout, i, &slice));
        if (is_frozen(call, i))
            sum = 0;
        else if (is_cut(call, i) && !call->join_sums)
            LK_TRY(lk__blocks_tensor(call->blocks, i, &sum));
        else if (position_axes(call, i) > 0 && !call->join_sums)
            LK_TRY(positions_reduce(call, position_axes(call, i), &slice, op, data, &sum));
        else if (!call->join_sums)
            LK_TRY(slice_reduce(&slice, op, data, &sum));
        push(&all, sum);
    }
    *out = finish(&all);
    return LK_OK;
}

lk_status lk_gradient_norm(const lk_slab *params, const lk_slab *grads, double *out)
{
    LK_FP_GUARD();
    double squares;
    LK_TRY(lk__tensors_reduce(&(lk_update_call){.layout = lk_slab_layout_of(params)},
                              LK_REDUCE_AXIS_SUMSQ, lk_slab_data(grads), &squares));
    *out = sqrt(squares);
    return LK_OK;
}
