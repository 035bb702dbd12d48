/* tile_feature_conv, tile_feature_linear: layers whose positions are cut over ranks, and their filters or
 * units over others.
 *
 *   y, dw, db   of what this rank has, as conv.c and linear.c make them
 *   dx          = the tree over this rank's blocks of filters, which is partial along features
 *
 * Margins travel among the ranks that have the same filters, and nothing along features, so that no
 * communicator of the split is asked for.  The two files have the nodes; these calls check what is cut and
 * say how large blocks are.  Made by a host or a trainer, on the thread of the tape.
 */
#include "dist/common/features.h"

#include "dist/common/tile_conv.h"

/* What both begin with. */
static lk_status begin(const char *call, const lk_tile *tile, const lk_feature_split *split,
                       const void *attr, lk_var *out)
{
    LK_CHECK(out, LK_EINVAL, "%s: out is NULL", call);
    *out = LK_NO_VAR;
    LK_CHECK(tile && split && attr, LK_EINVAL, "%s: %s is NULL", call,
             !tile    ? "tile"
             : !split ? "split"
                      : "attr");
    return LK_OK;
}

static lk_status partial_check(const char *call, lk_feature_sum sum)
{
    LK_CHECK(
        sum == LK_FEATURE_PARTIAL, LK_EINVAL,
        "%s: the sum is number %d, where it must be partial: a copy or a gather_sum before the "
        "layer joins dx",
        call, (int)sum);
    return LK_OK;
}

/* The last axes of x and w. */
static lk_status features_check(const char *call, lk_var x, int64_t in, lk_var w, int64_t held)
{
    LK_TRY(lk__dist_valid(call, x));
    LK_TRY(lk__dist_valid(call, w));
    lk_shape xs = lk_shape_of(x), ws = lk_shape_of(w);
    LK_CHECK(xs.ndim > 0 && xs.dim[xs.ndim - 1] == in, LK_ESHAPE,
             "%s: x is %s, where this rank has %lld features along the last axis", call,
             lk_shape_text(xs).s, (long long)in);
    LK_CHECK(ws.ndim > 0 && ws.dim[ws.ndim - 1] == held, LK_ESHAPE,
             "%s: w is %s, where this rank has %lld features along the last axis", call,
             lk_shape_text(ws).s, (long long)held);
    return LK_OK;
}

/* Blocks of an axis of n that is cut; 0: it is not. */
static int64_t block_of(const lk_feature_split *split, int64_t n)
{
    return lk_feature_is_cut(split, n) ? lk__feature_block(split, n) : 0;
}

lk_status lk_dist_tile_feature_conv(const lk_tile *tile, const lk_feature_split *split,
                                    const lk_feature_conv_attr *attr, lk_var x, lk_var w, lk_var b,
                                    const char *name, lk_var *out)
{
    const char *call = "tile_feature_conv";
    lk_conv_attr conv;
    LK_TRY(begin(call, tile, split, attr, out));
    LK_CHECK(tile->kind == LK_TILE_CONV, LK_EINVAL, "%s: the tile is not of a convolution", call);
    bool grouped = attr->conv.groups > 1;
    if (!grouped)
        LK_TRY(partial_check(call, attr->sum));
    LK_TRY(lk__feature_conv_check(call, split, attr));
    lk_comm *comm = tile->tiling->comm;
    LK_TRY_DIST(comm,
                features_check(call, x,
                               grouped ? lk__feature_held(split, attr->channels) : attr->channels,
                               w, lk__feature_held(split, attr->filters)));
    conv = attr->conv;
    if (grouped)
        LK_TRY_DIST(comm, lk__feature_conv_local(split, attr, &conv, &w));
    return LK_TRACE(lk__tile_conv_filters(tile, (lk__tile_conv_in){x, w, b}, &conv,
                                          grouped ? 0 : block_of(split, attr->filters), name, out));
}

lk_status lk_dist_tile_feature_linear(const lk_tile *tile, const lk_feature_split *split,
                                      const lk_feature_linear_attr *attr, lk_var x, lk_var w,
                                      lk_var b, const char *name, lk_var *out)
{
    const char *call = "tile_feature_linear";
    LK_TRY(begin(call, tile, split, attr, out));
    LK_CHECK(attr->cut != LK_FEATURE_IN, LK_ENOTSUP,
             "%s: inputs that are cut, at positions that are cut as well: leave out `cut: in`, or "
             "tiles",
             call);
    LK_CHECK(attr->cut == LK_FEATURE_OUT, LK_EINVAL,
             "%s: the cut is number %d; there are out and in", call, (int)attr->cut);
    LK_TRY(partial_check(call, attr->sum));
    LK_CHECK(attr->in >= 0 && attr->units >= 0, LK_EINVAL, "%s: %lld inputs and %lld units", call,
             (long long)attr->in, (long long)attr->units);
    LK_TRY_DIST(tile->tiling->comm,
                features_check(call, x, attr->in, w, lk__feature_held(split, attr->units)));
    return LK_TRACE(lk__tile_linear_units(tile, (lk_var[]){x, w, b}, attr->act,
                                          block_of(split, attr->units), name, out));
}
