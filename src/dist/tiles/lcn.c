/* tile_lcn: local contrast normalisation on tiles.
 *
 * The formulas of ops/lcn.c run on a box that is wide enough, and what is right of it is kept: a pixel of
 * y needs the sums of a window, and those of a window around these, so it reads two windows' reach, r,
 * around itself; a pixel of dx so reads y, its deviation s and dy.
 *
 *   y, s   right in the tile and 2r around it, from x 2r further: forward fetches x's margin
 *   dx     right in the tile, from y, s and dy 2r around it: backward fetches dy's margin
 *
 * Boxes end with the image where it ends, so that windows skip there what they skip in the whole.  Made by
 * lk_dist_tile_lcn(), run on the thread of the tape.
 */
#include "ops/common/norm/lcn.h"

#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct tile_lcn_attr {
    lk__dist d;
    const lk_tile *tile;
    lk_lcn_attr lcn;
} tile_lcn_attr;

/* Images of a box of each sample of input 0. */
static lk__lcn_shape shape_of(const lk_call *c, const lk_box *box)
{
    const tile_lcn_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    return (lk__lcn_shape){x->dtype,  x->shape.dim[0], box->n[0],
                           box->n[1], x->shape.dim[3], a->lcn};
}

/* Bytes of a pixel. */
static int64_t pixel_of(const lk_tensor *t)
{
    return t->shape.dim[3] * (int64_t)lk_dtype_size(t->dtype);
}

/* *out = a copy of `part` of an array of `box`. */
static lk_status part_take(lk_call *c, const lk_tensor *x, const lk_box *box, const lk_box *part,
                           void **out)
{
    int64_t samples = x->shape.dim[0];
    LK_TRY(lk_call_scratch(c, samples * lk_box_count(part) * pixel_of(x), out));
    lk__tile_pack(lk__tensor_start(x), box, part, samples, pixel_of(x), *out);
    return LK_OK;
}

/* `keep` of dense images of the box `from` goes to y, an array of `box`, whose rest is cleared; `room` is as
 * large as the images. */
static void part_put(const void *dense, const lk_box *from, const lk_box *keep, void *room,
                     const lk_box *box, const lk_tensor *y)
{
    int64_t samples = y->shape.dim[0], bytes = pixel_of(y);
    lk__tile_clear_around(lk__tensor_start(y), box, keep, samples, bytes);
    lk__tile_pack(dense, from, keep, samples, bytes, room);
    lk__tile_unpack(lk__tensor_start(y), box, keep, samples, bytes, room);
}

/* ---- forward ---- */

static lk_status lcn_infer(lk_call *c, lk_output_spec *out)
{
    const tile_lcn_attr *a = c->attr;
    const lk_tile *t = a->tile;
    LK_TRY(lk__lcn_infer(c, &a->lcn, out));
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[0]->shape, &t->x.box));
    for (int i = 0; i < 2; i++)
        memcpy(&out[i].shape.dim[1], t->y.box.n, 2 * sizeof out[i].shape.dim[0]);
    return LK_OK;
}

static lk_status lcn_forward(lk_call *c)
{
    const tile_lcn_attr *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_box *from = &t->x_reads, *keep = &t->y_makes;
    int64_t pixels = c->x[0]->shape.dim[0] * lk_box_count(from);
    lk__lcn_shape of = shape_of(c, from);
    void *x = NULL, *y = NULL, *s = NULL, *room = NULL;
    LK_TRY(lk__tile_fetch(t->get_x, c->x[0], &t->x.box, a->d.name));
    LK_TRY(part_take(c, c->x[0], &t->x.box, from, &x));
    LK_TRY(lk_call_scratch(c, pixels * pixel_of(c->y[0]), &y));
    LK_TRY(lk_call_scratch(c, pixels * pixel_of(c->y[1]), &s));
    LK_TRY(lk_call_scratch(c, pixels * pixel_of(c->y[1]), &room));
    LK_TRY(lk__lcn_values(c, &of, x, y, s));
    part_put(y, from, keep, x, &t->y.box, c->y[0]); /* x is not needed any more */
    part_put(s, from, keep, room, &t->y.box, c->y[1]);
    return LK_OK;
}

/* ---- backward: dx of dy, y and s ---- */

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tile *t = ((const tile_lcn_attr *)c->attr)->tile;
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[0]->shape, &t->y.box));
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    memcpy(&out->shape.dim[1], t->x.box.n, 2 * sizeof out->shape.dim[0]);
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    const tile_lcn_attr *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_box *from = &t->dy_reads;
    lk__lcn_shape of = shape_of(c, from);
    int64_t pixels = of.samples * of.rows * of.columns;
    void *in[3], *ds = NULL, *dx = NULL;
    LK_TRY(lk__tile_fetch(t->get_dy, c->x[0], &t->y.box, a->d.name));
    for (int i = 0; i < 3; i++)
        LK_TRY(part_take(c, c->x[i], &t->y.box, from, &in[i]));
    LK_TRY(lk_call_scratch(c, pixels * pixel_of(c->x[2]), &ds));
    memset(ds, 0, (size_t)(pixels * pixel_of(c->x[2])));
    LK_TRY(lk_call_scratch(c, pixels * pixel_of(c->x[0]), &dx));
    LK_TRY(lk__lcn_gradient(c, &of, &(lk__lcn_grad){.dy = in[0], .y = in[1], .s = in[2], .ds = ds},
                            dx));
    part_put(dx, from, &t->x.tile, in[0], &t->x.box, c->y[0]);
    return LK_OK;
}

static const lk_op grad = {.name = "tile_lcn.grad",
                           .summary = "the gradient of local contrast normalisation on tiles",
                           LK_ARITY(3, 1),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(tile_lcn_attr),
                           .infer = grad_infer,
                           .forward = grad_forward};

static lk_status lcn_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    tile_lcn_attr a = *(const tile_lcn_attr *)c->attr;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    return LK_TRACE(
        lk_apply(c->tape, &grad, (lk_var[]){dout[0], c->out[0], c->out[1]}, 3, &a, &din[0]));
}

/* ---- the call ---- */

static const lk_op lcn = {.name = "tile_lcn",
                          .summary = "local contrast normalisation of a tile and its margin",
                          LK_ARITY(1, 2),
                          .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                          .attr_size = sizeof(tile_lcn_attr),
                          .infer = lcn_infer,
                          .forward = lcn_forward,
                          .backward = lcn_backward};

/* Whether the tile was made for this window. */
static lk_status window_check(const lk_tile *t, const int64_t size[2])
{
    const lk_window *w = &t->window;
    LK_CHECK(t->kind == LK_TILE_LCN && w->ndim == 2, LK_EINVAL,
             "tile_lcn on a tile that was not made for it (LK_TILE_LCN, two axes)");
    for (int d = 0; d < 2; d++)
        LK_CHECK(
            w->kernel[d] == size[d] && w->pad_lo[d] == size[d] / 2 && w->stride[d] <= 1 &&
                w->dilation[d] <= 1 && w->grid <= 1 && t->in[d] == t->out[d],
            LK_EINVAL,
            "tile_lcn: axis %d has a window of %lld, so the tile's must be that, stride 1 and "
            "padding %lld, between equal sizes; it is %lld, stride %lld and padding %lld, from "
            "%lld to %lld",
            d, (long long)size[d], (long long)size[d] / 2, (long long)w->kernel[d],
            (long long)w->stride[d], (long long)w->pad_lo[d], (long long)t->in[d],
            (long long)t->out[d]);
    return LK_OK;
}

lk_status lk_dist_tile_lcn(const lk_tile *tile, lk_var x, int64_t rows, int64_t columns,
                           const char *name, lk_var *out)
{
    tile_lcn_attr a;
    lk_var both[2] = {LK_NO_VAR, LK_NO_VAR};
    LK_CHECK(tile && out, LK_EINVAL, "tile_lcn: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_TRY(window_check(tile, (int64_t[]){rows, columns}));
    lk_comm *comm = tile->tiling->comm;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    a.lcn.window[0] = rows;
    a.lcn.window[1] = columns;
    LK_TRY_DIST(comm, lk__dist_valid("tile_lcn", x));
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(x.tape, comm, "tile_lcn"));
    LK_TRY_DIST(comm, lk_apply(x.tape, &lcn, &x, 1, &a, both));
    *out = both[0];
    return LK_OK;
}
