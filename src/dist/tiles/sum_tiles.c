/* Sums over tiles: what each tile says, joined axis by axis, the last axis first:
 *
 *     tree over planes( tree over rows( tree over columns( leaf )))
 *
 * Along an axis a rank adds the largest subtrees of its own range, and one collective among the ranks
 * along that axis joins these.  So any number of ranks up to the tiles gives the bits of one rank that
 * has all.  sum_tiles and each_tile are each other's adjoints, because gradients are of one loss.
 */
#include "dist/common/pending.h"
#include "dist/common/tiles.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

#include <string.h>

/* ---- the join ---- */

int64_t lk__tiles_join_room(const lk_tiling *t, int64_t n)
{
    return 2 * lk_tiling_leaves(t) * n;
}

/* v [n vectors of `count`, `step` apart] becomes their sum, in the first. */
static lk_status tree_add(lk_dtype dtype, char *v, int64_t n, int64_t count, int64_t step)
{
    if (n <= 1)
        return LK_OK;
    int64_t half = lk_tree_half(n);
    char *upper = v + half * step;
    LK_TRY(tree_add(dtype, v, half, count, step));
    LK_TRY(tree_add(dtype, upper, n - half, count, step));
    return LK_TRACE(lk_map2(dtype, LK_MAP2_ADD, 0, count, v, upper, v));
}

/* One axis: parts [groups][held][part's elements] become to [groups][all elements]. */
typedef struct level {
    const lk_tiling *tiling;
    int axis;
    lk_dtype dtype;
    const lk__leaf_part *part;
    int64_t n_parts, groups, count; /* of elements of all parts */
    char *room, *to;                /* room [subtrees][groups][count] */
    const char *name;
} level;

static lk_status level_add(const level *l, const lk_range *subtree, int n)
{
    lk_range held = l->tiling->held[l->axis];
    int64_t elem = (int64_t)lk_dtype_size(l->dtype), offset = 0;
    for (int64_t p = 0; p < l->n_parts; p++) {
        int64_t bytes = l->part[p].n * elem;
        for (int64_t g = 0; g < l->groups && bytes > 0; g++)
            for (int k = 0; k < n; k++) {
                int64_t first = g * held.n + subtree[k].first - held.first;
                char *v = (char *)l->part[p].leaves + first * bytes;
                char *to = n == 1 ? l->to : l->room + k * l->groups * l->count * elem;
                LK_TRY(tree_add(l->dtype, v, subtree[k].n, l->part[p].n, bytes));
                memmove(to + (g * l->count + offset) * elem, v, (size_t)bytes);
            }
        offset += l->part[p].n;
    }
    return LK_OK;
}

static lk_status level_join(const level *l)
{
    const lk_tiling *t = l->tiling;
    lk_range subtree[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(t->tiles[l->axis], t->held[l->axis], subtree);
    LK_TRY(level_add(l, subtree, n));
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .name = l->name,
                          .in = n == 1 ? NULL : l->room,
                          .out = l->to,
                          .count = l->groups * l->count,
                          .dtype = l->dtype,
                          .op = LK_REDUCE_SUM,
                          .pieces = t->tiles[l->axis]};
    if (t->along[l->axis])
        LK_TRY(lk_coll_run(t->along[l->axis], &call));
    else if (n > 1) /* a rehearsal, without the ranks that have the rest of the tree */
        memcpy(l->to, l->room, (size_t)(call.count * (int64_t)lk_dtype_size(l->dtype)));
    return LK_OK;
}

lk_status lk__tiles_join(const lk_tiling *t, lk_dtype dtype, const lk__leaf_part *part,
                         int64_t n_parts, void *room, void *out, const char *name)
{
    int64_t count = 0, groups = lk_tiling_leaves(t), elem = (int64_t)lk_dtype_size(dtype);
    LK_CHECK(t->size == 1 || t->comm || t->rehearses, LK_ESTATE,
             "%s: a tiling of %d ranks without a communicator has a part of the tiles, and their "
             "sum would be wrong: give lk_tiling_new() the ranks' communicator",
             name && *name ? name : "sum over tiles", t->size);
    for (int64_t p = 0; p < n_parts; p++)
        count += part[p].n;
    char *other = (char *)room + groups * count * elem;
    lk__leaf_part all = {.n = count};
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        bool first = d == LK_TILE_AXES - 1;
        groups /= t->held[d].n;
        level l = {.tiling = t,
                   .axis = d,
                   .dtype = dtype,
                   .part = first ? part : &all,
                   .n_parts = first ? n_parts : 1,
                   .groups = groups,
                   .count = count,
                   .room = room,
                   .to = d == 0 ? out : other,
                   .name = name};
        LK_TRY(level_join(&l));
        all.leaves = l.to;
    }
    return LK_OK;
}

/* ---- as ops ---- */

typedef struct sum_attr {
    lk__dist d;
    const lk_tiling *tiling;
} sum_attr;

static lk_status sum_infer(lk_call *c, lk_output_spec *out)
{
    const sum_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t leaves = lk_tiling_leaves(a->tiling);
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "sum_tiles of %s: only f32 and f64",
             lk_tensor_text(x).s);
    LK_CHECK(x->shape.ndim >= 1 && x->shape.dim[0] == leaves, LK_ESHAPE,
             "sum_tiles of %s, where this rank has %lld tiles", lk_tensor_text(x).s,
             (long long)leaves);
    out->dtype = x->dtype;
    out->shape.ndim = x->shape.ndim - 1;
    memcpy(out->shape.dim, &x->shape.dim[1], (size_t)out->shape.ndim * sizeof out->shape.dim[0]);
    return LK_OK;
}

static lk_status sum_forward(lk_call *c)
{
    const sum_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    int64_t n = c->y[0]->count, elem = (int64_t)lk_dtype_size(x->dtype);
    void *leaves, *room;
    LK_TRY(lk_call_scratch(c, x->count * elem, &leaves));
    LK_TRY(lk_call_scratch(c, lk__tiles_join_room(a->tiling, n) * elem, &room));
    memcpy(leaves, lk__tensor_start(x), (size_t)(x->count * elem));
    return LK_TRACE(lk__tiles_join(a->tiling, x->dtype, &(lk__leaf_part){leaves, n}, 1, room,
                                   lk__tensor_start(c->y[0]), a->d.name));
}

static lk_status sum_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const sum_attr *a = c->attr;
    return LK_TRACE(lk_dist_each_tile(a->tiling, dout[0], a->d.name, &din[0]));
}

static const lk_op sum_tiles = {.name = "sum_tiles",
                                .summary = "what each tile says, joined by the tree over tiles",
                                LK_ARITY(1, 1),
                                .flags = LK_OP_COLLECTIVE,
                                .attr_size = sizeof(sum_attr),
                                .infer = sum_infer,
                                .forward = sum_forward,
                                .backward = sum_backward};

static lk_status each_infer(lk_call *c, lk_output_spec *out)
{
    const sum_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_CHECK(x->shape.ndim < LK_MAX_NDIM, LK_ESHAPE, "each_tile of %s: no room for one more axis",
             lk_tensor_text(x).s);
    *out = (lk_output_spec){.dtype = x->dtype, .is_view = true};
    out->shape = (lk_shape){.ndim = x->shape.ndim + 1, .dim = {lk_tiling_leaves(a->tiling)}};
    for (int i = 0; i < x->shape.ndim; i++) {
        out->shape.dim[i + 1] = x->shape.dim[i];
        out->stride[i + 1] = x->stride[i];
    }
    return LK_OK;
}

static lk_status each_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const sum_attr *a = c->attr;
    return LK_TRACE(lk_dist_sum_tiles(a->tiling, dout[0], a->d.name, &din[0]));
}

static const lk_op each_tile = {.name = "each_tile",
                                .summary = "a value that all ranks have, as each tile sees it",
                                LK_ARITY(1, 1),
                                .flags = LK_OP_COLLECTIVE | LK_OP_STRIDED,
                                .attr_size = sizeof(sum_attr),
                                .infer = each_infer,
                                .backward = each_backward};

static lk_status apply(const lk_tiling *t, const lk_op *op, lk_var x, const char *name, lk_var *out)
{
    sum_attr a;
    LK_CHECK(t && out, LK_EINVAL, "%s: %s is NULL", op->name, t ? "out" : "tiling");
    *out = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(t->comm, LK_REDUCE_SUM, 0, name);
    a.tiling = t;
    LK_TRY_DIST(t->comm, lk__dist_valid(op->name, x));
    if (t->comm)
        LK_TRY_DIST(t->comm, lk__dist_uses(x.tape, t->comm, op->name));
    LK_TRY_DIST(t->comm, lk_apply(x.tape, op, &x, 1, &a, out));
    return LK_OK;
}

lk_status lk_dist_sum_tiles(const lk_tiling *tiling, lk_var x, const char *name, lk_var *out)
{
    return LK_TRACE(apply(tiling, &sum_tiles, x, name, out));
}

lk_status lk_dist_each_tile(const lk_tiling *tiling, lk_var x, const char *name, lk_var *out)
{
    return LK_TRACE(apply(tiling, &each_tile, x, name, out));
}
