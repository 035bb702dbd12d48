/* tile_sums: over the positions of each tile, nothing is sent.
 *
 *   y[k][s][c] = sum of x[s][p][c] over the positions p of tile k, one lane sum
 *   dx[s][p][c] = dy[k][s][c] for the tile k that has p, 0 in the margin: tile_spread
 *
 * Each is the other's adjoint.
 */
#include "dist/common/leaf_sums.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct sums_attr {
    lk__dist d;
    const lk_tile *tile;
} sums_attr;

static const lk_op tile_sums, tile_spread;

static lk_status sums_infer(lk_call *c, lk_output_spec *out)
{
    const sums_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "tile_sums of %s: only f32 and f64",
             lk_tensor_text(x).s);
    LK_TRY(lk__tile_check(c->op->name, "x", x->shape, &a->tile->x.box));
    out->dtype = x->dtype;
    out->shape = LK_SHAPE(a->tile->leaves, x->shape.dim[0], x->shape.dim[x->shape.ndim - 1]);
    return LK_OK;
}

static lk_status sums_forward(lk_call *c)
{
    const sums_attr *a = c->attr;
    lk__leaf_sums s = lk__leaf_sums_of(a->tile, c->x[0]->dtype, c->x[0]->shape, 1);
    return LK_TRACE(lk__leaf_sum(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0])));
}

static lk_status sums_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &tile_spread, dout, 1, c->attr, din));
}

static const lk_op tile_sums = {.name = "tile_sums",
                                .summary = "sums over the positions of each tile",
                                LK_ARITY(1, 1),
                                .flags = LK_OP_LINEAR,
                                .attr_size = sizeof(sums_attr),
                                .infer = sums_infer,
                                .forward = sums_forward,
                                .backward = sums_backward};

/* ---- the adjoint ---- */

static lk_status spread_infer(lk_call *c, lk_output_spec *out)
{
    const sums_attr *a = c->attr;
    const lk_tensor *v = c->x[0];
    out->dtype = v->dtype;
    out->shape = lk__tile_shape(&a->tile->x.box, v->shape.dim[1], v->shape.dim[2]);
    return LK_OK;
}

static lk_status spread_forward(lk_call *c)
{
    const sums_attr *a = c->attr;
    lk__leaf_sums s = lk__leaf_sums_of(a->tile, c->y[0]->dtype, c->y[0]->shape, 1);
    lk__leaf_spread(&s, &a->tile->x.tile, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]));
    return LK_OK;
}

static lk_status spread_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &tile_sums, dout, 1, c->attr, din));
}

static const lk_op tile_spread = {.name = "tile_spread",
                                  .summary = "numbers of each tile, repeated at its positions",
                                  LK_ARITY(1, 1),
                                  .flags = LK_OP_LINEAR,
                                  .attr_size = sizeof(sums_attr),
                                  .infer = spread_infer,
                                  .forward = spread_forward,
                                  .backward = spread_backward};

lk_status lk_dist_tile_sums(const lk_tile *tile, lk_var x, const char *name, lk_var *out)
{
    sums_attr a;
    LK_CHECK(tile && out, LK_EINVAL, "tile_sums: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(tile->tiling->comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    LK_TRY_DIST(a.d.comm, lk__dist_valid("tile_sums", x));
    LK_TRY_DIST(a.d.comm, lk_apply(x.tape, &tile_sums, &x, 1, &a, out));
    return LK_OK;
}
