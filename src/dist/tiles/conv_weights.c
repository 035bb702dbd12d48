/* tile_conv.weights: what each of this rank's tiles says of the gradient of the weights of a convolution,
 * [leaves][...]; that of a bias is tile_bias.c.
 *
 *   dw[leaf] = tree over shards( one chain over samples and the leaf's positions of the y side )
 *
 * A leaf without positions says +0.  Nothing is joined here, and nothing is sent, for margins were fetched
 * to compute y and dx; but where dx of a transposed convolution is not wanted, dw is the first to read
 * dy's margin.  The backward of conv.c applies these.
 */
#include "dist/common/tile_conv.h"
#include "kernel/conv/weights.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <string.h>

/* The sides of the convolution among input 0, x, and input 1, dy. */
static void sides_of(const lk_call *c, lk__tile_side *x, lk__tile_side *y)
{
    const lk_tile *t = ((const lk__tile_conv *)c->attr)->tile;
    bool is_back = t->kind == LK_TILE_CONV_TRANSPOSE;
    *x = (lk__tile_side){.array = c->x[is_back ? 1 : 0], .box = is_back ? &t->y.box : &t->x.box};
    *y = (lk__tile_side){.array = c->x[is_back ? 0 : 1], .box = is_back ? &t->x.box : &t->y.box};
}

static lk_status weights_infer(lk_call *c, lk_output_spec *out)
{
    const lk__tile_conv *a = c->attr;
    const lk_window *w = &a->tile->window;
    lk__tile_side x, y;
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[0]->shape, &a->tile->x.box));
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[1]->shape, &a->tile->y.box));
    sides_of(c, &x, &y);
    out->dtype = c->x[0]->dtype;
    out->shape = (lk_shape){.ndim = w->ndim + 3, .dim = {a->tile->leaves}};
    memcpy(&out->shape.dim[1], w->kernel, (size_t)w->ndim * sizeof w->kernel[0]);
    out->shape.dim[w->ndim + 1] = x.array->shape.dim[w->ndim + 1] / a->groups;
    out->shape.dim[w->ndim + 2] = y.array->shape.dim[w->ndim + 1];
    return LK_OK;
}

/* What the positions `y` read of the x side; tap by tap, whatever the algorithm is. */
static lk_box box_read(const lk_tile *t, const lk_box *y)
{
    const int64_t *in = t->kind == LK_TILE_CONV_TRANSPOSE ? t->out : t->in;
    lk_window w = t->window;
    lk_box x = {.ndim = w.ndim};
    w.grid = 0;
    for (int d = 0; d < w.ndim; d++) {
        lk_range range = lk_window_needs(&w, d, (lk_range){y->first[d], y->n[d]}, in[d]);
        x.first[d] = range.first;
        x.n[d] = range.n;
    }
    return lk__box_is_empty(&x) ? (lk_box){.ndim = w.ndim} : x;
}

/* The plan of a leaf, and where its sides begin; NULL if it has no positions. */
static lk_status leaf_plan(lk_call *c, const lk_box *leaf, lk_conv_plan **plan, const void **x,
                           const void **y)
{
    const lk_tile *t = ((const lk__tile_conv *)c->attr)->tile;
    lk_box reads = box_read(t, leaf);
    lk__tile_side x_side, y_side;
    *plan = NULL;
    *x = *y = NULL;
    if (lk__box_is_empty(leaf))
        return LK_OK;
    sides_of(c, &x_side, &y_side);
    x_side.part = &reads;
    y_side.part = leaf;
    LK_TRY(lk__tile_conv_plan(c, &x_side, &y_side, plan));
    *x = lk__tile_side_start(&x_side);
    *y = lk__tile_side_start(&y_side);
    return LK_OK;
}

/* What the leaf with the largest plan needs. */
static lk_status room_of(lk_call *c, const lk_box *leaf, int64_t leaves, int64_t *most)
{
    *most = 0;
    for (int64_t i = 0; i < leaves; i++) {
        lk_conv_plan *plan;
        const void *x, *y;
        int64_t bytes = 0;
        LK_TRY(leaf_plan(c, &leaf[i], &plan, &x, &y));
        if (plan)
            LK_TRY(lk__conv_weights_room(plan, &bytes));
        *most = bytes > *most ? bytes : *most;
    }
    return LK_OK;
}

static lk_status weights_forward(lk_call *c)
{
    const lk__tile_conv *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_box *leaf = t->kind == LK_TILE_CONV_TRANSPOSE ? t->x_leaf : t->y_leaf;
    int64_t bytes = c->y[0]->count / t->leaves * (int64_t)lk_dtype_size(c->y[0]->dtype);
    int64_t room_bytes;
    void *room = NULL;
    if (a->fetches)
        LK_TRY(lk__tile_fetch(t->get_dy, c->x[1], &t->y.box, a->d.name));
    LK_TRY(room_of(c, leaf, t->leaves, &room_bytes));
    LK_TRY(lk_call_scratch(c, room_bytes, &room));
    for (int64_t i = 0; i < t->leaves; i++) {
        char *dw = lk__tensor_start(c->y[0]) + i * bytes;
        lk_conv_plan *plan;
        const void *x, *y;
        LK_TRY(leaf_plan(c, &leaf[i], &plan, &x, &y));
        if (plan)
            LK_TRY(lk__conv_weights_in(plan, room, room_bytes, x, y, c->accumulate, dw));
        else if (!c->accumulate)
            memset(dw, 0, (size_t)bytes);
    }
    return LK_OK;
}

#define WEIGHTS(more)                                                                             \
    {                                                                                             \
        .name = "tile_conv.weights", .summary = "what each tile says of the gradient of weights", \
        LK_ARITY(2, 1), .flags = LK_OP_ACCUMULATES | LK_OP_FIRST_ORDER | (more),                  \
        .attr_size = sizeof(lk__tile_conv), .infer = weights_infer, .forward = weights_forward    \
    }
static const lk_op weights = WEIGHTS(0), fetching_weights = WEIGHTS(LK_OP_COLLECTIVE);

lk_status lk__tile_conv_weights(lk_call *c, int i, const lk__tile_conv *a, lk_var dy, lk_var *out)
{
    return LK_TRACE(lk_apply_gradient(c, i, a->fetches ? &fetching_weights : &weights,
                                      (lk_var[]){c->in[0], dy}, 2, a, out));
}

lk_status lk__tile_conv_bias(lk_call *c, int i, const lk__tile_conv *a, lk_var dy, lk_var *out)
{
    const lk_tile *t = a->tile;
    return LK_TRACE(
        lk__tile_bias(c, i, (lk__tile_leaves){&t->y.box, t->y_leaf, t->leaves}, dy, out));
}
