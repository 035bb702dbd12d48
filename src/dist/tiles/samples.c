/* tiles_to_samples and samples_to_tiles: between tiles of all samples and whole samples of some.
 *
 *     tiles     rank r has [samples of the pass][its box...][channels]
 *     samples   rank r has [its samples][position...][channels]
 *
 * A trainer calls them, on the thread of the tape, where a layer wants whole samples and where tiles begin
 * again; a host does the same.  Each is one alltoall: rank p gives rank r its tile of r's samples, or the
 * way back.  Who gives how much is arithmetic on both sides.  Each position of each sample has one owner
 * before and behind, so both move elements and nothing else, and each is the other's adjoint:
 *
 *     tiles_to_samples    dx = samples_to_tiles of dy: the margin of dx is clear
 *     samples_to_tiles    dx = tiles_to_samples of dy: the margin of dy is not read
 *
 * One rank that has all tiles has whole samples as well, and nothing is done.
 */
#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "tensor/tensor.h"

#include <lockstep/ops.h>

#include <string.h>

typedef struct move_attr {
    lk__dist d;
    const lk_tile *tile;
    const int64_t *samples; /* [ranks + 1] */
} move_attr;

static const lk_op to_samples, to_tiles;

/* ---- what is where ---- */

static int64_t own_samples(const move_attr *a)
{
    int rank = a->tile->tiling->rank;
    return a->samples[rank + 1] - a->samples[rank];
}

static lk_box whole_box(const lk_tile *tile)
{
    return lk_box_whole(tile->window.ndim, tile->in);
}

static lk_box tile_of(const lk_tile *tile, int rank)
{
    return lk_tiling_box(tile->tiling, rank, tile->window.ndim, tile->in, &tile->in_bounds);
}

static lk_status samples_check(const char *call, const move_attr *a)
{
    int size = a->tile->tiling->size;
    bool ascends = a->samples[0] == 0;
    for (int r = 0; r < size && ascends; r++)
        ascends = a->samples[r] <= a->samples[r + 1];
    LK_CHECK(ascends, LK_EINVAL,
             "%s: samples must say where those of each of %d ranks begin, ascending from 0", call,
             size);
    return LK_OK;
}

/* x must be [n][box...][channels]. */
static lk_status value_check(const char *call, lk_shape shape, const lk_box *box, int64_t n)
{
    LK_TRY(lk__tile_check(call, "x", shape, box));
    LK_CHECK(shape.dim[0] == n, LK_ESHAPE, "%s: x is %s, where this rank has %lld samples", call,
             lk_shape_text(shape).s, (long long)n);
    return LK_OK;
}

/* What x must be, in an op's own domain or the other one's. */
static lk_status move_check(const char *call, const move_attr *a, lk_shape shape, bool tiles)
{
    lk_box whole = whole_box(a->tile);
    LK_TRY(samples_check(call, a));
    return LK_TRACE(value_check(call, shape, tiles ? &a->tile->x.box : &whole,
                                tiles ? a->samples[a->tile->tiling->size] : own_samples(a)));
}

/* The shape in the other domain. */
static lk_shape moved_shape(const move_attr *a, lk_shape shape, bool from_tiles)
{
    shape.dim[0] = from_tiles ? own_samples(a) : a->samples[a->tile->tiling->size];
    for (int d = 0; d < a->tile->window.ndim; d++)
        shape.dim[d + 1] = from_tiles ? a->tile->in[d] : a->tile->x.box.n[d];
    return shape;
}

static lk_status move_infer(lk_call *c, lk_output_spec *out)
{
    const move_attr *a = c->attr;
    bool from_tiles = c->op == &to_samples;
    LK_TRY(move_check(c->op->name, a, c->x[0]->shape, from_tiles));
    out->dtype = c->x[0]->dtype;
    out->shape = moved_shape(a, c->x[0]->shape, from_tiles);
    return LK_OK;
}

/* ---- moving ---- */

/* One move, seen from this rank. */
typedef struct move {
    const move_attr *a;
    const lk_tensor *x;
    lk_tensor *y;
    int64_t channels, bytes; /* of a position */
    int64_t *by_samples;     /* [ranks] elements: of its tile, the samples of each */
    int64_t *by_tiles;       /* [ranks] elements: of its samples, the tile of each */
} move;

static lk_status move_begin(lk_call *c, move *m)
{
    const move_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    int size = a->tile->tiling->size;
    *m = (move){.a = a, .x = x, .y = c->y[0], .channels = x->shape.dim[x->shape.ndim - 1]};
    m->bytes = m->channels * (int64_t)lk_dtype_size(x->dtype);
    LK_TRY(lk_call_scratch(c, size * (int64_t)sizeof(int64_t), &m->by_samples));
    LK_TRY(lk_call_scratch(c, size * (int64_t)sizeof(int64_t), &m->by_tiles));
    int64_t own_tile = lk_box_count(&a->tile->x.tile) * m->channels;
    for (int r = 0; r < size; r++) {
        lk_box tile = tile_of(a->tile, r);
        m->by_samples[r] = (a->samples[r + 1] - a->samples[r]) * own_tile;
        m->by_tiles[r] = own_samples(a) * lk_box_count(&tile) * m->channels;
    }
    return LK_OK;
}

static lk_status move_run(const move *m, const void *in, const int64_t *in_counts, void *out,
                          const int64_t *counts)
{
    int64_t elements = 0;
    if (m->a->d.comm)
        return lk_alltoallv(m->a->d.comm, in, in_counts, out, counts, m->x->dtype, m->a->d.name);
    for (int r = 0; r < m->a->tile->tiling->size; r++) /* a rehearsal */
        elements += counts[r];
    if (elements > 0)
        memset(out, 0, (size_t)elements * lk_dtype_size(m->x->dtype));
    return LK_OK;
}

/* The tile of all samples of the pass as one dense array: the array itself where it has no margin. */
static lk_status tile_room(lk_call *c, const move *m, const lk_tensor *array, char **out)
{
    const lk_held *held = &m->a->tile->x;
    int64_t n = m->a->samples[m->a->tile->tiling->size];
    *out = lk__tensor_start(array);
    if (!lk_box_is_equal(&held->tile, &held->box))
        LK_TRY(lk_call_scratch(c, n * lk_box_count(&held->tile) * m->bytes, out));
    return LK_OK;
}

/* Copy between whole samples and the tiles of all ranks, one behind the other. */
static void tiles_each(const move *m, char *whole, char *dense, bool pack)
{
    lk_box all = whole_box(m->a->tile);
    int64_t n = own_samples(m->a), elem = (int64_t)lk_dtype_size(m->x->dtype);
    for (int r = 0; r < m->a->tile->tiling->size; r++) {
        lk_box tile = tile_of(m->a->tile, r);
        if (pack)
            lk__tile_pack(whole, &all, &tile, n, m->bytes, dense);
        else
            lk__tile_unpack(whole, &all, &tile, n, m->bytes, dense);
        dense += m->by_tiles[r] * elem;
    }
}

static lk_status to_samples_forward(lk_call *c)
{
    move m;
    char *tile, *received;
    LK_TRY(move_begin(c, &m));
    const lk_held *held = &m.a->tile->x;
    LK_TRY(tile_room(c, &m, m.x, &tile));
    LK_TRY(lk_call_scratch(c, m.y->count * (int64_t)lk_dtype_size(m.x->dtype), &received));
    if (tile != lk__tensor_start(m.x))
        lk__tile_pack(lk__tensor_start(m.x), &held->box, &held->tile, m.x->shape.dim[0], m.bytes,
                      tile);
    LK_TRY(move_run(&m, tile, m.by_samples, received, m.by_tiles));
    tiles_each(&m, lk__tensor_start(m.y), received, false);
    return LK_OK;
}

static lk_status to_tiles_forward(lk_call *c)
{
    move m;
    char *tile, *goes;
    LK_TRY(move_begin(c, &m));
    const lk_held *held = &m.a->tile->x;
    char *y = lk__tensor_start(m.y);
    int64_t n = m.y->shape.dim[0];
    LK_TRY(tile_room(c, &m, m.y, &tile));
    LK_TRY(lk_call_scratch(c, m.x->count * (int64_t)lk_dtype_size(m.x->dtype), &goes));
    tiles_each(&m, lk__tensor_start(m.x), goes, true);
    LK_TRY(move_run(&m, goes, m.by_tiles, tile, m.by_samples));
    if (tile != y) {
        lk__tile_unpack(y, &held->box, &held->tile, n, m.bytes, tile);
        lk__tile_clear_around(y, &held->box, &held->tile, n, m.bytes);
    }
    return LK_OK;
}

static lk_status move_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    move_attr a = *(const move_attr *)c->attr;
    const lk_op *other = c->op == &to_samples ? &to_tiles : &to_samples;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    return LK_TRACE(lk_apply(c->tape, other, dout, 1, &a, din));
}

#define MOVE_OP(node, title, text)                                       \
    static const lk_op node = {.name = title,                            \
                               .summary = text,                          \
                               .min_in = 1,                              \
                               .max_in = 1,                              \
                               .n_out = 1,                               \
                               .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR, \
                               .attr_size = sizeof(move_attr),           \
                               .infer = move_infer,                      \
                               .forward = node##_forward,                \
                               .backward = move_backward}

MOVE_OP(to_samples, "tiles_to_samples", "tiles of all samples become whole samples of some");
MOVE_OP(to_tiles, "samples_to_tiles", "whole samples of some become tiles of all samples");

/* ---- the calls ---- */

/* One rank: all samples are here, and the box is the whole; without positions it may have another shape. */
static lk_status same_value(const lk_op *op, const move_attr *a, lk_var x, lk_var *out)
{
    bool from_tiles = op == &to_samples;
    lk_shape shape = lk_shape_of(x);
    LK_TRY(move_check(op->name, a, shape, from_tiles));
    lk_shape moved = moved_shape(a, shape, from_tiles);
    *out = x;
    if (!lk_shape_is_equal(shape, moved))
        LK_TRY(lk_reshape(x, moved, out));
    return LK_OK;
}

static lk_status apply(const lk_tile *tile, const lk_op *op, lk_var x, const int64_t *samples,
                       const char *name, lk_var *out)
{
    move_attr a;
    LK_CHECK(tile && samples && out, LK_EINVAL, "%s: %s is NULL", op->name,
             !tile      ? "tile"
             : !samples ? "samples"
                        : "out");
    *out = LK_NO_VAR;
    const lk_tiling *t = tile->tiling;
    LK_CHECK(t->comm || t->size == 1 || t->rehearses, LK_ESTATE,
             "%s: a tiling for %d ranks that has no communicator", op->name, t->size);
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(t->comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    a.samples = samples;
    LK_TRY_DIST(t->comm, lk__dist_valid(op->name, x));
    if (lk__tiling_is_alone(t)) {
        return LK_TRACE(same_value(op, &a, x, out));
    }
    if (t->comm)
        LK_TRY_DIST(t->comm, lk__dist_uses(x.tape, t->comm, op->name));
    LK_TRY_DIST(t->comm, lk_apply(x.tape, op, &x, 1, &a, out));
    return LK_OK;
}

lk_status lk_dist_tiles_to_samples(const lk_tile *tile, lk_var x, const int64_t *samples,
                                   const char *name, lk_var *out)
{
    return LK_TRACE(apply(tile, &to_samples, x, samples, name, out));
}

lk_status lk_dist_samples_to_tiles(const lk_tile *tile, lk_var x, const int64_t *samples,
                                   const char *name, lk_var *out)
{
    return LK_TRACE(apply(tile, &to_tiles, x, samples, name, out));
}
