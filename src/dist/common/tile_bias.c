/* tile_bias: what each of this rank's tiles says of the gradient of a bias, or of another vector that is
 * added at each position, [leaves][channels].
 *
 *   db[leaf] = tree over shards( the sum of dy over the leaf's positions, by lanes )
 *
 * A leaf without positions says +0.  Nothing is joined here, and nothing is sent.  The backward of ops on
 * tiles applies it.
 */
#include "dist/common/tiles.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>
#include <lockstep/extra/reduce.h>

static lk_status bias_infer(lk_call *c, lk_output_spec *out)
{
    const lk__tile_leaves *of = c->attr;
    lk_shape dy = c->x[0]->shape;
    LK_TRY(lk__tile_check(c->op->name, "dy", dy, of->box));
    out->dtype = c->x[0]->dtype;
    out->shape = LK_SHAPE(of->n, dy.dim[dy.ndim - 1]);
    return LK_OK;
}

/* The sum of dy over a leaf's positions. */
static lk_status leaf_sum(lk_call *c, const lk_box *leaf, void *room, void *sum)
{
    const lk_tensor *dy = c->x[0];
    const lk_box *box = ((const lk__tile_leaves *)c->attr)->box;
    int64_t samples = dy->shape.dim[0], n = lk_box_count(leaf), shard = lk_tape_shard_size(c->tape);
    int64_t channels = dy->shape.dim[dy->shape.ndim - 1];
    lk_reduce_axis_shape s = {.outer = 1, .n = samples * n, .inner = channels};
    const void *from = lk__tensor_start(dy);
    if (shard < samples)
        s.piece = shard * n;
    if (!lk_box_is_equal(leaf, box)) {
        lk__tile_pack(from, box, leaf, samples, channels * (int64_t)lk_dtype_size(dy->dtype), room);
        from = room;
    }
    return LK_TRACE(lk_reduce_axis(dy->dtype, LK_REDUCE_AXIS_SUM, &s, from, sum));
}

int64_t lk__tile_leaves_most(lk__tile_leaves of, int64_t samples)
{
    int64_t most = 0;
    for (int64_t i = 0; i < of.n; i++) {
        int64_t here = lk_box_count(&of.leaf[i]);
        most = here > most ? here : most;
    }
    return most * samples;
}

static lk_status bias_forward(lk_call *c)
{
    const lk_tensor *dy = c->x[0];
    const lk__tile_leaves *of = c->attr;
    int64_t channels = c->y[0]->shape.dim[1], bytes = channels * (int64_t)lk_dtype_size(dy->dtype);
    void *room = NULL, *sum = NULL;
    LK_TRY(lk_call_scratch(c, lk__tile_leaves_most(*of, dy->shape.dim[0]) * bytes, &room));
    LK_TRY(lk_call_scratch(c, bytes, &sum));
    for (int64_t i = 0; i < of->n; i++) {
        char *db = lk__tensor_start(c->y[0]) + i * bytes;
        LK_TRY(leaf_sum(c, &of->leaf[i], room, c->accumulate ? sum : db));
        if (c->accumulate)
            LK_TRY(lk_map2(dy->dtype, LK_MAP2_ADD, 0, channels, db, sum, db));
    }
    return LK_OK;
}

static const lk_op bias = {.name = "tile_bias",
                           .summary = "what each tile says of the gradient of a bias",
                           LK_ARITY(1, 1),
                           .flags = LK_OP_ACCUMULATES | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(lk__tile_leaves),
                           .infer = bias_infer,
                           .forward = bias_forward};

lk_status lk__tile_bias(lk_call *c, int i, lk__tile_leaves of, lk_var dy, lk_var *out)
{
    return LK_TRACE(lk_apply_gradient(c, i, &bias, &dy, 1, &of, out));
}
