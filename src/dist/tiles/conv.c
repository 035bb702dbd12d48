/* tile_conv, tile_conv_transpose: convolutions of samples whose positions are cut over ranks.
 *
 *   y's tile  = conv (or its transpose) of what it reads of x, whose margin is fetched first
 *   dx's tile = the transpose of that, of what reads the tile: dy's margin is fetched first
 *   dw, db    = what each tile says: conv_weights.c
 *
 * Every element is the chain that it is in the whole sample, because a kernel call has the same taps
 * within the image, in the same order: its padding is that of the whole, moved to where its boxes begin.
 * Nothing of a gradient is sent back and added.  The tape calls these, on the thread of the tiling's
 * communicator.
 *
 * Where the filters are cut as well (features.c), dx is such a pass for each block of filters that the
 * rank has, joined by the tree over blocks.
 */
#include "dist/common/feature_blocks.h"
#include "dist/common/leaf_sums.h"
#include "dist/common/pending.h"
#include "dist/common/tile_conv.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <string.h>

static bool is_transposed(const lk_tile *tile)
{
    return tile->kind == LK_TILE_CONV_TRANSPOSE;
}

/* ---- kernel calls ---- */

char *lk__tile_side_start(const lk__tile_side *side)
{
    int64_t channels = side->array->shape.dim[side->box->ndim + 1];
    lk__tile_part part = lk__tile_part_of(side->box, side->part, channels);
    char *start = side->data ? side->data : lk__tensor_start(side->array);
    return start +
           (part.offset + side->channels.first) * (int64_t)lk_dtype_size(side->array->dtype);
}

/* Channels that the kernel sees. */
static int64_t channels_of(const lk__tile_side *side)
{
    return side->channels.n > 0 ? side->channels.n : side->array->shape.dim[side->box->ndim + 1];
}

lk_status lk__tile_conv_plan(lk_call *c, const lk__tile_side *x, const lk__tile_side *y,
                             lk_conv_plan **out)
{
    const lk__tile_conv *a = c->attr;
    const lk_window *w = &a->tile->window;
    lk_conv_shape s;
    memset(&s, 0, sizeof s); /* gaps too: it is a key */
    s.dtype = x->array->dtype;
    s.window.ndim = w->ndim;
    s.batch = x->array->shape.dim[0];
    s.in_channels = channels_of(x);
    s.out_channels = channels_of(y);
    s.groups = a->groups;
    s.algorithm = a->algorithm;
    s.piece = lk__piece_of(c->tape, s.batch);
    if (s.piece == 0)
        s.piece = s.batch;
    lk__tile_part from = lk__tile_part_of(x->box, x->part, x->array->shape.dim[w->ndim + 1]);
    lk__tile_part to = lk__tile_part_of(y->box, y->part, y->array->shape.dim[w->ndim + 1]);
    s.x_sample = from.sample;
    s.y_sample = to.sample;
    for (int d = 0; d < w->ndim; d++) {
        s.in[d] = from.n[d];
        s.out[d] = to.n[d];
        s.x_step[d] = from.step[d];
        s.y_step[d] = to.step[d];
        s.window.kernel[d] = w->kernel[d];
        s.window.stride[d] = lk__or_one(w->stride[d]);
        s.window.dilation[d] = lk__or_one(w->dilation[d]);
        s.window.pad_lo[d] = w->pad_lo[d] + x->part->first[d] -
                             y->part->first[d] * s.window.stride[d];
    }
    return LK_TRACE(lk__conv_plan_kept(c, &s, out));
}

/* Plan a pass between two sides; `ahead`: by the convolution, from its x side to its y side, otherwise by its
 * transpose.  The rest of `to` is cleared; *out is NULL if there is nothing in it to compute. */
static lk_status pass_plan(lk_call *c, bool ahead, const lk__tile_side *from,
                           const lk__tile_side *to, lk_conv_plan **out)
{
    const lk_tensor *y = to->array;
    LK_TRY(lk__tile_conv_plan(c, ahead ? from : to, ahead ? to : from, out));
    lk__tile_clear_around(to->data ? to->data : lk__tensor_start(y), to->box, to->part,
                          y->shape.dim[0],
                          y->shape.dim[y->shape.ndim - 1] * (int64_t)lk_dtype_size(y->dtype));
    if (y->shape.dim[0] == 0 || lk__box_is_empty(to->part))
        *out = NULL;
    return LK_OK;
}

/* ---- forward ---- */

/* Weights are [leaves][kernel...][in channels in a group][out channels]; returns the channels of that
 * side of the convolution to which this call goes, from one with the channels of input 0. */
static lk_status weights_check(const lk_call *c, bool ahead, int64_t *channels)
{
    const lk__tile_conv *a = c->attr;
    const lk_tile *tile = a->tile;
    lk_shape w = c->x[1]->shape;
    int ndim = 0;
    int64_t groups = 1;
    lk_conv_attr attr = {.groups = a->groups};
    LK_TRY(lk__conv_begin(c, &attr, &ndim, &groups));
    int64_t own = c->x[0]->shape.dim[ndim + 1];
    bool fits = w.ndim == ndim + 3 && w.dim[0] == tile->leaves;
    for (int d = 0; fits && d < ndim; d++)
        fits = w.dim[d + 1] == tile->window.kernel[d];
    fits = fits && (ahead ? w.dim[ndim + 1] == own / groups && w.dim[ndim + 2] % groups == 0
                          : w.dim[ndim + 2] == own);
    LK_CHECK(fits, LK_ESHAPE,
             "%s of %s with weights %s: they must be [%lld tiles, %d axes of the tile's kernel, in "
             "channels in each of %lld groups, out channels]",
             c->op->name, lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[1]).s,
             (long long)tile->leaves, ndim, (long long)groups);
    *channels = w.dim[ndim + 2];
    LK_CHECK(ahead || !__builtin_mul_overflow(w.dim[ndim + 1], groups, channels), LK_EOVERFLOW,
             "%s with weights %s and %lld groups: the channels", c->op->name,
             lk_tensor_text(c->x[1]).s, (long long)groups);
    return LK_OK;
}

static lk_status values_infer(lk_call *c, lk_output_spec *out)
{
    const lk__tile_conv *a = c->attr;
    const lk_tile *tile = a->tile;
    int64_t channels = 0;
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[0]->shape, &tile->x.box));
    LK_TRY(weights_check(c, !is_transposed(tile), &channels));
    if (c->n_in > 2) {
        lk_shape b = c->x[2]->shape;
        LK_CHECK(b.ndim == 2 && b.dim[0] == tile->leaves && b.dim[1] == channels, LK_ESHAPE,
                 "%s of %s with a bias %s: it must be [%lld tiles, %lld]", c->op->name,
                 lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[2]).s, (long long)tile->leaves,
                 (long long)channels);
    }
    out->dtype = c->x[0]->dtype;
    out->shape = lk__tile_shape(&tile->y.box, c->x[0]->shape.dim[0], channels);
    return LK_OK;
}

static lk_status values_forward(lk_call *c)
{
    const lk__tile_conv *a = c->attr;
    const lk_tile *t = a->tile;
    const lk__tile_side from = {.array = c->x[0], .box = &t->x.box, .part = &t->x_reads},
                        to = {.array = c->y[0], .box = &t->y.box, .part = &t->y.tile};
    const char *w = lk__tensor_start(c->x[1]), *b = c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL;
    lk_conv_plan *plan;
    LK_TRY(lk__tile_fetch(t->get_x, c->x[0], &t->x.box, a->d.name));
    LK_TRY(pass_plan(c, !is_transposed(t), &from, &to, &plan));
    if (plan && is_transposed(t))
        LK_TRY(lk_conv_backward_data(plan, lk__tile_side_start(&from), w, b, false,
                                     lk__tile_side_start(&to)));
    else if (plan)
        LK_TRY(lk_conv_forward(plan, lk__tile_side_start(&from), w, b, a->act,
                               lk__tile_side_start(&to)));
    return LK_OK;
}

/* ---- the gradient of x ---- */

static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    const lk__tile_conv *a = c->attr;
    int64_t channels = 0;
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[0]->shape, &a->tile->y.box));
    LK_TRY(weights_check(c, is_transposed(a->tile), &channels));
    out->dtype = c->x[0]->dtype;
    out->shape = lk__tile_shape(&a->tile->x.box, c->x[0]->shape.dim[0], channels);
    return LK_OK;
}

/* What some filters say of dx, or all, n 0. */
static lk_status filters_run(lk_call *c, lk_range filters, const void *w, void *dx)
{
    const lk_tile *t = ((const lk__tile_conv *)c->attr)->tile;
    const lk__tile_side from = {c->x[0], &t->y.box, &t->dy_reads, filters, NULL},
                        to = {c->y[0], &t->x.box, &t->x.tile, {0, 0}, dx};
    lk_conv_plan *plan;
    LK_TRY(pass_plan(c, is_transposed(t), &from, &to, &plan));
    if (plan && is_transposed(t))
        LK_TRY(lk_conv_forward(plan, lk__tile_side_start(&from), w, NULL, LK_ACT_NONE,
                               lk__tile_side_start(&to)));
    else if (plan)
        LK_TRY(lk_conv_backward_data(plan, lk__tile_side_start(&from), w, NULL, false,
                                     lk__tile_side_start(&to)));
    return LK_OK;
}

static lk_status data_forward(lk_call *c)
{
    const lk__tile_conv *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_tensor *w = c->x[1], *dx = c->y[0];
    const lk_box none = {.ndim = t->x.box.ndim};
    int64_t held = w->shape.dim[w->shape.ndim - 1];
    LK_TRY(lk__tile_fetch(t->get_dy, c->x[0], &t->y.box, a->d.name));
    if (a->block == 0)
        LK_TRY(filters_run(c, (lk_range){0, 0}, lk__tensor_start(w), NULL));
    else if (held > 0)
        LK_TRY(lk__feature_blocks_run(c, a->block, w->count / (t->leaves * held), filters_run));
    else /* nothing, which is still defined */
        lk__tile_clear_around(lk__tensor_start(dx), &t->x.box, &none, dx->shape.dim[0],
                              dx->shape.dim[dx->shape.ndim - 1] *
                                  (int64_t)lk_dtype_size(dx->dtype));
    return LK_OK;
}

static const lk_op data_grad = {.name = "tile_conv.data",
                                .summary = "the gradient of x of a convolution on tiles",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER | LK_OP_STRIDED,
                                .attr_size = sizeof(lk__tile_conv),
                                .infer = data_infer,
                                .forward = data_forward};

/* All ranks fetch dy's margin first, whatever their tiles are: dw of a transposed convolution reads it,
 * too. */
static lk_status values_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__tile_conv a = *(const lk__tile_conv *)c->attr;
    lk_var dy = dout[0];
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    LK_TRY(lk__act_grad(a.act, dy, c->out[0], &dy));
    LK_TRY(lk_contiguous(dy, &dy));
    a.act = LK_ACT_NONE;
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &data_grad, (lk_var[]){dy, c->in[1]}, 2, &a, &din[0]));
    else
        a.fetches = is_transposed(a.tile);
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__tile_conv_weights(c, 1, &a, dy, &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__tile_conv_bias(c, 2, &a, dy, &din[2]));
    return LK_OK;
}

/* ---- the calls ---- */

#define VALUES(text, formula)                                                     \
    {                                                                             \
        .name = text, .summary = formula, .min_in = 2, .max_in = 3, .n_out = 1,   \
        .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER | LK_OP_STRIDED,            \
        .attr_size = sizeof(lk__tile_conv), .saves_in = 3, .infer = values_infer, \
        .forward = values_forward, .backward = values_backward                    \
    }

static const lk_op conv = VALUES("tile_conv", "convolution of samples that are cut into tiles");
static const lk_op filters = VALUES("tile_feature_conv", "the same of some filters of a layer");
static const lk_op transpose = VALUES("tile_conv_transpose", "transposed convolution on tiles");

/* The sizes of axis d: what the convolution makes of its x side must be its y side. */
static lk_status axis_check(const char *call, const lk_tile *tile, int d, const lk_conv_attr *attr)
{
    const lk_window *w = &tile->window, *v = &attr->window;
    bool is_back = is_transposed(tile);
    int64_t in = is_back ? tile->out[d] : tile->in[d], out = is_back ? tile->in[d] : tile->out[d];
    int64_t stride = lk__or_one(w->stride[d]), dilation = lk__or_one(w->dilation[d]), made = 0;
    lk_conv_attr same = *attr;
    LK_CHECK(lk__or_one(v->stride[d]) == stride && lk__or_one(v->dilation[d]) == dilation &&
                 v->pad_lo[d] == w->pad_lo[d],
             LK_EINVAL,
             "%s: along axis %d stride, dilation and padding are %lld, %lld and %lld, of the tile "
             "%lld, %lld and %lld",
             call, d, (long long)lk__or_one(v->stride[d]), (long long)lk__or_one(v->dilation[d]),
             (long long)v->pad_lo[d], (long long)stride, (long long)dilation,
             (long long)w->pad_lo[d]);
    LK_TRY(lk_conv_out(in, w->kernel[d], stride, dilation, v->pad_lo[d], v->pad_hi[d], &made));
    LK_CHECK(made == out, LK_EINVAL,
             "%s: along axis %d the tile's sizes are %lld and %lld, but a convolution with padding "
             "%lld and %lld makes %lld of %lld",
             call, d, (long long)tile->in[d], (long long)tile->out[d], (long long)v->pad_lo[d],
             (long long)v->pad_hi[d], (long long)made, (long long)in);
    if (is_back)
        lk__conv_extra(&same, w->ndim, tile->out, tile->in, w->kernel);
    else
        same.extra[d] = 0;
    LK_CHECK(same.extra[d] == attr->extra[d], LK_EINVAL,
             "%s: extra[%d] is %lld, where the tile's sizes need %lld", call, d,
             (long long)attr->extra[d], (long long)same.extra[d]);
    return LK_OK;
}

static lk_status tile_goes_with(const char *call, const lk_tile *tile, const lk_conv_attr *attr,
                                lk_act act)
{
    int64_t grid = attr->algorithm == LK_CONV_WINOGRAD ? 4 : 1;
    LK_TRY(lk__act_check(call, act));
    LK_CHECK(attr->act == LK_ACT_NONE, LK_EINVAL,
             "%s: attr->act is %d; the activation is an argument", call, (int)attr->act);
    LK_CHECK(lk__or_one(tile->window.grid) == grid, LK_EINVAL,
             "%s: the grid of the tile's window is %lld, where the algorithm needs %lld", call,
             (long long)tile->window.grid, (long long)grid);
    for (int d = 0; d < tile->window.ndim; d++)
        LK_TRY(axis_check(call, tile, d, attr));
    return LK_OK;
}

/* What a tile was made for, with one group. */
static lk_conv_attr attr_of(const lk_tile *tile)
{
    lk_conv_attr attr = {.window = tile->window,
                         .algorithm = tile->window.grid == 4 ? LK_CONV_WINOGRAD : LK_CONV_DIRECT};
    if (is_transposed(tile))
        lk__conv_extra(&attr, tile->window.ndim, tile->out, tile->in, tile->window.kernel);
    return attr;
}

/* What an op is applied to. */
typedef struct call {
    lk_var in[3];
    int n_in;
    lk__tile_conv attr;
} call;

/* Check an op's inputs and attributes, and bring the inputs into the form that it takes. */
static lk_status call_make(const lk_op *op, const lk_tile *tile, lk__tile_conv_in in,
                           const lk_conv_attr *given, lk_act act, const char *name, call *out)
{
    lk_conv_attr attr = given ? *given : attr_of(tile);
    lk_comm *comm = tile->tiling->comm;
    memset(out, 0, sizeof *out); /* attributes are compared as bytes */
    out->n_in = lk_is_var(in.b) ? 3 : 2;
    out->attr.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    out->attr.tile = tile;
    out->attr.groups = lk__or_one(attr.groups);
    out->attr.algorithm = attr.algorithm;
    out->attr.act = act;
    LK_TRY(lk__dist_valid(op->name, in.x));
    LK_TRY(tile_goes_with(op->name, tile, &attr, act));
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(in.x.tape, comm, op->name));
    LK_TRY_DIST(comm, lk_contiguous(in.x, &out->in[0]));
    LK_TRY_DIST(comm, lk__tile_param(tile->tiling, in.w, tile->window.ndim + 2, name, &out->in[1]));
    if (out->n_in > 2)
        LK_TRY_DIST(comm, lk__tile_param(tile->tiling, in.b, 1, name, &out->in[2]));
    return LK_OK;
}

lk_status lk_dist_tile_conv(const lk_tile *tile, lk_var x, lk_var w, lk_var b,
                            const lk_conv_attr *attr, lk_act act, const char *name, lk_var *out)
{
    call c;
    LK_CHECK(tile && out, LK_EINVAL, "tile_conv: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_CHECK(tile->kind == LK_TILE_CONV, LK_EINVAL, "tile_conv: the tile is not of a convolution");
    LK_TRY(call_make(&conv, tile, (lk__tile_conv_in){x, w, b}, attr, act, name, &c));
    LK_TRY_DIST(tile->tiling->comm, lk_apply(x.tape, &conv, c.in, c.n_in, &c.attr, out));
    return LK_OK;
}

lk_status lk__tile_conv_filters(const lk_tile *tile, lk__tile_conv_in in, const lk_conv_attr *attr,
                                int64_t block, const char *name, lk_var *out)
{
    call c;
    lk_conv_attr plain = *attr;
    plain.act = LK_ACT_NONE;
    LK_TRY(call_make(&filters, tile, in, &plain, attr->act, name, &c));
    c.attr.block = block;
    LK_TRY_DIST(tile->tiling->comm, lk_apply(in.x.tape, &filters, c.in, c.n_in, &c.attr, out));
    return LK_OK;
}

lk_status lk_dist_tile_conv_transpose(const lk_tile *tile, lk_var x, lk_var w, lk_var b,
                                      const lk_conv_attr *attr, const char *name, lk_var *out)
{
    call c;
    LK_CHECK(tile && out, LK_EINVAL, "tile_conv_transpose: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_CHECK(is_transposed(tile), LK_EINVAL,
             "tile_conv_transpose: the tile is not of a transposed convolution");
    LK_TRY(call_make(&transpose, tile, (lk__tile_conv_in){x, w, b}, attr, LK_ACT_NONE, name, &c));
    LK_TRY_DIST(tile->tiling->comm, lk_apply(x.tape, &transpose, c.in, c.n_in, &c.attr, out));
    return LK_OK;
}
