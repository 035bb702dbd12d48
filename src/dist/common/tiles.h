/* What the ops on tiles share: boxes, what a layer reads of them, and their parts of arrays. */
#ifndef LK_DIST_COMMON_TILES_H
#define LK_DIST_COMMON_TILES_H

#include "dist/common/dist.h"

#include <lockstep/tiles.h>

/** lk_tiling_new() with communicators that are there: `along` [grid axes], borrowed; not collective. */
lk_status lk__tiling_new(lk_comm *comm, lk_comm *const *along, const lk_grid *grid,
                         const int64_t *tiles, int64_t step, lk_tiling **out) LK_NODISCARD;

/** Whether a rank has all tiles, so that nothing is sent. */
static inline bool lk__tiling_is_alone(const lk_tiling *t)
{
    return !t->comm && !t->rehearses;
}

bool lk__box_is_empty(const lk_box *box);

/** The smallest box that has both; an empty one counts for nothing. */
lk_box lk__box_hull(const lk_box *a, const lk_box *b);

/** Whether `part` lies in `box`; nothing lies everywhere. */
bool lk__box_has(const lk_box *box, const lk_box *part);

/** Tile number `leaf` of those that this rank has, row-major, of a value of these sizes. */
lk_box lk__tiling_leaf(const lk_tiling *tiling, int64_t leaf, int ndim, const int64_t *n,
                       const lk_tile_bounds *bounds);

/** Whether a layer can be one on tiles of these: kind, window, sizes, bounds.  Errors: LK_EINVAL. */
lk_status lk__tile_spec_check(const lk_tiling *tiling, const lk_tile_spec *spec) LK_NODISCARD;

/* What a rank has of a layer's values, and what it reads and writes of them. */
typedef struct lk__tile_reach {
    lk_box x_tile, y_tile, x_reads, y_makes, dy_reads;
} lk__tile_reach;
lk__tile_reach lk__tile_reach_of(const lk_tiling *tiling, int rank, const lk_tile_spec *spec);

/** The fetch that fills what each rank reads of x, or with `forward` false of dy. */
lk_status lk__tile_fetch_make(const lk_tiling *tiling, const lk_tile_spec *spec, bool forward,
                              lk_fetch **out) LK_NODISCARD;

/* A box within an array [samples][box...][channels]: where it begins, and its steps in elements, as
 * the kernels take them. */
typedef struct lk__tile_part {
    int64_t n[LK_TILE_AXES], step[LK_TILE_AXES]; /* n 1 of axes that there are not */
    int64_t sample, offset;
} lk__tile_part;
lk__tile_part lk__tile_part_of(const lk_box *array, const lk_box *part, int64_t channels);

/** Copy a box of an array [samples][array...][channels] to dense memory, or from there. */
void lk__tile_pack(const void *array, const lk_box *box, const lk_box *part, int64_t samples,
                   int64_t bytes, void *dense);
void lk__tile_unpack(void *array, const lk_box *box, const lk_box *part, int64_t samples,
                     int64_t bytes, const void *dense);

/** Clear all of an array but one box. */
void lk__tile_clear_around(void *array, const lk_box *box, const lk_box *keep, int64_t samples,
                           int64_t bytes);

/* The weights of a local convolution that its transpose reads, in positions of the hull of the own ones and
 * those. */
typedef struct lk__tile_weights {
    lk_fetch *get; /* of those of others; NULL: nothing to get */
    void *array;
    int64_t bytes;
    bool fresh; /* they are those of the step */
} lk__tile_weights;

/** NULL is allowed. */
void lk__tile_weights_free(lk__tile_weights *weights);

/* What each of this rank's tiles says: [leaves][n] elements. */
typedef struct lk__leaf_part {
    void *leaves;
    int64_t n;
} lk__leaf_part;

/** Join leaves over the tiles of all ranks: `out` gets the sums of all parts, one behind the other, on every
 * rank; the leaves are used up.  `room` has lk__tiles_join_room() elements for the elements of all
 * parts.  Collective over the tiling. */
lk_status lk__tiles_join(const lk_tiling *tiling, lk_dtype dtype, const lk__leaf_part *part,
                         int64_t n_parts, void *room, void *out, const char *name) LK_NODISCARD;
int64_t lk__tiles_join_room(const lk_tiling *tiling, int64_t n);

/** A parameter, plain with `ndim` axes or by tile with one more, as [leaves][...] of which the first is
 * without gaps.  A plain one gets a node by which its gradient is joined: collective in backward. */
lk_status lk__tile_param(const lk_tiling *tiling, lk_var w, int ndim, const char *name,
                         lk_var *out) LK_NODISCARD;

/* The tiles of this rank in an array that is `box`. */
typedef struct lk__tile_leaves {
    const lk_box *box, *leaf; /* leaf [n] */
    int64_t n;
} lk__tile_leaves;

/** Samples and positions of the largest leaf. */
int64_t lk__tile_leaves_most(lk__tile_leaves of, int64_t samples);

/** In backward: the gradient of input `i`, a bias [leaves][channels], from dy, an array [samples][box...]
 * [channels]: what lk_sum_to() would say of each leaf.  Adds to the leaf's gradient in place where it may. */
lk_status lk__tile_bias(lk_call *c, int i, lk__tile_leaves of, lk_var dy, lk_var *out) LK_NODISCARD;

/** lk_dist_tile_layer_norm() of x, gamma and beta over all of a sample. */
lk_status lk__tile_sample_norm(const lk_tile *tile, const lk_var in[3], double eps,
                               const char *name, lk_var *out) LK_NODISCARD;

/** lk_dist_tile_linear() of x, w and b, which are some units of a layer, under the name tile_feature_linear:
 * dx is the tree over blocks of `block` of them. */
lk_status lk__tile_linear_units(const lk_tile *tile, const lk_var in[3], lk_act act, int64_t block,
                                const char *name, lk_var *out) LK_NODISCARD;

/** A value that an op takes must be [samples][box...][channels].  Errors: LK_ESHAPE naming both. */
lk_status lk__tile_check(const char *call, const char *what, lk_shape shape,
                         const lk_box *box) LK_NODISCARD;

/** Fill the margin of a tensor by a fetch, which may be NULL. */
lk_status lk__tile_fetch(lk_fetch *fetch, const lk_tensor *x, const lk_box *box,
                         const char *name) LK_NODISCARD;

#endif /* LK_DIST_COMMON_TILES_H */
