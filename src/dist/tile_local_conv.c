/* tile_local_conv: untied convolution (local filtering) of samples whose positions are cut over ranks.
 *
 *   y's tile  = lk_local_conv() of what it reads of x, whose margin is fetched first, with the filters of
 *               its own positions, which are all that a rank has
 *   dx's tile = its transpose, of what reads the tile: margins of dy and of the filters are fetched first
 *   dw        = lk_local_conv_weights() of the own positions; nothing is joined over tiles
 *
 * Every element is the chain that it is in the whole sample (ops/common/untied.h).  Filters change once a
 * step, so their margin is fetched once, by the first backward after lk_tile_weights_changed(), into
 * memory of the tile.  The tape calls these, on the thread of the tiling's communicator.
 */
#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "ops/common/conv.h"
#include "ops/common/ops.h"
#include "ops/common/untied.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

typedef struct local_attr {
    lk__dist d;
    const lk_tile *tile;
} local_attr;

/* ---- the filters of others ---- */

void lk_tile_weights_changed(const lk_tile *tile)
{
    if (tile->weights)
        tile->weights->fresh = false;
}

void lk__tile_weights_free(lk__tile_weights *weights)
{
    if (weights)
        lk_free(weights->array);
    lk_free(weights);
}

/* Bytes of a position's filter. */
static int64_t filter_bytes(const lk_tile *t, const lk_tensor *w)
{
    int64_t n = (int64_t)lk_dtype_size(w->dtype);
    for (int d = t->window.ndim; d < w->shape.ndim; d++)
        n *= w->shape.dim[d];
    return n;
}

/* Memory for the filters that dx reads. */
static lk_status weights_room(lk__tile_weights *weights, const lk_box *box, int64_t filter)
{
    int64_t bytes;
    LK_TRY(lk_mul_i64(lk_box_count(box), filter, &bytes));
    if (weights->array && weights->bytes >= bytes)
        return LK_OK;
    lk_free(weights->array);
    weights->array = NULL;
    LK_TRY(lk_alloc(&weights->array, bytes, 1));
    weights->bytes = bytes;
    return LK_OK;
}

/* Where the filters of all windows over x's tile are, of the positions *box.  A rank that only gives sends
 * its own from where they lie. */
static lk_status filters_get(const local_attr *a, const lk_tensor *w, lk_box *box, char **out)
{
    const lk_tile *t = a->tile;
    lk__tile_weights *weights = t->weights;
    int64_t filter = filter_bytes(t, w), channels = filter / (int64_t)lk_dtype_size(w->dtype);
    bool alone = lk__box_has(&t->y.tile, &t->dy_reads);
    *box = t->y.tile;
    *out = lk__tensor_start(w);
    if (!t->get_dy)
        return LK_OK;
    if (!alone) {
        *box = lk__box_hull(&t->y.tile, &t->dy_reads);
        LK_TRY(weights_room(weights, box, filter));
        if (!weights->fresh)
            lk__tile_unpack(weights->array, box, &t->y.tile, 1, filter, *out);
        *out = weights->array;
    }
    if (!weights->fresh) {
        LK_TRY(lk_fetch_begin(t->get_dy, w->dtype, 1, channels, box, *out, a->d.name));
        LK_TRY(lk_fetch_end(t->get_dy));
        weights->fresh = true;
    }
    return LK_OK;
}

/* ---- kernel calls ---- */

/* The arrays of x and y, which are the tile's boxes. */
static lk__untied_boxes boxes_of(const lk_tile *t, const lk_tensor *x, const lk_tensor *y)
{
    int ndim = t->window.ndim;
    lk__untied_boxes b = {.dtype = x->dtype,
                          .window = t->window,
                          .batch = x->shape.dim[0],
                          .in_channels = x->shape.dim[ndim + 1],
                          .out_channels = y->shape.dim[ndim + 1],
                          .x = lk__tensor_start(x),
                          .y = lk__tensor_start(y),
                          .x_box = t->x.box,
                          .y_box = t->y.box,
                          .w_box = t->y.tile};
    memcpy(b.in, t->in, sizeof b.in);
    memcpy(b.out, t->out, sizeof b.out);
    return b;
}

static bool is_empty(const lk__untied_boxes *b)
{
    return b->batch == 0 || b->in_channels == 0 || b->out_channels == 0;
}

static void clear(const lk_tensor *t)
{
    memset(lk__tensor_start(t), 0, (size_t)t->count * lk_dtype_size(t->dtype));
}

/* All of a value but `part` of its box becomes 0, or all of it. */
static void clear_around(const lk_tensor *y, const lk_box *box, const lk_box *part)
{
    lk__tile_clear_around(lk__tensor_start(y), box, part, y->shape.dim[0],
                          y->shape.dim[y->shape.ndim - 1] * (int64_t)lk_dtype_size(y->dtype));
}

static void box_shape(const lk_box *box, int64_t samples, int64_t channels, lk_shape *out)
{
    out->ndim = box->ndim + 2;
    out->dim[0] = samples;
    memcpy(&out->dim[1], box->n, (size_t)box->ndim * sizeof box->n[0]);
    out->dim[box->ndim + 1] = channels;
}

/* What the filters of a tile are. */
static lk_shape filters_shape(const lk_tile *t, int64_t in_channels, int64_t out_channels)
{
    int ndim = t->window.ndim;
    lk_shape w = {.ndim = 2 * ndim + 2};
    memcpy(w.dim, t->y.tile.n, (size_t)ndim * sizeof w.dim[0]);
    memcpy(&w.dim[ndim], t->window.kernel, (size_t)ndim * sizeof w.dim[0]);
    w.dim[w.ndim - 2] = in_channels;
    w.dim[w.ndim - 1] = out_channels;
    return w;
}

/* ---- forward ---- */

static lk_status local_infer(lk_call *c, lk_output_spec *out)
{
    const local_attr *a = c->attr;
    const lk_tile *t = a->tile;
    lk_shape x = c->x[0]->shape, w = c->x[1]->shape;
    int ndim = t->window.ndim;
    LK_TRY(lk__tile_check(c->op->name, "x", x, &t->x.box));
    LK_CHECK(c->x[0]->dtype == c->x[1]->dtype && lk_dtype_is_real(c->x[0]->dtype), LK_EDTYPE,
             "%s of %s with weights %s", c->op->name, lk_tensor_text(c->x[0]).s,
             lk_tensor_text(c->x[1]).s);
    lk_shape want = filters_shape(t, x.dim[ndim + 1], w.dim[w.ndim - 1]);
    LK_CHECK(lk_shape_is_equal(w, want), LK_ESHAPE,
             "%s of %s with weights %s: of the positions of this rank's tile they must be %s",
             c->op->name, lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[1]).s,
             lk_shape_text(want).s);
    out->dtype = c->x[0]->dtype;
    box_shape(&t->y.box, x.dim[0], w.dim[w.ndim - 1], &out->shape);
    return LK_OK;
}

static lk_status local_forward(lk_call *c)
{
    const local_attr *a = c->attr;
    const lk_tile *t = a->tile;
    lk__untied_boxes b = boxes_of(t, c->x[0], c->y[0]);
    LK_TRY(lk__tile_fetch(t->get_x, c->x[0], &t->x.box, a->d.name));
    if (is_empty(&b)) {
        clear(c->y[0]);
        return LK_OK;
    }
    b.w = lk__tensor_start(c->x[1]);
    b.sites = t->y.tile;
    clear_around(c->y[0], &t->y.box, &t->y.tile);
    LK_TRY(lk__untied_run_boxes(c, LK_UNTIED_Y, &b));
    return LK_OK;
}

/* ---- the gradient of x ---- */

static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    const local_attr *a = c->attr;
    lk_shape dy = c->x[0]->shape, w = c->x[1]->shape;
    LK_TRY(lk__tile_check(c->op->name, "dy", dy, &a->tile->y.box));
    out->dtype = c->x[0]->dtype;
    box_shape(&a->tile->x.box, dy.dim[0], w.dim[w.ndim - 2], &out->shape);
    return LK_OK;
}

static lk_status data_forward(lk_call *c)
{
    const local_attr *a = c->attr;
    const lk_tile *t = a->tile;
    lk__untied_boxes b = boxes_of(t, c->y[0], c->x[0]);
    LK_TRY(lk__tile_fetch(t->get_dy, c->x[0], &t->y.box, a->d.name));
    if (is_empty(&b)) { /* on all ranks alike */
        clear(c->y[0]);
        return LK_OK;
    }
    LK_TRY(filters_get(a, c->x[1], &b.w_box, &b.w));
    b.sites = t->x.tile;
    clear_around(c->y[0], &t->x.box, &t->x.tile);
    LK_TRY(lk__untied_run_boxes(c, LK_UNTIED_X, &b));
    return LK_OK;
}

static const lk_op data_grad = {.name = "tile_local_conv.data",
                                .summary = "the gradient of x of an untied convolution on tiles",
                                .min_in = 2,
                                .max_in = 2,
                                .n_out = 1,
                                .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                                .attr_size = sizeof(local_attr),
                                .infer = data_infer,
                                .forward = data_forward};

/* ---- the gradient of the filters ---- */

static lk_status weights_infer(lk_call *c, lk_output_spec *out)
{
    const local_attr *a = c->attr;
    lk_shape x = c->x[0]->shape, dy = c->x[1]->shape;
    LK_TRY(lk__tile_check(c->op->name, "dy", dy, &a->tile->y.box));
    out->dtype = c->x[0]->dtype;
    out->shape = filters_shape(a->tile, x.dim[x.ndim - 1], dy.dim[dy.ndim - 1]);
    return LK_OK;
}

static lk_status weights_forward(lk_call *c)
{
    const lk_tile *t = ((const local_attr *)c->attr)->tile;
    lk__untied_boxes b = boxes_of(t, c->x[0], c->x[1]);
    if (is_empty(&b)) {
        clear(c->y[0]);
        return LK_OK;
    }
    b.w = lk__tensor_start(c->y[0]);
    b.sites = t->y.tile;
    LK_TRY(lk__untied_run_boxes(c, LK_UNTIED_W, &b));
    return LK_OK;
}

static const lk_op weights_grad = {.name = "tile_local_conv.weights",
                                   .summary = "the gradient of the filters of a tile",
                                   .min_in = 2,
                                   .max_in = 2,
                                   .n_out = 1,
                                   .flags = LK_OP_FIRST_ORDER,
                                   .attr_size = sizeof(local_attr),
                                   .infer = weights_infer,
                                   .forward = weights_forward};

static lk_status local_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    local_attr a = *(const local_attr *)c->attr;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &data_grad, (lk_var[]){dout[0], c->in[1]}, 2, &a, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_apply(c->tape, &weights_grad, (lk_var[]){c->in[0], dout[0]}, 2, &a, &din[1]));
    return LK_OK;
}

/* ---- the call ---- */

static const lk_op tile_local_conv = {.name = "tile_local_conv",
                                      .summary = "untied convolution on tiles",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                                      .attr_size = sizeof(local_attr),
                                      .saves_in = 3,
                                      .infer = local_infer,
                                      .forward = local_forward,
                                      .backward = local_backward};

lk_status lk_dist_tile_local_conv(const lk_tile *tile, lk_var x, lk_var w, const char *name,
                                  lk_var *out)
{
    local_attr a;
    LK_CHECK(tile && out, LK_EINVAL, "tile_local_conv: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_CHECK(tile->kind == LK_TILE_LOCAL_CONV, LK_EINVAL,
             "tile_local_conv: the tile is not of a local convolution (LK_TILE_LOCAL_CONV)");
    lk_comm *comm = tile->tiling->comm;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    LK_TRY(lk__dist_valid("tile_local_conv", x));
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(x.tape, comm, "tile_local_conv"));
    LK_TRY_DIST(comm, lk_contiguous(x, &x));
    LK_TRY_DIST(comm, lk_apply(x.tape, &tile_local_conv, (lk_var[]){x, w}, 2, &a, out));
    return LK_OK;
}
