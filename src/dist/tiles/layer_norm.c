/* tile_layer_norm: layer norm over the channels of each position of the held box, margin included.  Over
 * all of a sample it is sample_norm.c.
 *
 *   y, dx        as ops/layer_norm.c, for each position by itself
 *   dgamma[leaf] = dy times the normalised x, dbeta[leaf] = dy, summed over the leaf: tile_bias.c
 *
 * gamma and beta are [leaves][channels], of which the first is read.  Nothing is sent, but for a plain
 * parameter, whose gradient lk__tile_param() joins.  Made by lk_dist_tile_layer_norm(), run on the
 * thread of the tape.
 */
#include "ops/common/norm/layer_norm.h"

#include "dist/common/tiles.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct norm_attr {
    lk_layer_norm_attr norm;
    const lk_tile *tile;
} norm_attr;

static int64_t channels_of(const lk_call *c)
{
    lk_shape x = c->x[0]->shape;
    return x.dim[x.ndim - 1];
}

/* ---- forward: of x, gamma, beta ---- */

static lk_status norm_infer(lk_call *c, lk_output_spec *out)
{
    const norm_attr *a = c->attr;
    LK_TRY(lk__same_infer(c, out));
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[0]->shape, &a->tile->x.box));
    LK_TRY(lk__layer_norm_check(c, &a->norm));
    for (int i = 1; i < 3; i++) {
        const lk_tensor *v = c->x[i];
        LK_CHECK(v->dtype == c->x[0]->dtype, LK_EDTYPE, "%s of %s with %s %s: one dtype for all",
                 c->op->name, lk_tensor_text(c->x[0]).s, i == 1 ? "gamma" : "beta",
                 lk_tensor_text(v).s);
        LK_CHECK(v->shape.ndim == 2 && v->shape.dim[0] == a->tile->leaves &&
                     v->shape.dim[1] == channels_of(c),
                 LK_ESHAPE, "%s of %s with %s %s: it must be [%lld tiles, %lld]", c->op->name,
                 lk_tensor_text(c->x[0]).s, i == 1 ? "gamma" : "beta", lk_tensor_text(v).s,
                 (long long)a->tile->leaves, (long long)channels_of(c));
    }
    lk__layer_norm_kept(1, out);
    return LK_OK;
}

static lk_status norm_forward(lk_call *c)
{
    const norm_attr *a = c->attr;
    if (c->y[0]->count > 0)
        LK_TRY(lk__layer_norm_values(c, channels_of(c), &a->norm));
    return LK_OK;
}

/* ---- backward: of x, gamma, dy, mean and inv ---- */

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    for (int j = 0; j < 2; j++) {
        out[j].dtype = c->x[0]->dtype;
        out[j].shape = c->x[0]->shape;
    }
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    if (c->y[0]->count > 0)
        LK_TRY(lk__layer_norm_gradients(c, channels_of(c)));
    return LK_OK;
}

static const lk_op grad = {.name = "tile_layer_norm.grad",
                           .summary = "the gradient of x, and dy times the normalised x",
                           LK_ARITY(5, 2),
                           .flags = LK_OP_FIRST_ORDER | LK_OP_STRIDED,
                           .attr_size = sizeof(norm_attr),
                           .infer = grad_infer,
                           .forward = grad_forward};

static lk_status norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_tile *t = ((const norm_attr *)c->attr)->tile;
    lk__tile_leaves leaves = {&t->x.box, t->x_leaf, t->leaves};
    lk_var dy, both[2] = {LK_NO_VAR, LK_NO_VAR};
    LK_TRY(lk_contiguous(dout[0], &dy));
    if (lk_call_needs_grad(c, 0) || lk_call_needs_grad(c, 1)) {
        lk_var in[] = {c->in[0], c->in[1], dy, c->out[1], c->out[2]};
        LK_TRY(lk_apply(c->tape, &grad, in, 5, c->attr, both));
        din[0] = both[0];
    }
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__tile_bias(c, 1, leaves, both[1], &din[1]));
    if (lk_call_needs_grad(c, 2))
        LK_TRY(lk__tile_bias(c, 2, leaves, dy, &din[2]));
    return LK_OK;
}

/* ---- the call ---- */

static const lk_op norm = {.name = "tile_layer_norm",
                           .summary = "the channels of each position of tiles, normalised",
                           LK_ARITY(3, 3),
                           .flags = LK_OP_FIRST_ORDER | LK_OP_STRIDED,
                           .attr_size = sizeof(norm_attr),
                           .saves_in = 3,
                           .infer = norm_infer,
                           .forward = norm_forward,
                           .backward = norm_backward};

lk_status lk_dist_tile_layer_norm(const lk_tile *tile, lk_var x, lk_var gamma, lk_var beta,
                                  const lk_layer_norm_attr *attr, const char *name, lk_var *out)
{
    norm_attr a;
    lk_var in[] = {x, gamma, beta}, made[3];
    LK_CHECK(tile && out, LK_EINVAL, "tile_layer_norm: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    int axes = attr && attr->axes != 0 ? attr->axes : 1, all = tile->x.box.ndim + 1;
    LK_CHECK(axes == 1 || axes == all, LK_EINVAL,
             "tile_layer_norm over %d axes: on tiles there is 1, the channels, or %d, all of a "
             "sample",
             axes, all);
    LK_CHECK(!attr || attr->act == LK_ACT_NONE, LK_EINVAL,
             "tile_layer_norm: attr->act is %d; on tiles apply the activation behind it",
             (int)attr->act);
    lk_comm *comm = tile->tiling->comm;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.tile = tile;
    a.norm.axes = 1;
    a.norm.eps = attr ? attr->eps : 0;
    for (int i = 0; i < 3; i++)
        LK_TRY_DIST(comm, lk__dist_valid("tile_layer_norm", in[i]));
    if (axes > 1)
        return lk__tile_sample_norm(tile, in, a.norm.eps, name, out);
    LK_TRY_DIST(comm, lk_contiguous(in[0], &in[0]));
    for (int i = 1; i < 3; i++)
        LK_TRY_DIST(comm, lk__tile_param(tile->tiling, in[i], 1, name, &in[i]));
    LK_TRY_DIST(comm, lk_apply(x.tape, &norm, in, 3, &a, made));
    *out = made[0];
    return LK_OK;
}
