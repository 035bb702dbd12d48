/* tile_local_conv: untied convolution (local filtering) of samples whose positions are cut over ranks, and its
 * transpose, local defiltering.
 *
 *   filter     y's tile  = lk_local_conv() of what it reads of x, whose margin is fetched first, with the
 *                          filters of its own positions, which are all that a rank has
 *   defilter   y's tile  = its transpose, of what reads the tile: margins of x and of the filters are
 *                          fetched first
 *   dw                   = lk_local_conv_weights() of the own positions; nothing is joined over tiles
 *
 * The gradient of x is the other of the first two.  Both go between the same two *sides*: the image, which
 * filtering reads, and what it makes of it, whose positions have the filters.
 *
 * Every element is the chain that it is in the whole sample (ops/common/windows/untied.h).  Filters change once a
 * step, so their margin is fetched once, by the first defiltering after lk_tile_weights_changed(), into
 * memory of the tile.  The tape calls these, on the thread of the tiling's communicator.
 */
#include "dist/common/leaf_sums.h"
#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "ops/common/ops.h"
#include "ops/common/windows/conv.h"
#include "ops/common/windows/untied.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

typedef struct local_attr {
    lk__dist d;
    const lk_tile *tile;
    bool fetches; /* dw of a defiltering is the first to read dy's margin */
} local_attr;

/* The sides of a filtering, of which a tile has one as x and the other as y. */
typedef struct sides {
    const lk_held *image, *filtered;
    const int64_t *in, *out; /* their sizes */
    lk_fetch *get_image, *get_filtered;
    const lk_box *filters; /* positions whose filters reach into the tile of the image */
} sides;

static sides sides_of(const lk_tile *t)
{
    if (t->kind == LK_TILE_LOCAL_CONV_TRANSPOSE)
        return (sides){&t->y, &t->x, t->out, t->in, t->get_dy, t->get_x, &t->x_reads};
    return (sides){&t->x, &t->y, t->in, t->out, t->get_x, t->get_dy, &t->dy_reads};
}

/* ---- the filters of others ---- */

void lk_tile_weights_changed(const lk_tile *tile)
{
    if (tile->weights)
        tile->weights->fresh = false;
}

void lk__tile_weights_free(lk__tile_weights *weights)
{
    if (weights) {
        lk_fetch_free(weights->get);
        lk_free(weights->array);
    }
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

/* Memory for the filters that defiltering reads. */
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

/* Where the filters of all windows over the image's tile are, of the positions *box.  A rank that only gives
 * sends its own from where they lie. */
static lk_status filters_get(const local_attr *a, const lk_tensor *w, lk_box *box, char **out)
{
    const lk_tile *t = a->tile;
    const sides s = sides_of(t);
    lk__tile_weights *weights = t->weights;
    int64_t filter = filter_bytes(t, w), channels = filter / (int64_t)lk_dtype_size(w->dtype);
    bool alone = lk__box_has(&s.filtered->tile, s.filters);
    *box = s.filtered->tile;
    *out = lk__tensor_start(w);
    if (!weights->get)
        return LK_OK;
    if (!alone) {
        *box = lk__box_hull(&s.filtered->tile, s.filters);
        LK_TRY(weights_room(weights, box, filter));
        if (!weights->fresh)
            lk__tile_unpack(weights->array, box, &s.filtered->tile, 1, filter, *out);
        *out = weights->array;
    }
    if (!weights->fresh) {
        LK_TRY(lk_fetch_begin(weights->get, w->dtype, 1, channels, box, *out, a->d.name));
        LK_TRY(lk_fetch_end(weights->get));
        weights->fresh = true;
    }
    return LK_OK;
}

/* ---- kernel calls ---- */

/* The arrays of the two sides, which are the tile's boxes. */
static lk__untied_boxes boxes_of(const lk_tile *t, const lk_tensor *image,
                                 const lk_tensor *filtered)
{
    const sides s = sides_of(t);
    int ndim = t->window.ndim;
    lk__untied_boxes b = {.dtype = image->dtype,
                          .window = t->window,
                          .batch = image->shape.dim[0],
                          .in_channels = image->shape.dim[ndim + 1],
                          .out_channels = filtered->shape.dim[ndim + 1],
                          .x = lk__tensor_start(image),
                          .y = lk__tensor_start(filtered),
                          .x_box = s.image->box,
                          .y_box = s.filtered->box,
                          .w_box = s.filtered->tile};
    memcpy(b.in, s.in, sizeof b.in);
    memcpy(b.out, s.out, sizeof b.out);
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

/* What the filters of a tile are, between channels of the image and of what filtering makes of it. */
static lk_shape filters_shape(const lk_tile *t, int64_t in_channels, int64_t out_channels)
{
    int ndim = t->window.ndim;
    lk_shape w = {.ndim = 2 * ndim + 2};
    memcpy(w.dim, sides_of(t).filtered->tile.n, (size_t)ndim * sizeof w.dim[0]);
    memcpy(&w.dim[ndim], t->window.kernel, (size_t)ndim * sizeof w.dim[0]);
    w.dim[w.ndim - 2] = in_channels;
    w.dim[w.ndim - 1] = out_channels;
    return w;
}

static lk_status filters_check(const lk_call *c, lk_shape want)
{
    const lk_tensor *x = c->x[0], *w = c->x[1];
    LK_CHECK(x->dtype == w->dtype && lk_dtype_is_real(x->dtype), LK_EDTYPE,
             "%s of %s with weights %s", c->op->name, lk_tensor_text(x).s, lk_tensor_text(w).s);
    LK_CHECK(lk_shape_is_equal(w->shape, want), LK_ESHAPE,
             "%s of %s with weights %s: of the positions of this rank's tile they must be %s",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(w).s, lk_shape_text(want).s);
    return LK_OK;
}

/* ---- from the image ---- */

static lk_status filter_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tile *t = ((const local_attr *)c->attr)->tile;
    const sides s = sides_of(t);
    lk_shape x = c->x[0]->shape, w = c->x[1]->shape;
    int64_t channels = w.ndim > 0 ? w.dim[w.ndim - 1] : 0;
    LK_TRY(lk__tile_check(c->op->name, c->op->backward ? "x" : "dy", x, &s.image->box));
    LK_TRY(filters_check(c, filters_shape(t, x.dim[x.ndim - 1], channels)));
    out->dtype = c->x[0]->dtype;
    out->shape = lk__tile_shape(&s.filtered->box, x.dim[0], channels);
    return LK_OK;
}

static lk_status filter_forward(lk_call *c)
{
    const local_attr *a = c->attr;
    const sides s = sides_of(a->tile);
    lk__untied_boxes b = boxes_of(a->tile, c->x[0], c->y[0]);
    LK_TRY(lk__tile_fetch(s.get_image, c->x[0], &s.image->box, a->d.name));
    if (is_empty(&b)) {
        clear(c->y[0]);
        return LK_OK;
    }
    b.w = lk__tensor_start(c->x[1]);
    b.sites = s.filtered->tile;
    clear_around(c->y[0], &s.filtered->box, &s.filtered->tile);
    return LK_TRACE(lk__untied_run_boxes(c, LK_UNTIED_Y, &b));
}

/* ---- back to it ---- */

static lk_status defilter_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tile *t = ((const local_attr *)c->attr)->tile;
    const sides s = sides_of(t);
    lk_shape x = c->x[0]->shape, w = c->x[1]->shape;
    int64_t channels = w.ndim > 1 ? w.dim[w.ndim - 2] : 0;
    LK_TRY(lk__tile_check(c->op->name, c->op->backward ? "x" : "dy", x, &s.filtered->box));
    LK_TRY(filters_check(c, filters_shape(t, channels, x.dim[x.ndim - 1])));
    out->dtype = c->x[0]->dtype;
    out->shape = lk__tile_shape(&s.image->box, x.dim[0], channels);
    return LK_OK;
}

static lk_status defilter_forward(lk_call *c)
{
    const local_attr *a = c->attr;
    const sides s = sides_of(a->tile);
    lk__untied_boxes b = boxes_of(a->tile, c->y[0], c->x[0]);
    LK_TRY(lk__tile_fetch(s.get_filtered, c->x[0], &s.filtered->box, a->d.name));
    if (is_empty(&b)) { /* on all ranks alike */
        clear(c->y[0]);
        return LK_OK;
    }
    LK_TRY(filters_get(a, c->x[1], &b.w_box, &b.w));
    b.sites = s.image->tile;
    clear_around(c->y[0], &s.image->box, &s.image->tile);
    return LK_TRACE(lk__untied_run_boxes(c, LK_UNTIED_X, &b));
}

/* ---- the gradient of the filters, from the image and what came of it, or their gradients ---- */

static lk_status weights_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tile *t = ((const local_attr *)c->attr)->tile;
    const sides s = sides_of(t);
    lk_shape image = c->x[0]->shape, filtered = c->x[1]->shape;
    LK_TRY(lk__tile_check(c->op->name, "the image", image, &s.image->box));
    LK_TRY(lk__tile_check(c->op->name, "what is filtered", filtered, &s.filtered->box));
    out->dtype = c->x[0]->dtype;
    out->shape = filters_shape(t, image.dim[image.ndim - 1], filtered.dim[filtered.ndim - 1]);
    return LK_OK;
}

static lk_status weights_forward(lk_call *c)
{
    const local_attr *a = c->attr;
    const sides s = sides_of(a->tile);
    lk__untied_boxes b = boxes_of(a->tile, c->x[0], c->x[1]);
    if (a->fetches)
        LK_TRY(lk__tile_fetch(s.get_image, c->x[0], &s.image->box, a->d.name));
    if (is_empty(&b)) {
        clear(c->y[0]);
        return LK_OK;
    }
    b.w = lk__tensor_start(c->y[0]);
    b.sites = s.filtered->tile;
    return LK_TRACE(lk__untied_run_boxes(c, LK_UNTIED_W, &b));
}

/* ---- ops ---- */

#define OP(text, formula, more, does)                                                      \
    .name = text, .summary = formula, LK_ARITY(2, 1), .flags = (more) | LK_OP_FIRST_ORDER, \
    .attr_size = sizeof(local_attr), .infer = does##_infer, .forward = does##_forward

static const lk_op filter_grad = {OP("tile_local_conv_transpose.data",
                                     "the gradient of x of a local defiltering on tiles",
                                     LK_OP_COLLECTIVE, filter)};
static const lk_op defilter_grad = {OP("tile_local_conv.data",
                                       "the gradient of x of an untied convolution on tiles",
                                       LK_OP_COLLECTIVE, defilter)};
static const lk_op weights_grad = {
    OP("tile_local_conv.weights", "the gradient of the filters of a tile", 0, weights)};
static const lk_op fetching_weights_grad = {OP(
    "tile_local_conv.weights", "the gradient of the filters of a tile", LK_OP_COLLECTIVE, weights)};

static lk_status filter_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    local_attr a = *(const local_attr *)c->attr;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &defilter_grad, (lk_var[]){dout[0], c->in[1]}, 2, &a, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(
            lk_apply_gradient(c, 1, &weights_grad, (lk_var[]){c->in[0], dout[0]}, 2, &a, &din[1]));
    return LK_OK;
}

/* All ranks fetch dy's margin first, whatever their tiles are: dw reads it, too. */
static lk_status defilter_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    local_attr a = *(const local_attr *)c->attr;
    lk_var dy;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    LK_TRY(lk_contiguous(dout[0], &dy));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &filter_grad, (lk_var[]){dy, c->in[1]}, 2, &a, &din[0]));
    else
        a.fetches = true;
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_apply_gradient(c, 1, a.fetches ? &fetching_weights_grad : &weights_grad,
                                 (lk_var[]){dy, c->in[0]}, 2, &a, &din[1]));
    return LK_OK;
}

static const lk_op tile_local_conv = {
    OP("tile_local_conv", "untied convolution on tiles", LK_OP_COLLECTIVE, filter), .saves_in = 3,
    .backward = filter_backward};
static const lk_op tile_local_conv_transpose = {
    OP("tile_local_conv_transpose", "the transpose of an untied convolution on tiles",
       LK_OP_COLLECTIVE, defilter),
    .saves_in = 3, .backward = defilter_backward};

/* ---- the calls ---- */

static lk_status apply(const lk_op *op, const lk_tile *tile, lk_var x, lk_var w, const char *name,
                       lk_var *out)
{
    local_attr a;
    lk_comm *comm = tile->tiling->comm;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    LK_TRY(lk__dist_valid(op->name, x));
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(x.tape, comm, op->name));
    LK_TRY_DIST(comm, lk_contiguous(x, &x));
    LK_TRY_DIST(comm, lk_apply(x.tape, op, (lk_var[]){x, w}, 2, &a, out));
    return LK_OK;
}

lk_status lk_dist_tile_local_conv(const lk_tile *tile, lk_var x, lk_var w, const char *name,
                                  lk_var *out)
{
    LK_CHECK(tile && out, LK_EINVAL, "tile_local_conv: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_CHECK(tile->kind == LK_TILE_LOCAL_CONV, LK_EINVAL,
             "tile_local_conv: the tile is not of a local convolution (LK_TILE_LOCAL_CONV)");
    return LK_TRACE(apply(&tile_local_conv, tile, x, w, name, out));
}

lk_status lk_dist_tile_local_conv_transpose(const lk_tile *tile, lk_var x, lk_var w,
                                            const char *name, lk_var *out)
{
    LK_CHECK(tile && out, LK_EINVAL, "tile_local_conv_transpose: %s is NULL",
             tile ? "out" : "tile");
    *out = LK_NO_VAR;
    LK_CHECK(tile->kind == LK_TILE_LOCAL_CONV_TRANSPOSE, LK_EINVAL,
             "tile_local_conv_transpose: the tile is not of the transpose of a local convolution "
             "(LK_TILE_LOCAL_CONV_TRANSPOSE)");
    return LK_TRACE(apply(&tile_local_conv_transpose, tile, x, w, name, out));
}
