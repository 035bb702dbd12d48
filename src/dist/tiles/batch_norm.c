/* tile_batch_norm: x [samples][box...][channels] normalised by mean and variance of each channel over
 * all m rows of a shard, of which this rank has its tiles, or over those of the whole batch:
 *
 *   mean = sum x / m,  c = x - mean,  variance = sum (c c) / m,  inv = 1 / sqrt(variance + eps)
 *   y    = c (gamma inv) + beta
 *
 *   dx     = K dy - c K inv inv (sum (dy c) / m) - K (sum dy / m)       with K = gamma inv
 *   dgamma = sum (dy c) inv,  dbeta = sum dy                            by the tree over shards
 *
 * The loops are those of the op (ops/common/norm/norm_fused.c), on the held box, margin included.  A sum over
 * the rows of a shard is a lane sum of each leaf, joined by the tree over tiles; that of a batch is
 * these joined by the tree over shards.  All shards travel together: two vectors in forward, one of
 * twice the length in backward.
 */
#include "ops/common/norm/batch_norm.h"

#include "comm/user.h"
#include "dist/common/batch.h"
#include "dist/common/leaf_sums.h"
#include "dist/common/pending.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/reduce.h>

#include <string.h>

enum { X = LK__NORM_X, GAMMA = LK__NORM_GAMMA };

typedef struct norm_attr {
    lk_batch_norm_attr norm; /* what the loops look at */
    lk__dist d;
    const lk_tile *tile;
    const lk_dist_batch *batch; /* NULL: this rank has all samples of its statistics */
} norm_attr;

static bool is_whole(const norm_attr *a)
{
    return a->batch || a->norm.whole_batch;
}

/* ---- sums over a shard, or the batch ---- */

enum { MOST_SUMS = 2 };

/* A call under way: what its leaves have said, until it is joined. */
typedef struct norm_sums {
    lk_call *c;
    norm_attr a;
    lk__leaf_sums of;
    lk__leaf_part part[MOST_SUMS];
    int64_t n;
} norm_sums;

static lk_status leaves_sum(void *arg, const void *x)
{
    norm_sums *s = arg;
    lk__leaf_part *p = &s->part[s->n++];
    int64_t elem = (int64_t)lk_dtype_size(s->of.dtype);
    p->n = lk__leaf_pieces(&s->of) * s->of.channels;
    LK_TRY(lk_call_scratch(s->c, s->of.leaves * p->n * elem, &p->leaves));
    return LK_TRACE(lk__leaf_sum(&s->of, x, p->leaves));
}

/* sums [parts][shards][channels], or [parts][channels] over the batch. */
static lk_status leaves_join(void *arg, lk_dtype dtype, int64_t n, void *sums)
{
    norm_sums *s = arg;
    const lk_tiling *t = s->a.tile->tiling;
    int64_t parts = s->n, each = s->part[0].n, elem = (int64_t)lk_dtype_size(dtype);
    void *room, *joined = sums;
    s->n = 0;
    if (is_whole(&s->a))
        LK_TRY(lk_call_scratch(s->c, parts * each * elem, &joined));
    LK_TRY(lk_call_scratch(s->c, lk__tiles_join_room(t, parts * each) * elem, &room));
    if (parts * each > 0)
        LK_TRY(lk__tiles_join(t, dtype, s->part, parts, room, joined, s->a.d.name));
    if (is_whole(&s->a)) {
        lk_reduce_axis_shape tree = {
            .outer = parts, .n = lk__leaf_pieces(&s->of), .inner = s->of.channels, .piece = 1};
        LK_TRY(lk_reduce_axis(dtype, LK_REDUCE_AXIS_SUM, &tree, joined, sums));
    }
    if (s->a.batch)
        LK_TRY(lk__batch_join(s->a.batch, dtype, n, sums, s->a.d.name));
    return LK_OK;
}

/* The shards as pieces of this rank's rows, whose sums are joined: none if there are no elements. */
static lk__pieces pieces_of(const lk_call *c)
{
    const norm_attr *a = c->attr;
    lk_shape shape = c->x[X]->shape;
    int64_t samples = shape.dim[0], held = lk_box_count(&a->tile->x.box), positions = 1;
    int64_t shard = lk_tape_shard_size(c->tape);
    lk__pieces s = {.dtype = c->x[X]->dtype, .channels = shape.dim[shape.ndim - 1]};
    for (int d = 0; d < a->tile->x.box.ndim; d++)
        positions *= a->tile->in[d];
    bool empty = samples == 0 || positions == 0 || s.channels == 0;
    if (is_whole(a) || shard == 0 || shard > samples)
        shard = samples;
    if (!empty) {
        s.n = (samples - 1) / shard + 1;
        s.rows = samples * held;
        s.piece = shard * held;
        s.of = shard * positions;
        s.last_of = (samples - (s.n - 1) * shard) * positions;
    }
    if (a->batch) { /* also of no samples */
        s.n = 1;
        s.last_of = a->batch->samples * positions;
    }
    return s;
}

static norm_sums sums_of(lk_call *c)
{
    norm_sums s = {.c = c, .a = *(const norm_attr *)c->attr};
    const lk_tensor *x = c->x[X];
    int64_t shard = lk_tape_shard_size(c->tape);
    s.of = lk__leaf_sums_of(s.a.tile, x->dtype, x->shape, shard > 0 ? shard : x->shape.dim[0]);
    return s;
}

/* ---- forward ---- */

static lk_status norm_infer(lk_call *c, lk_output_spec *out)
{
    const norm_attr *a = c->attr;
    LK_TRY(lk__tile_check(c->op->name, "x", c->x[X]->shape, &a->tile->x.box));
    LK_TRY(lk__batch_norm_infer(c, out));
    lk__pieces s = pieces_of(c);
    out[1].dtype = out[2].dtype = out[0].dtype;
    out[1].shape = out[2].shape = LK_SHAPE(s.n, s.channels);
    return LK_OK;
}

static lk_status norm_forward(lk_call *c)
{
    norm_sums sums = sums_of(c);
    lk__combiner combiner = {.join = leaves_join, .sum = leaves_sum, .arg = &sums};
    lk__pieces s = pieces_of(c);
    s.combiner = &combiner;
    return LK_TRACE(lk__batch_norm_values(c, &s));
}

/* ---- backward ---- */

static lk_status grad_forward(lk_call *c)
{
    norm_sums sums = sums_of(c);
    lk__combiner combiner = {.join = leaves_join, .sum = leaves_sum, .arg = &sums};
    lk__pieces s = pieces_of(c);
    s.combiner = &combiner;
    LK_TRY(lk__batch_norm_gradients(c, &s));
    bool counted = !sums.a.batch || lk__batch_is_first(sums.a.batch);
    for (int j = 1; j < 3 && !counted; j++)
        memset(lk__tensor_start(c->y[j]), 0, (size_t)c->y[j]->count * lk_dtype_size(s.dtype));
    return LK_OK;
}

static const lk_op grad = {.name = "tile_batch_norm.grad",
                           .summary = "the gradients of x, gamma and beta",
                           LK_ARITY(LK__NORM_GRAD_IN, 3),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(norm_attr),
                           .infer = lk__batch_norm_grad_infer,
                           .forward = grad_forward};

static lk_status norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    norm_attr a = *(const norm_attr *)c->attr;
    lk_var in[LK__NORM_GRAD_IN];
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    LK_CHECK(!a.batch || !lk__comm_is_freed(a.batch->comm), LK_ESTATE,
             "backward of %s(\"%s\"), whose batch has a communicator that was freed: free it after "
             "the tape's reset",
             c->op->name, a.d.name);
    LK_TRY(lk__batch_norm_grad_in(c, dout, in));
    return LK_TRACE(lk_apply(c->tape, &grad, in, LK__NORM_GRAD_IN, &a, din));
}

/* ---- the op ---- */

static const lk_op norm = {.name = "tile_batch_norm",
                           .summary = "x normalised by the statistics of shards cut into tiles",
                           LK_ARITY(3, 3),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(norm_attr),
                           .saves_in = 7,
                           .infer = norm_infer,
                           .forward = norm_forward,
                           .backward = norm_backward};

/* Whether x can be normalised, and the tape may use the communicators. */
static lk_status norm_check(const norm_attr *a, lk_var x)
{
    LK_TRY(lk__dist_valid(norm.name, x));
    LK_TRY(lk__tile_check(norm.name, "x", lk_shape_of(x), &a->tile->x.box));
    if (a->d.comm)
        LK_TRY(lk__dist_uses(x.tape, a->d.comm, norm.name));
    if (!a->batch)
        return LK_OK;
    LK_CHECK(a->batch->comm, LK_EINVAL, "tile_batch_norm: batch has no comm");
    LK_TRY(lk__dist_uses(x.tape, a->batch->comm, norm.name));
    return LK_TRACE(lk__batch_check(a->batch, x));
}

lk_status lk_dist_tile_batch_norm(const lk_tile *tile, const lk_dist_batch *batch, lk_var x,
                                  lk_var gamma, lk_var beta, const lk_batch_norm_attr *attr,
                                  const char *name, lk_var out[3])
{
    norm_attr a;
    lk_var in[] = {x, gamma, beta};
    LK_CHECK(tile && out, LK_EINVAL, "tile_batch_norm: %s is NULL", tile ? "out" : "tile");
    out[0] = out[1] = out[2] = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    if (attr) {
        a.norm.eps = attr->eps;
        a.norm.whole_batch = attr->whole_batch;
        a.norm.act = attr->act;
    }
    lk_comm *comm = tile->tiling->comm, *whole = comm || !batch ? comm : batch->comm;
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    a.batch = batch;
    LK_TRY_DIST(whole, norm_check(&a, x));
    LK_TRY_DIST(whole, lk_apply(x.tape, &norm, in, 3, &a, out));
    LK_TRY_DIST(whole, lk_stop_gradient(out[1], &out[1]));
    LK_TRY_DIST(whole, lk_stop_gradient(out[2], &out[2]));
    return LK_OK;
}
