/* tile_mean: over all positions of each sample, on the rank that owns it.
 *
 *   y[s][c]     = (the sum of x[s][p][c] over all positions p) / positions
 *   dx[s][p][c] = dy[s][c] / positions, from the owner of s; 0 in the margin
 *
 * A sum is a lane sum of each tile, joined by the tree over tiles: tiles of all samples go to the owners
 * by one alltoall.  Backward gathers the owners' dy everywhere.  Both are nodes on sums (tile_total and
 * its adjoint, tile_total_spread), and the division is that of lk_mean().
 */
#include "dist/common/leaf_sums.h"
#include "dist/common/pending.h"
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct total_attr {
    lk__dist d;
    const lk_tile *tile;
    const int64_t *samples; /* [ranks + 1]: of each rank; NULL: one has all */
    int64_t all;            /* samples of the pass */
} total_attr;

static const lk_op tile_total, tile_total_spread;

/* The samples of a rank. */
static lk_range owned(const total_attr *a, int rank)
{
    if (lk__tiling_is_alone(a->tile->tiling))
        return (lk_range){0, a->all};
    return (lk_range){a->samples[rank], a->samples[rank + 1] - a->samples[rank]};
}

/* ---- forward ---- */

static lk_status total_infer(lk_call *c, lk_output_spec *out)
{
    const total_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "tile_mean of %s: only f32 and f64",
             lk_tensor_text(x).s);
    LK_TRY(lk__tile_check("tile_mean", "x", x->shape, &a->tile->x.box));
    out->dtype = x->dtype;
    out->shape = LK_SHAPE(owned(a, a->tile->tiling->rank).n, x->shape.dim[x->shape.ndim - 1]);
    return LK_OK;
}

/* The tiles of a rank along each axis; returns how many they are together. */
static int64_t tiles_of(const lk_tiling *t, int rank, lk_range tiles[LK_TILE_AXES])
{
    int64_t n = 1;
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        int dim = d < t->ndim ? t->grid.dim[d] : 1;
        tiles[d] = lk_range_split(t->tiles[d], rank % dim, dim);
        rank /= dim;
        n *= tiles[d].n;
    }
    return n;
}

/* What goes to each rank and comes from it: a vector of each tile and sample. */
typedef struct moves {
    lk_call *c;
    const total_attr *a;
    int64_t channels, elem;
    int64_t *sends, *gets; /* [ranks], in elements */
} moves;

static lk_status counts_make(moves *m)
{
    const lk_tiling *t = m->a->tile->tiling;
    lk_range tiles[LK_TILE_AXES];
    LK_TRY(lk_call_scratch(m->c, 2 * (int64_t)t->size * (int64_t)sizeof *m->sends, &m->sends));
    m->gets = m->sends + t->size;
    for (int r = 0; r < t->size; r++) {
        m->sends[r] = m->a->tile->leaves * owned(m->a, r).n * m->channels;
        m->gets[r] = tiles_of(t, r, tiles) * owned(m->a, t->rank).n * m->channels;
    }
    return LK_OK;
}

/* sums [leaves][samples][channels], one rank's samples after the other's. */
static void sums_pack(const moves *m, const char *sums, char *to)
{
    int64_t vector = m->channels * m->elem;
    for (int r = 0; r < m->a->tile->tiling->size; r++) {
        lk_range own = owned(m->a, r);
        for (int64_t k = 0; k < m->a->tile->leaves && own.n > 0; k++, to += own.n * vector)
            memcpy(to, sums + (k * m->a->all + own.first) * vector, (size_t)(own.n * vector));
    }
}

/* What came, rank by rank, as [tiles of all, row-major][own samples][channels]. */
static void tiles_place(const moves *m, const char *received, char *to)
{
    const lk_tiling *t = m->a->tile->tiling;
    int64_t each = owned(m->a, t->rank).n * m->channels * m->elem;
    lk_range held[LK_TILE_AXES];
    for (int r = 0; r < t->size && each > 0; r++) {
        int64_t n = tiles_of(t, r, held);
        for (int64_t k = 0; k < n; k++, received += each) {
            int64_t i = held[0].first + k / (held[1].n * held[2].n);
            int64_t j = held[1].first + k / held[2].n % held[1].n;
            int64_t l = held[2].first + k % held[2].n;
            memcpy(to + ((i * t->tiles[1] + j) * t->tiles[2] + l) * each, received, (size_t)each);
        }
    }
}

/* *tiles [tiles of all][own samples][channels] from sums [leaves][samples][channels]. */
static lk_status exchange(moves *m, lk_dtype dtype, const char *sums, void **tiles)
{
    const lk_tiling *t = m->a->tile->tiling;
    int64_t all = t->tiles[0] * t->tiles[1] * t->tiles[2] * owned(m->a, t->rank).n;
    char *out, *in;
    LK_TRY(counts_make(m));
    LK_TRY(lk_call_scratch(m->c, m->a->tile->leaves * m->a->all * m->channels * m->elem, &out));
    LK_TRY(lk_call_scratch(m->c, all * m->channels * m->elem, &in));
    LK_TRY(lk_call_scratch(m->c, all * m->channels * m->elem, tiles));
    sums_pack(m, sums, out);
    if (t->comm)
        LK_TRY(lk_alltoallv(t->comm, out, m->sends, in, m->gets, dtype, m->a->d.name));
    else if (all * m->channels > 0) /* a rehearsal */
        memset(in, 0, (size_t)(all * m->channels * m->elem));
    tiles_place(m, in, *tiles);
    return LK_OK;
}

static lk_status total_forward(lk_call *c)
{
    const total_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    lk__leaf_sums s = lk__leaf_sums_of(a->tile, x->dtype, x->shape, 1);
    moves m = {.c = c, .a = a, .channels = s.channels, .elem = (int64_t)lk_dtype_size(x->dtype)};
    lk_tiling one = *a->tile->tiling; /* a rank that has all tiles */
    void *sums, *room;
    LK_TRY(lk_call_scratch(c, s.leaves * a->all * s.channels * m.elem, &sums));
    LK_TRY(lk__leaf_sum(&s, lk__tensor_start(x), sums));
    if (!lk__tiling_is_alone(&one))
        LK_TRY(exchange(&m, x->dtype, sums, &sums));
    for (int d = 0; d < LK_TILE_AXES; d++) {
        one.held[d] = (lk_range){0, one.tiles[d]};
        one.along[d] = NULL;
    }
    LK_TRY(lk_call_scratch(c, lk__tiles_join_room(&one, c->y[0]->count) * m.elem, &room));
    return LK_TRACE(lk__tiles_join(&one, x->dtype, &(lk__leaf_part){sums, c->y[0]->count}, 1, room,
                                   lk__tensor_start(c->y[0]), a->d.name));
}

static lk_status total_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    total_attr a = *(const total_attr *)c->attr;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, "tile_mean", LK_REDUCE_SUM, &a.d));
    return LK_TRACE(lk_apply(c->tape, &tile_total_spread, dout, 1, &a, din));
}

static const lk_op tile_total = {.name = "tile_total",
                                 .summary = "sums over all positions, on the owners of samples",
                                 LK_ARITY(1, 1),
                                 .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                                 .attr_size = sizeof(total_attr),
                                 .infer = total_infer,
                                 .forward = total_forward,
                                 .backward = total_backward};

/* ---- the adjoint ---- */

static lk_status spread_infer(lk_call *c, lk_output_spec *out)
{
    const total_attr *a = c->attr;
    out->dtype = c->x[0]->dtype;
    out->shape = lk__tile_shape(&a->tile->x.box, a->all, c->x[0]->shape.dim[1]);
    return LK_OK;
}

static lk_status spread_forward(lk_call *c)
{
    const total_attr *a = c->attr;
    const lk_tiling *t = a->tile->tiling;
    lk_dtype dtype = c->y[0]->dtype;
    lk__leaf_sums s = lk__leaf_sums_of(a->tile, dtype, c->y[0]->shape, 1);
    void *v = lk__tensor_start(c->x[0]);
    s.leaf = &a->tile->x.tile; /* all tiles of this rank have the same */
    s.leaves = 1;
    if (!lk__tiling_is_alone(t)) {
        int64_t *counts;
        const void *own = v;
        LK_TRY(lk_call_scratch(c, t->size * (int64_t)sizeof *counts, &counts));
        LK_TRY(lk_call_scratch(c, a->all * s.channels * (int64_t)lk_dtype_size(dtype), &v));
        for (int r = 0; r < t->size; r++)
            counts[r] = owned(a, r).n * s.channels;
        if (t->comm)
            LK_TRY(lk_allgatherv(t->comm, own, v, counts, dtype, a->d.name));
        else if (a->all * s.channels > 0) /* a rehearsal */
            memset(v, 0, (size_t)(a->all * s.channels) * lk_dtype_size(dtype));
    }
    lk__leaf_spread(&s, &a->tile->x.tile, v, lk__tensor_start(c->y[0]));
    return LK_OK;
}

static lk_status spread_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    total_attr a = *(const total_attr *)c->attr;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, "tile_mean", LK_REDUCE_SUM, &a.d));
    return LK_TRACE(lk_apply(c->tape, &tile_total, dout, 1, &a, din));
}

static const lk_op tile_total_spread = {.name = "tile_total_spread",
                                        .summary = "what owners have, repeated at all positions",
                                        LK_ARITY(1, 1),
                                        .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                                        .attr_size = sizeof(total_attr),
                                        .infer = spread_infer,
                                        .forward = spread_forward,
                                        .backward = spread_backward};

/* ---- the call ---- */

/* Whether each sample of x has one owner, and the tape may use the communicator. */
static lk_status mean_check(const total_attr *a, lk_var x)
{
    const lk_tiling *t = a->tile->tiling;
    LK_TRY(lk__dist_valid("tile_mean", x));
    LK_TRY(lk__tile_check("tile_mean", "x", lk_shape_of(x), &a->tile->x.box));
    LK_CHECK(t->size == 1 || t->comm || t->rehearses, LK_ESTATE,
             "tile_mean: a tiling of %d ranks without a communicator has a part of the positions",
             t->size);
    if (lk__tiling_is_alone(t))
        return LK_OK;
    LK_CHECK(a->samples, LK_EINVAL, "tile_mean: samples is NULL, of %d ranks", t->size);
    bool ascends = a->samples[0] == 0 && a->samples[t->size] == lk_shape_of(x).dim[0];
    for (int r = 0; r < t->size; r++)
        ascends = ascends && a->samples[r] <= a->samples[r + 1];
    LK_CHECK(ascends, LK_EINVAL,
             "tile_mean: samples of ranks must ascend from 0 to %lld, the samples of x",
             (long long)lk_shape_of(x).dim[0]);
    if (t->comm)
        LK_TRY(lk__dist_uses(x.tape, t->comm, "tile_mean"));
    return LK_OK;
}

lk_status lk_dist_tile_mean(const lk_tile *tile, lk_var x, const int64_t *samples, const char *name,
                            lk_var *out)
{
    total_attr a;
    int64_t positions = 1;
    LK_CHECK(tile && out, LK_EINVAL, "tile_mean: %s is NULL", tile ? "out" : "tile");
    *out = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    lk_comm *comm = tile->tiling->comm;
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    a.samples = samples;
    LK_TRY_DIST(comm, mean_check(&a, x));
    a.all = lk_shape_of(x).dim[0];
    for (int d = 0; d < tile->x.box.ndim; d++)
        positions *= tile->in[d];
    LK_TRY_DIST(comm, lk_apply(x.tape, &tile_total, &x, 1, &a, out));
    LK_TRY_DIST(comm, lk__mean_over(*out, positions, out));
    return LK_OK;
}
