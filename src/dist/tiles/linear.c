/* tile_linear: y = x w + b at each position of the held box, margin included.
 *
 *   y        = b + x w, dx = dy w'                          as ops/linear.c, for each row by itself
 *   dw[leaf] = tree over shards( one chain over samples and the leaf's positions )
 *   db[leaf] = tile_bias.c
 *
 * Where the units are cut as well (features.c), dx is the tree over blocks of units, one chain each.
 *
 * Weights are [leaves][in][out], of which the first is read.  A leaf without positions says +0.  Nothing
 * is sent, but for a plain parameter, whose gradient lk__tile_param() joins.  Made by
 * lk_dist_tile_linear(), run on the thread of the tape.
 */
#include "dist/common/tiles.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <lockstep/extra/gemm.h>

#include <string.h>

typedef struct linear_attr {
    const lk_tile *tile;
    lk_act act;
    int64_t block; /* units of a block, over which dx is summed by the tree; 0: one chain for all */
} linear_attr;

static const lk_tile *tile_of(const lk_call *c)
{
    return ((const linear_attr *)c->attr)->tile;
}

/* Rows of an array of the box. */
static int64_t rows_of(const lk_call *c, const lk_box *box)
{
    return c->x[0]->shape.dim[0] * lk_box_count(box);
}

static int64_t last_of(const lk_tensor *t)
{
    return t->shape.dim[t->shape.ndim - 1];
}

/* ---- forward ---- */

/* Weights must be [leaves][in][out], `own` of these being the last axis of input 0. */
static lk_status weights_check(const lk_call *c, int own)
{
    const lk_tensor *x = c->x[0], *w = c->x[1];
    LK_CHECK(lk_dtype_is_real(x->dtype) && x->dtype == w->dtype, LK_EDTYPE,
             "%s of %s with weights %s: one dtype for both, f32 or f64", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(w).s);
    LK_CHECK(w->shape.ndim == 3 && w->shape.dim[0] == tile_of(c)->leaves &&
                 w->shape.dim[own] == last_of(x),
             LK_ESHAPE, "%s of %s with weights %s: they must be [%lld tiles, in, out]", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(w).s, (long long)tile_of(c)->leaves);
    return LK_OK;
}

static lk_status linear_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0], *b = c->n_in > 2 ? c->x[2] : NULL;
    LK_TRY(lk__tile_check(c->op->name, "x", x->shape, &tile_of(c)->x.box));
    LK_TRY(weights_check(c, 1));
    int64_t units = last_of(c->x[1]);
    LK_CHECK(!b || b->dtype == x->dtype, LK_EDTYPE, "%s of %s with a bias %s: one dtype for both",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(b).s);
    LK_CHECK(!b || (b->shape.ndim == 2 && b->shape.dim[0] == tile_of(c)->leaves &&
                    b->shape.dim[1] == units),
             LK_ESHAPE, "%s of %s with a bias %s: it must be [%lld tiles, %lld]", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(b).s, (long long)tile_of(c)->leaves,
             (long long)units);
    out->dtype = x->dtype;
    out->shape = x->shape;
    out->shape.dim[out->shape.ndim - 1] = units;
    return LK_OK;
}

static lk_status linear_forward(lk_call *c)
{
    const linear_attr *a = c->attr;
    int64_t in = last_of(c->x[0]), out = last_of(c->y[0]);
    lk_gemm g = {.dtype = c->y[0]->dtype,
                 .act = a->act,
                 .m = rows_of(c, &a->tile->x.box),
                 .n = out,
                 .k = in,
                 .lda = in,
                 .ldb = out,
                 .ldc = out};
    return LK_TRACE(lk_gemm_run(&g, lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]),
                                c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL,
                                lk__tensor_start(c->y[0])));
}

/* ---- the gradient of x ---- */

static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[0]->shape, &tile_of(c)->x.box));
    LK_TRY(weights_check(c, 2));
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[out->shape.ndim - 1] = c->x[1]->shape.dim[1];
    return LK_OK;
}

static lk_status data_forward(lk_call *c)
{
    int64_t in = last_of(c->y[0]), out = last_of(c->x[0]);
    lk_gemm g = {.dtype = c->y[0]->dtype,
                 .trans_b = true,
                 .m = rows_of(c, &tile_of(c)->x.box),
                 .n = in,
                 .k = out,
                 .lda = out,
                 .ldb = out,
                 .ldc = in,
                 .piece = ((const linear_attr *)c->attr)->block};
    return LK_TRACE(lk_gemm_run(&g, lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]), NULL,
                                lk__tensor_start(c->y[0])));
}

static const lk_op data_grad = {.name = "tile_linear.data",
                                .summary = "the gradient of x of linear on tiles",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_FIRST_ORDER | LK_OP_STRIDED,
                                .attr_size = sizeof(linear_attr),
                                .infer = data_infer,
                                .forward = data_forward};

/* ---- the gradient of the weights, of x and dy ---- */

static lk_status weights_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[0]->shape, &tile_of(c)->x.box));
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[1]->shape, &tile_of(c)->x.box));
    out->dtype = c->x[0]->dtype;
    out->shape = LK_SHAPE(tile_of(c)->leaves, last_of(c->x[0]), last_of(c->x[1]));
    return LK_OK;
}

/* The rows of a leaf side by side: where they are, if the leaf is all there is, or a copy in `room`. */
static const void *leaf_rows(const lk_tile *t, const lk_box *leaf, const lk_tensor *x, void *room)
{
    if (lk_box_is_equal(leaf, &t->x.box))
        return lk__tensor_start(x);
    lk__tile_pack(lk__tensor_start(x), &t->x.box, leaf, x->shape.dim[0],
                  last_of(x) * (int64_t)lk_dtype_size(x->dtype), room);
    return room;
}

static lk_status weights_forward(lk_call *c)
{
    const lk_tile *t = tile_of(c);
    const lk_tensor *x = c->x[0], *dy = c->x[1];
    int64_t in = last_of(x), out = last_of(dy), elem = (int64_t)lk_dtype_size(x->dtype);
    int64_t samples = x->shape.dim[0], piece = lk__piece_of(c->tape, samples);
    int64_t most = lk__tile_leaves_most((lk__tile_leaves){&t->x.box, t->x_leaf, t->leaves},
                                        samples);
    void *x_room = NULL, *dy_room = NULL;
    LK_TRY(lk_call_scratch(c, most * in * elem, &x_room));
    LK_TRY(lk_call_scratch(c, most * out * elem, &dy_room));
    for (int64_t i = 0; i < t->leaves && in * out > 0; i++) {
        const lk_box *leaf = &t->x_leaf[i];
        int64_t positions = lk_box_count(leaf);
        lk_gemm g = {.dtype = x->dtype,
                     .trans_a = true,
                     .accumulate = c->accumulate,
                     .m = in,
                     .n = out,
                     .k = samples * positions,
                     .lda = in,
                     .ldb = out,
                     .ldc = out,
                     .piece = piece * positions};
        if (c->accumulate && g.piece == 0)
            g.piece = g.k; /* one chain, which is added when it ends */
        LK_TRY(lk_gemm_run(&g, leaf_rows(t, leaf, x, x_room), leaf_rows(t, leaf, dy, dy_room), NULL,
                           lk__tensor_start(c->y[0]) + i * in * out * elem));
    }
    return LK_OK;
}

static const lk_op weights_grad = {.name = "tile_linear.weights",
                                   .summary = "what each tile says of the gradient of weights",
                                   LK_ARITY(2, 1),
                                   .flags = LK_OP_ACCUMULATES | LK_OP_FIRST_ORDER,
                                   .attr_size = sizeof(linear_attr),
                                   .infer = weights_infer,
                                   .forward = weights_forward};

/* ---- the call ---- */

static lk_status linear_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    linear_attr a = *(const linear_attr *)c->attr;
    const lk_tile *t = a.tile;
    lk_var dy = dout[0];
    LK_TRY(lk__act_grad(a.act, dy, c->out[0], &dy));
    LK_TRY(lk_contiguous(dy, &dy));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &data_grad, (lk_var[]){dy, c->in[1]}, 2, &a, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_apply_gradient(c, 1, &weights_grad, (lk_var[]){c->in[0], dy}, 2, &a, &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(
            lk__tile_bias(c, 2, (lk__tile_leaves){&t->x.box, t->x_leaf, t->leaves}, dy, &din[2]));
    return LK_OK;
}

#define LINEAR(text, formula)                                                         \
    {                                                                                 \
        .name = text, .summary = formula, .min_in = 2, .max_in = 3, .n_out = 1,       \
        .flags = LK_OP_FIRST_ORDER | LK_OP_STRIDED, .attr_size = sizeof(linear_attr), \
        .saves_in = 3, .infer = linear_infer, .forward = linear_forward,              \
        .backward = linear_backward                                                   \
    }

static const lk_op linear = LINEAR("tile_linear", "x w + b at each position of tiles");
static const lk_op units = LINEAR("tile_feature_linear", "the same of some units of a layer");

static lk_status apply(const lk_op *op, const linear_attr *a, const lk_var given[3],
                       const char *name, lk_var *out)
{
    lk_var in[3] = {given[0], given[1], given[2]};
    const lk_tiling *tiling = a->tile->tiling;
    int n = lk_is_var(in[2]) ? 3 : 2;
    LK_TRY(lk__act_check(op->name, a->act));
    LK_TRY_DIST(tiling->comm, lk__dist_valid(op->name, in[0]));
    LK_TRY_DIST(tiling->comm, lk__dist_valid(op->name, in[1]));
    LK_TRY_DIST(tiling->comm, lk_contiguous(in[0], &in[0]));
    LK_TRY_DIST(tiling->comm, lk__tile_param(tiling, in[1], 2, name, &in[1]));
    if (n > 2)
        LK_TRY_DIST(tiling->comm, lk__tile_param(tiling, in[2], 1, name, &in[2]));
    LK_TRY_DIST(tiling->comm, lk_apply(in[0].tape, op, in, n, a, out));
    return LK_OK;
}

lk_status lk_dist_tile_linear(const lk_tile *tile, lk_var x, lk_var w, lk_var b, lk_act act,
                              const char *name, lk_var *out)
{
    linear_attr a;
    LK_CHECK(tile && out, LK_EINVAL, "tile_linear: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.tile = tile;
    a.act = act;
    return LK_TRACE(apply(&linear, &a, (lk_var[]){x, w, b}, name, out));
}

lk_status lk__tile_linear_units(const lk_tile *tile, const lk_var in[3], lk_act act, int64_t block,
                                const char *name, lk_var *out)
{
    linear_attr a;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.tile = tile;
    a.act = act;
    a.block = block;
    return LK_TRACE(apply(&units, &a, in, name, out));
}
