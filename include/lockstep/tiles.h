/* Tiles: samples whose spatial axes are cut over ranks.
 *
 * A sample is [position...][channels], with 1 to 3 spatial axes.  Its first axes are cut into *tiles*,
 * which belong to the run: they decide bits, whichever rank computes them.  A *tiling* deals the tiles to the
 * ranks of a grid, along each axis a range of them; one rank may have all.  Where an axis of n is cut
 * depends on n alone (lk_tile_range()), so values of equal sizes are cut alike.
 *
 * What a rank has of a value is its **held box**: its tiles, and a margin around them that its layers
 * read, as one dense array [samples][box...][channels].
 *
 *     +-----------+     the box: rows 0-8, columns 0-8
 *     | tile    : |     the tile: rows 0-7, columns 0-7
 *     |         : |     the margin: what neighbours have, right once it was fetched
 *     |.........: |
 *     +-----------+
 *
 * A margin is fetched just before a layer reads it; until then its elements are some finite numbers.  A
 * layer writes its tile, clears the margin, and leaves the rest to the next fetch.  Element-wise ops work
 * on the whole box, and nothing need be known of tiles there.
 *
 * The ops here are nodes of the tape which work on held boxes.  Each output is the same chain of
 * operations as in the whole sample, so the bits of values and their gradients do not depend on the cut;
 * sums over positions (gradients of weights, means) are sums of each tile, joined by the tree over
 * tiles, axis by axis, the last axis innermost (numerics.md).
 *
 * **Gradients here are those of one loss**, which is the ranks' together, in contrast to dist.h: each
 * rank has its box of the gradient of a value that is cut, and what all ranks hold alike, such as a
 * weight, has the same gradient on all of them.  Backward is of the first order.
 *
 * A host makes a tiling of its own communicator (a Cartesian one of MPI: lk_comm_from_mpi()), describes
 * its layers (lk_tile_spec), lets lk_tiling_hold() work out their boxes or gives those of the arrays that
 * it has, and makes a tile of each (lk_tile_new()); layers with the same window and sizes may share
 * one, whatever their channels.  examples/15_heat_tiles.c does all of it.  A trainer does the same from its
 * plan.  Objects live until the tape that used them is reset.  A tile is used on the
 * thread of its communicator, one call at a time.
 */
#ifndef LK_TILES_H
#define LK_TILES_H

#include <lockstep/act.h>
#include <lockstep/dist.h>
#include <lockstep/window.h>

LK_BEGIN_DECLS

enum { LK_TILE_AXES = LK_CONV_MAX_NDIM };

/* ---- who has which tiles ---- */

/** How tiles are dealt to ranks.  A host or a trainer makes it, which is collective, and uses it on the
 * thread of its communicator.  Fields are to be read. */
typedef struct lk_tiling {
    int ndim;                    /* axes that are cut: the first of a sample */
    int64_t tiles[LK_TILE_AXES]; /* along each; 1 from `ndim` on */
    int64_t step;                /* cuts are at multiples of it: 4 where a layer is Winograd's */
    lk_grid grid;                /* of the ranks, with this one's coordinates */
    int rank, size;
    lk_range held[LK_TILE_AXES]; /* of the tiles along each axis, those of this rank */
    lk_comm *comm; /* the ranks in the grid's order, borrowed; NULL: nothing is sent */
    lk_comm *along[LK_TILE_AXES]; /* those that differ along one axis; NULL where there is one */
    bool borrows;                 /* `along` are another's */
    /* Without `comm`, of several ranks: ops run as if there were the others, send nothing, and get zeros; to
     * find what a rank takes. */
    bool rehearses;
} lk_tiling;

/**
 * Make a tiling: tiles [ndim] along each axis, dealt to the ranks of `grid` by lk_range_split().  Where
 * there are as many tiles as ranks, each has one: a host's own partition, with bounds (lk_tile_bounds)
 * where its ranks begin.
 *
 * `comm` has the ranks of the grid in its order and must live longer; NULL: nothing can be sent, as for one
 * rank, or to look at what `grid` would do.  `step` 0 is 1.  The caller owns `*out`.
 *
 * Collective over `comm`: what one rank was given wrong all hear of.  Errors: LK_EINVAL when an axis has
 * fewer tiles than ranks, naming both, or for another number of ranks than the communicator has; LK_ENOMEM;
 * those of communication.
 */
LK_API lk_status lk_tiling_new(lk_comm *comm, const lk_grid *grid, const int64_t *tiles,
                               int64_t step, lk_tiling **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_tiling_free(lk_tiling *tiling);

/** Where the tiles of an axis of n begin, for hosts that cut in their own places: [tiles + 1], the last
 * of them n; NULL: lk_tile_range().
 *
 * Bounds must be equal on all ranks, those of every axis whole: each rank works out from them what the others
 * have.  Calls that take them send nothing and cannot compare them.  Where they differ, a rank waits for
 * other boxes than it is sent: a fetch then fails, or does not end, or values are wrong. */
typedef struct lk_tile_bounds {
    const int64_t *axis[LK_TILE_AXES];
} lk_tile_bounds;

/** The tiles of a rank of the grid, of a value with `ndim` spatial axes of the sizes `n`; `bounds` may be
 * NULL. */
LK_API lk_box lk_tiling_box(const lk_tiling *tiling, int rank, int ndim, const int64_t *n,
                            const lk_tile_bounds *bounds);

/** How many tiles this rank has: leaves of the tree of each sum. */
LK_API int64_t lk_tiling_leaves(const lk_tiling *tiling);

/* ---- what a rank holds ---- */

/** What a rank has of a value, in positions of the whole: its tile and, around it, the box. */
typedef struct lk_held {
    lk_box tile, box;
} lk_held;

/** How a layer goes over positions. */
typedef enum lk_tile_kind {
    LK_TILE_POINTWISE, /* each position for itself */
    LK_TILE_CONV,
    LK_TILE_CONV_TRANSPOSE, /* the window is that of the convolution it is the transpose of */
    LK_TILE_POOL,
    LK_TILE_LCN,                  /* windows around each position; they are gone over twice */
    LK_TILE_LOCAL_CONV,           /* a convolution whose every position of y has its own weights */
    LK_TILE_LOCAL_CONV_TRANSPOSE, /* its transpose: every position of x has; the window is as above */
    LK_TILE_SAMPLE /* all positions together, each with parameters of its own; no margins */
} lk_tile_kind;

/** A layer, for which a tile is made. */
typedef struct lk_tile_spec {
    lk_tile_kind kind;
    lk_window window; /* its ndim is the number of spatial axes, of every kind */
    int64_t in[LK_TILE_AXES], out[LK_TILE_AXES]; /* sizes of the whole */
    lk_tile_bounds in_bounds, out_bounds; /* equal on all ranks, as kind, window and sizes are */
    /* That the arrays are, on this rank: a host's tiles with its ghost cells, or what lk_tiling_hold()
     * says; ndim 0: the least.  A margin ends where the value does; padding is no part of it. */
    lk_box x_box, y_box;
} lk_tile_spec;

/**
 * Fill in the boxes of layers that pass values to each other: those of equal sizes get equal boxes, which
 * hold what any of the layers reads or writes there.  Boxes that are given are widened.
 *
 * Not collective.  Errors: LK_EINVAL for a layer that lk_tile_new() would refuse, by its number; nothing is
 * filled in then.
 */
LK_API lk_status lk_tiling_hold(const lk_tiling *tiling, lk_tile_spec *layers,
                                int64_t n) LK_NODISCARD;

/* ---- fetching margins ---- */

/** Who sends which box to whom: made with a tile, or by a host, by arithmetic, without a message.  To begin
 * and to end it is collective over the ranks that it talks to, on the thread of the communicator. */
typedef struct lk_fetch lk_fetch;

/**
 * Make a fetch: rank r has own[r] of a value and wants want[r] of it; both are [ranks], the same
 * everywhere.  What a rank wants and does not have is sent by the rank that has it, however far away.
 *
 * Not collective.  The caller owns `*out`, which is NULL if this rank neither gets nor gives anything.
 * Errors: LK_ENOMEM.
 */
LK_API lk_status lk_fetch_new(const lk_tiling *tiling, const lk_box *own, const lk_box *want,
                              lk_fetch **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_fetch_free(lk_fetch *fetch);

/**
 * Begin to fill the margins of `array`, which is [samples][box...][channels]: all messages are posted at
 * once, channels last.  lk_fetch_end() waits and puts what came in its place.  Until then no thread writes
 * what this rank owns of it.  Without samples nothing is sent; all ranks have the same number of them.
 *
 * `name` is for reports.  A fetch of NULL does nothing.  Errors: LK_ENOMEM and those of communication.
 */
LK_API lk_status lk_fetch_begin(lk_fetch *fetch, lk_dtype dtype, int64_t samples, int64_t channels,
                                const lk_box *box, void *array, const char *name) LK_NODISCARD;
LK_API lk_status lk_fetch_end(lk_fetch *fetch) LK_NODISCARD;

/** Elements that a fetch gets and gives, of one sample and one channel, and the ranks it talks to. */
typedef struct lk_fetch_size {
    int64_t gets, gives;
    int from, to;
} lk_fetch_size;
LK_API lk_fetch_size lk_fetch_size_of(const lk_fetch *fetch);

/** Message number i that this rank gets: from which rank, and which box; false: there is none. */
LK_API bool lk_fetch_part(const lk_fetch *fetch, int i, int *rank, lk_box *box);

/* ---- a layer on tiles ---- */

/** What a rank does of a layer: what the ops below work on.  A host or a trainer makes one for each, which
 * is not collective, and uses it on the thread of the tiling.  Fields are to be read. */
typedef struct lk_tile {
    const lk_tiling *tiling;
    lk_tile_kind kind;
    lk_window window;
    int64_t in[LK_TILE_AXES], out[LK_TILE_AXES];
    lk_held x, y;
    lk_box x_reads; /* what forward reads of x */
    lk_box
        y_makes; /* what it computes of y: the tile; of a pool and of lcn also what backward reads */
    lk_box dy_reads;                  /* what backward reads of dy */
    lk_fetch *get_x, *get_dy;         /* that fill these; NULL: nothing to get */
    int64_t leaves;                   /* tiles of this rank, row-major */
    const lk_box *x_leaf, *y_leaf;    /* [leaves] of x and of y; may be empty */
    lk_tile_bounds in_bounds;         /* where x is cut: the tile's own copy of what was given */
    struct lk__tile_weights *weights; /* of a local convolution, those of others */
} lk_tile;

/** Make a tile.  The caller owns `*out`, and frees it before the tiling.  Not collective.  Errors:
 * LK_EINVAL for boxes that do not hold what the layer reads, and for bounds that do not ascend; LK_ENOMEM. */
LK_API lk_status lk_tile_new(const lk_tiling *tiling, const lk_tile_spec *spec,
                             lk_tile **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_tile_free(lk_tile *tile);

/* ---- ops on tiles ----
 *
 * All are collective over the tiling's ranks, in forward and in backward.  `name` is for reports.  x and
 * what comes out are the arrays of the tile's boxes, [samples][box...][channels]; all ranks have the
 * same samples.  A margin is filled where it lies: also that of a host's own array, which is otherwise
 * only read (lk_constant_data(), lk_leaf_data()), must be memory that can be written, and what is in it
 * must be finite before.  Errors of all: LK_ESHAPE for a value that is not what the tile holds, and those of
 * dist.h.
 *
 * Parameters, all of which every rank has alike, are given in one of two ways:
 *
 *     plain     [...]          its gradient is the whole one, the same on all ranks: joined over the
 *                              tiles of all ranks when backward passes it
 *     by tile   [leaves][...]  one for each of this rank's tiles, all the same: a view with step 0 along
 *                              the first axis, of which only the first is read.  Its gradient has for
 *                              each tile what that tile says, and nothing is joined; the caller does
 *                              that, as lk_dist_sum_tiles() would, once for many.
 *
 * Which it is follows from the number of axes.  A tile without positions says +0.
 */

/** Join what each tile says: x [leaves][...] of this rank gives [...], the sum over the tiles of all
 * ranks by the tree over tiles, the same on all of them.  dx = dy for each leaf. */
LK_API lk_status lk_dist_sum_tiles(const lk_tiling *tiling, lk_var x, const char *name,
                                   lk_var *out) LK_NODISCARD;

/** x, which all ranks have alike, as each of this rank's tiles sees it: a view [leaves][...].  dx =
 * lk_dist_sum_tiles() of dy. */
LK_API lk_status lk_dist_each_tile(const lk_tiling *tiling, lk_var x, const char *name,
                                   lk_var *out) LK_NODISCARD;

/**
 * Leave the tiles: x, the held box of every sample of the pass, becomes whole samples, of which this
 * rank gets those it owns: [own samples][position...][channels].  Rank r owns samples[r] <= i <
 * samples[r + 1] of the pass; samples [ranks + 1], the same on all, is borrowed until the tape is reset.
 *
 * The value is tile->x (an LK_TILE_POINTWISE tile of that size will do), of any dtype.  One alltoall
 * among the tiling's ranks; one rank that has all tiles gets x itself.  dx = lk_dist_samples_to_tiles()
 * of dy.
 */
LK_API lk_status lk_dist_tiles_to_samples(const lk_tile *tile, lk_var x, const int64_t *samples,
                                          const char *name, lk_var *out) LK_NODISCARD;

/** The way back: x [own samples][position...][channels] becomes [samples of the pass][tile->x.box...]
 * [channels], its margin cleared.  dx = lk_dist_tiles_to_samples() of dy. */
LK_API lk_status lk_dist_samples_to_tiles(const lk_tile *tile, lk_var x, const int64_t *samples,
                                          const char *name, lk_var *out) LK_NODISCARD;

typedef enum lk_pool_kind { LK_POOL_MAX, LK_POOL_AVG, LK_POOL_L2 } lk_pool_kind;

/**
 * lk_max_pool(), lk_avg_pool() or lk_l2_pool() on tiles; with `relu`, which only max has,
 * lk_relu_max_pool().  The tile is of the kind LK_TILE_POOL, and made for the window of `attr`, or
 * `attr` is NULL; what is padded behind the last position follows from its sizes.
 *
 * y is right in tile->y_makes and 0 in the rest of its box, dx in the tile of x and 0 around it.  Errors:
 * also LK_EINVAL for another window, and LK_EDTYPE.
 */
LK_API lk_status lk_dist_tile_pool(const lk_tile *tile, lk_pool_kind kind, lk_var x,
                                   const lk_pool_attr *attr, bool relu, const char *name,
                                   lk_var *out) LK_NODISCARD;

/**
 * lk_conv() on tiles, and `act` of it: none, relu, sigmoid or tanh; attr->act is none.
 *
 * The tile is of kind LK_TILE_CONV, its window and sizes those of `attr`, and its window's grid is 4 where
 * the algorithm is Winograd's; `attr` NULL: what the tile was made for, with one group.  w and b (LK_NO_VAR:
 * none) are plain or by tile, each for itself.  y and dx have the bits of lk_conv() on the whole sample.
 * What a tile says of dw is the tree over shards of one chain each, over its positions of y; of db the sums
 * of lk_sum_to().
 *
 * Errors: also LK_EINVAL where tile and attributes do not go together.
 */
LK_API lk_status lk_dist_tile_conv(const lk_tile *tile, lk_var x, lk_var w, lk_var b,
                                   const lk_conv_attr *attr, lk_act act, const char *name,
                                   lk_var *out) LK_NODISCARD;

/**
 * lk_conv_transpose() on tiles: of kind LK_TILE_CONV_TRANSPOSE, otherwise as lk_dist_tile_conv().
 * attr.extra goes with the tile's sizes.  What a tile says of dw is over its positions of x.
 */
LK_API lk_status lk_dist_tile_conv_transpose(const lk_tile *tile, lk_var x, lk_var w, lk_var b,
                                             const lk_conv_attr *attr, const char *name,
                                             lk_var *out) LK_NODISCARD;

/**
 * lk_lcn() on tiles: local contrast normalisation of images.
 *
 * The tile is of kind LK_TILE_LCN, of two axes and equal sizes, its window `rows` x `columns`, both odd, with
 * a padding of half of them.  A window of windows is read around each position, and around these again in
 * backward: x's margin is two windows' reach twice over, dy's once.  y is right in tile->y_makes and 0
 * in the rest of its box, dx in the tile of x and 0 around it; both have the bits of lk_lcn() on the whole
 * sample.  Errors: also LK_EINVAL for another window.
 */
LK_API lk_status lk_dist_tile_lcn(const lk_tile *tile, lk_var x, int64_t rows, int64_t columns,
                                  const char *name, lk_var *out) LK_NODISCARD;

/**
 * lk_linear_act() at each position of x.  Any tile whose x this is will do.
 *
 * w [in][units] and b (LK_NO_VAR: none) are plain or by tile, each for itself.  The margin of y is right
 * where x's was.  What a tile says of dw is the tree over shards of one chain each, over its positions; of
 * db the sums of lk_sum_to().
 */
LK_API lk_status lk_dist_tile_linear(const lk_tile *tile, lk_var x, lk_var w, lk_var b, lk_act act,
                                     const char *name, lk_var *out) LK_NODISCARD;

/**
 * lk_layer_norm() over the channels of each position of x, or over all of each sample.  Any tile whose x
 * this is will do.
 *
 * Over 1 axis (attr->axes) gamma and beta, [channels], are plain or by tile, each for itself.  The margin
 * of y is right where x's was.  What a tile says of their gradients are the sums of lk_sum_to() over its
 * positions.
 *
 * Over as many axes as a sample has, positions and channels, gamma and beta have the elements of this
 * rank's positions, [tile->x.tile...][channels], which no other rank has; their gradients are theirs alone,
 * and nothing of them is joined.  A sum over a sample is the tree over tiles of lane sums over their
 * elements, row-major: with one tile the bits of lk_layer_norm().  y is 0 in its margin, dx in x's.  Two
 * sums in forward and two at once in backward, of all samples.
 *
 * Errors: also LK_EINVAL for another number of axes.
 */
LK_API lk_status lk_dist_tile_layer_norm(const lk_tile *tile, lk_var x, lk_var gamma, lk_var beta,
                                         const lk_layer_norm_attr *attr, const char *name,
                                         lk_var *out) LK_NODISCARD;

/**
 * lk_local_conv() on tiles; the tile is of kind LK_TILE_LOCAL_CONV, its window and sizes those of the
 * convolution.
 *
 * w has the weights of this rank's positions of y, [tile->y.tile...][kernel...][in channels][out
 * channels], which no other rank has; its gradient is theirs alone, and nothing of it is joined.  y, dx
 * and dw have the bits of lk_local_conv() on the whole sample.  dx needs the weights of windows that cross
 * a border of tiles: the first backward after lk_tile_weights_changed() fetches them, and the tile keeps
 * them, with a copy of the own ones, for those that follow.
 */
LK_API lk_status lk_dist_tile_local_conv(const lk_tile *tile, lk_var x, lk_var w, const char *name,
                                         lk_var *out) LK_NODISCARD;

/**
 * lk_local_conv_transpose() on tiles, local defiltering; the tile is of kind LK_TILE_LOCAL_CONV_TRANSPOSE,
 * its window that of the local convolution, and its sizes are turned: x is what that makes, y what it reads.
 *
 * w has the weights of this rank's positions of x, [tile->x.tile...][kernel...][out channels][in channels]:
 * those of a local convolution of the other direction on the same tiles, with which it can share them.  y
 * needs the weights of windows that cross a border of tiles: the first call after
 * lk_tile_weights_changed(), forward, fetches them.  Otherwise as lk_dist_tile_local_conv().
 */
LK_API lk_status lk_dist_tile_local_conv_transpose(const lk_tile *tile, lk_var x, lk_var w,
                                                   const char *name, lk_var *out) LK_NODISCARD;

/** The weights of a local convolution have changed; to be called on all ranks between two passes, as by a
 * trainer once a step.  Nothing for tiles of other kinds. */
LK_API void lk_tile_weights_changed(const lk_tile *tile);

/**
 * lk_batch_norm() on tiles: mean and variance of each shard (lk_tape_shard_size() samples) over all its
 * positions, or with `batch` over the whole batch that ranks along data share, as lk_dist_batch_norm().
 *
 * `gamma` and `beta` are plain, [channels].  Their gradients are made of sums joined over tiles: complete
 * as far as this rank's samples go, and the same on all ranks of the tiling; with `batch`, on those that
 * have its first shard, and 0 elsewhere.  out[0] is as x; its margin is right where x's was.  out[1]
 * and out[2] are mean and variance, [shards][channels], or [1][channels] over the batch, without a
 * gradient.  `batch` and `attr` may be NULL; `batch` must live until the tape is reset.
 */
LK_API lk_status lk_dist_tile_batch_norm(const lk_tile *tile, const lk_dist_batch *batch, lk_var x,
                                         lk_var gamma, lk_var beta, const lk_batch_norm_attr *attr,
                                         const char *name, lk_var out[3]) LK_NODISCARD;

/** Sums over the positions of each tile: x [samples][box...][channels] gives [leaves][samples][channels],
 * for each tile of this rank and each sample the lane sum over its positions.  Nothing is sent; with
 * lk_dist_sum_tiles() behind it these are sums over all positions.  dx = dy of the tile at each of its
 * positions, 0 in the margin. */
LK_API lk_status lk_dist_tile_sums(const lk_tile *tile, lk_var x, const char *name,
                                   lk_var *out) LK_NODISCARD;

/**
 * lk_mean() over all positions of each sample, on the rank that owns it: [own samples][channels].
 *
 * Rank r owns samples[r] <= i < samples[r + 1] of the pass; samples [ranks + 1], the same on all, must
 * live until the tape is reset.  Where the tiling's comm is NULL it may be, and all samples are owned.  A
 * sum is the tree over tiles of lane sums: with one tile the bits of lk_mean().  dx = dy / positions,
 * 0 in the margin.  Errors: also LK_EINVAL when samples do not ascend from 0 to those of x.
 */
LK_API lk_status lk_dist_tile_mean(const lk_tile *tile, lk_var x, const int64_t *samples,
                                   const char *name, lk_var *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_TILES_H */
