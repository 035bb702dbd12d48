/* tile_pool: pooling on tiles, x [samples][box...][channels] of a tile's boxes.
 *
 * Forward fetches x's margin and computes all windows that reach into this rank's tile of x, besides
 * those of its tile of y.  So backward has their y and index, and fetches dy alone; each position of dx
 * is then one chain over the windows that cover it, as in the whole sample:
 *
 *   y[o]  for o in y_makes, from x in x_reads                      0 in the rest of the box
 *   dx[i] for i in the tile of x, from dy and y in dy_reads        0 in the rest of the box
 *
 * Windows are placed in x_reads, which has all positions that they reach, in forward and in backward:
 * valid taps are counted as in the whole, and an index counts the positions of x_reads.  Made by
 * lk_dist_tile_pool(), run on the thread of the tape.  The formulas are those of ops/max_pool.c,
 * avg_pool.c and l2_pool.c.
 */
#include "ops/common/windows/pool.h"

#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "ops/common/act.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct tile_pool_attr {
    lk__dist d;
    const lk_tile *tile;
    lk_pool_kind kind;
    bool relu, count_padding;
} tile_pool_attr;

/* The windows `out` over the positions `in`, as boxes of the held arrays; where both begin there. */
typedef struct windows {
    lk_pool_shape shape;
    int64_t x_at, y_at;
} windows;

static int64_t stride_of(const lk_window *w, int d)
{
    return w->stride[d] == 0 ? 1 : w->stride[d];
}

static windows windows_of(const tile_pool_attr *a, const lk_tensor *value, const lk_box *in,
                          const lk_box *out)
{
    const lk_tile *t = a->tile;
    int ndim = t->window.ndim;
    int64_t channels = value->shape.dim[ndim + 1];
    lk__tile_part x = lk__tile_part_of(&t->x.box, in, channels);
    lk__tile_part y = lk__tile_part_of(&t->y.box, out, channels);
    windows w = {.shape = {.dtype = value->dtype,
                           .window = t->window,
                           .batch = value->shape.dim[0],
                           .channels = channels,
                           .x_sample = x.sample,
                           .y_sample = y.sample,
                           .count_padding = a->count_padding,
                           .relu = a->relu},
                 .x_at = x.offset,
                 .y_at = y.offset};
    for (int d = 0; d < ndim; d++) {
        w.shape.in[d] = in->n[d];
        w.shape.out[d] = out->n[d];
        w.shape.x_step[d] = x.step[d];
        w.shape.y_step[d] = y.step[d];
        w.shape.window.pad_lo[d] += in->first[d] - out->first[d] * stride_of(&t->window, d);
    }
    return w;
}

/* Element `at` of a tensor, which may have none. */
static void *element_of(const lk_tensor *t, int64_t at)
{
    return t->count == 0 ? NULL : lk__tensor_start(t) + at * (int64_t)lk_dtype_size(t->dtype);
}

/* ---- forward: y of x, of max its index too ---- */

static lk_shape held_shape(const lk_tensor *like, const lk_box *box)
{
    lk_shape s = like->shape;
    memcpy(&s.dim[1], box->n, (size_t)box->ndim * sizeof s.dim[0]);
    return s;
}

static lk_status pool_infer(lk_call *c, lk_output_spec *out)
{
    const tile_pool_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "%s of %s: only f32 and f64 are computed with",
             c->op->name, lk_tensor_text(x).s);
    LK_TRY(lk__tile_check(c->op->name, "x", x->shape, &a->tile->x.box));
    for (int i = 0; i < c->op->n_out; i++) {
        out[i].dtype = i == 0 ? x->dtype : LK_I64;
        out[i].shape = held_shape(x, &a->tile->y.box);
    }
    return LK_OK;
}

static lk_status pool_forward(lk_call *c)
{
    const tile_pool_attr *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_tensor *x = c->x[0], *y = c->y[0];
    LK_TRY(lk__tile_fetch(t->get_x, x, &t->x.box, a->d.name));
    if (y->count == 0)
        return LK_OK;
    windows w = windows_of(a, x, &t->x_reads, &t->y_makes);
    lk__tile_clear_around(lk__tensor_start(y), &t->y.box, &t->y_makes, w.shape.batch,
                          w.shape.channels * (int64_t)lk_dtype_size(y->dtype));
    const void *from = element_of(x, w.x_at);
    void *to = element_of(y, w.y_at);
    if (a->kind == LK_POOL_MAX)
        LK_TRY(lk_pool_max(&w.shape, from, to, element_of(c->y[1], w.y_at)));
    else if (a->kind == LK_POOL_AVG)
        LK_TRY(lk_pool_avg(&w.shape, from, to));
    else
        LK_TRY(lk_pool_l2(&w.shape, from, to));
    return LK_OK;
}

/* ---- the gradient as an op: dx of dy; of dy and index; of dy, y and x ---- */

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    const tile_pool_attr *a = c->attr;
    out->dtype = c->x[0]->dtype;
    out->shape = held_shape(c->x[0], &a->tile->x.box);
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    const tile_pool_attr *a = c->attr;
    const lk_tile *t = a->tile;
    const lk_tensor *dy = c->x[0], *dx = c->y[0];
    LK_TRY(lk__tile_fetch(t->get_dy, dy, &t->y.box, a->d.name));
    if (dx->count == 0)
        return LK_OK;
    /* x is read where dx is written: at its own position, never in the margin. */
    lk_box right = lk_box_intersect(&t->x_reads, &t->x.tile);
    windows w = windows_of(a, dy, a->kind == LK_POOL_L2 ? &right : &t->x_reads, &t->dy_reads);
    const void *from = element_of(dy, w.y_at);
    void *to = element_of(dx, w.x_at);
    if (a->kind == LK_POOL_MAX)
        LK_TRY(lk_pool_max_backward(&w.shape, from, element_of(c->x[1], w.y_at), to));
    else if (a->kind == LK_POOL_AVG)
        LK_TRY(lk_pool_avg_backward(&w.shape, from, to));
    else
        LK_TRY(lk_pool_l2_backward(&w.shape, element_of(c->x[2], w.x_at),
                                   element_of(c->x[1], w.y_at), from, to));
    lk__tile_clear_around(lk__tensor_start(dx), &t->x.box, &right, w.shape.batch,
                          w.shape.channels * (int64_t)lk_dtype_size(dx->dtype));
    return LK_OK;
}

static const lk_op tile_pool_grad = {.name = "tile_pool.grad",
                                     .summary = "the gradient of pooling on tiles",
                                     .min_in = 1,
                                     .max_in = 3,
                                     .n_out = 1,
                                     .flags = LK_OP_COLLECTIVE,
                                     .attr_size = sizeof(tile_pool_attr),
                                     .infer = grad_infer,
                                     .forward = grad_forward};

static lk_status pool_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    tile_pool_attr a = *(const tile_pool_attr *)c->attr;
    lk_var in[3] = {dout[0]};
    int n = 1;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    if (a.relu) /* of the own windows; those of others come masked by them */
        LK_TRY(lk__act_grad(LK_ACT_RELU, dout[0], c->out[0], &in[0]));
    if (a.kind == LK_POOL_MAX)
        in[n++] = c->out[1];
    if (a.kind == LK_POOL_L2) {
        in[n++] = c->out[0];
        in[n++] = c->in[0];
    }
    return LK_TRACE(lk_apply(c->tape, &tile_pool_grad, in, n, &a, &din[0]));
}

/* ---- the call ---- */

#define TILE_POOL(what, outputs, saved)                                                        \
    {                                                                                          \
        .name = what, .summary = "pooling of a tile and its margin", .min_in = 1, .max_in = 1, \
        .n_out = (outputs), .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,                     \
        .attr_size = sizeof(tile_pool_attr), .saves_in = (saved), .infer = pool_infer,         \
        .forward = pool_forward, .backward = pool_backward                                     \
    }

static const lk_op tile_pools[] = {[LK_POOL_MAX] = TILE_POOL("tile_max_pool", 2, 0),
                                   [LK_POOL_AVG] = TILE_POOL("tile_avg_pool", 1, 0),
                                   [LK_POOL_L2] = TILE_POOL("tile_l2_pool", 1, 1)};

/* Whether the tile was made for these windows. */
static lk_status window_check(const lk_tile *t, const lk_pool_attr *attr)
{
    const lk_window *w = &attr->window, *v = &t->window;
    LK_CHECK(t->kind == LK_TILE_POOL, LK_EINVAL,
             "tile_pool on a tile that was not made for a pool (LK_TILE_POOL)");
    for (int d = 0; d < v->ndim; d++) {
        LK_CHECK(w->dilation[d] <= 1 && v->dilation[d] <= 1, LK_EINVAL,
                 "tile_pool: axis %d has dilation %lld, which pools have not", d,
                 (long long)(w->dilation[d] > 1 ? w->dilation[d] : v->dilation[d]));
        LK_CHECK(w->kernel[d] == v->kernel[d] && stride_of(w, d) == stride_of(v, d) &&
                     w->pad_lo[d] == v->pad_lo[d],
                 LK_EINVAL,
                 "tile_pool: axis %d has kernel %lld, stride %lld and padding %lld, but the tile "
                 "was made for %lld, %lld and %lld",
                 d, (long long)w->kernel[d], (long long)stride_of(w, d), (long long)w->pad_lo[d],
                 (long long)v->kernel[d], (long long)stride_of(v, d), (long long)v->pad_lo[d]);
    }
    return LK_OK;
}

lk_status lk_dist_tile_pool(const lk_tile *tile, lk_pool_kind kind, lk_var x,
                            const lk_pool_attr *attr, bool relu, const char *name, lk_var *out)
{
    tile_pool_attr a;
    lk_var both[2];
    LK_CHECK(tile && out, LK_EINVAL, "tile_pool: %s is NULL", tile ? "out" : "tile");
    const lk_pool_attr made_for = {.window = tile->window};
    attr = attr ? attr : &made_for;
    *out = LK_NO_VAR;
    LK_CHECK(kind == LK_POOL_MAX || kind == LK_POOL_AVG || kind == LK_POOL_L2, LK_EINVAL,
             "tile_pool: kind %d is none of lk_pool_kind", (int)kind);
    LK_CHECK(!relu || kind == LK_POOL_MAX, LK_EINVAL,
             "tile_pool: only the largest can be taken of relu");
    LK_TRY(window_check(tile, attr));
    lk_comm *comm = tile->tiling->comm;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    a.kind = kind;
    a.relu = relu;
    a.count_padding = attr->count_padding;
    LK_TRY_DIST(comm, lk__dist_valid("tile_pool", x));
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(x.tape, comm, "tile_pool"));
    LK_TRY_DIST(comm, lk_apply(x.tape, &tile_pools[kind], &x, 1, &a, both));
    *out = both[0];
    return LK_OK;
}
