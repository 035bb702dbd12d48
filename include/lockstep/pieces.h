/* Ranges, boxes and the tree of a sum: parts of an axis, of a tensor, and of what is added.
 *
 * A *range* is some of the numbers of an axis, a *box* a range of each axis of a tensor.  Both are
 * values: copy them freely.
 *
 * What is added is cut into *pieces*, numbered from 0, which are joined by one tree, whichever rank holds
 * them (extra/reduce.h draws it): the lower part of n pieces is the largest power of two below n,
 * lk_tree_half(). A *subtree* is a range of pieces that the tree joins on its own; a rank that holds all of
 * it can give its sum instead of the pieces, and no bit changes.
 *
 * A rank that holds a part of a tensor holds a box of it, as a dense array
 * in row-major order; where an element lies in the tensor is arithmetic, which is here once:
 *
 *     lk_box box = {2, {1, 2}, {2, 3}};                rows 1-2, columns 2-4
 *     lk_box_walk walk = lk_box_start(&box, dim);      of a tensor [4][8]
 *     while (lk_box_next(&walk))
 *         ... walk.n elements, from array[walk.at] on, are those of the tensor from walk.place on ...
 *
 * Nothing here is collective or fails.
 */
#ifndef LK_PIECES_H
#define LK_PIECES_H

#include <lockstep/api.h>

#include <stdbool.h>
#include <stdint.h>

LK_BEGIN_DECLS

/** Axes of a tensor at most. */
enum { LK_MAX_NDIM = 8 };

/** The numbers [first, first + n). */
typedef struct lk_range {
    int64_t first, n;
} lk_range;

/** What part `i` of `parts` has when they share `total` evenly: from i * total / parts on.  There are at
 * most 2^31 parts. */
LK_API lk_range lk_range_split(int64_t total, int64_t i, int64_t parts);

/** The pieces in the lower part of a tree over n > 1 pieces. */
static inline int64_t lk_tree_half(int64_t n)
{
    return (int64_t)1 << (63 - __builtin_clzll((unsigned long long)(n - 1)));
}

enum { LK_MAX_SUBTREES = 128 };

/** The largest subtrees of the tree over `total` pieces that lie in a range, in order; returns how many,
 * at most LK_MAX_SUBTREES.  `out` may be NULL. */
LK_API int lk_range_subtrees(int64_t total, lk_range range, lk_range *out);

/**
 * Share `total` pieces among `parts` so that each has one subtree, or nothing: first [parts + 1] says
 * where each begins.  The largest is as small as it can be, at most twice an even share.
 */
LK_API void lk_subtree_partition(int64_t total, int parts, int64_t *first);

/* ---- what a run's numbers are cut into ---- */

/**
 * The finest cut of the work that a run allows: of each batch into shards, of each sample into tiles,
 * of wide layers into blocks of features.  It decides bits, whichever rank computes which piece; ranks get
 * tiles by lk_range_split(), blocks by lk_subtree_partition().
 */
typedef struct lk_pieces {
    int64_t shards;
    int64_t tile[3];     /* along each spatial axis; 1: whole */
    int64_t blocks;      /* of the features of a layer */
    int64_t least_tile;  /* positions of a tile: layers with smaller ones are not cut into tiles */
    int64_t least_block; /* features of a block */
} lk_pieces;

/** The least number of shards to cut a batch of `samples` into, so that at least `parts` of them are not
 * empty: shards have samples / shards samples, rounded up.  There are as many samples as parts, or more,
 * and a part. */
LK_API int64_t lk_shards_for(int64_t samples, int64_t parts);

/**
 * Tile `t` of `tiles` along an axis of n: from min(n, grid * ceil(t * n / (tiles * grid))) on.
 *
 * `grid` is 4 in models with a Winograd layer, whose cuts are at multiples of 4, and 1 in others.  The
 * cut depends on n alone, never on layers before, so values of equal sizes have equal tiles.  Short
 * axes have empty tiles.
 */
LK_API lk_range lk_tile_range(int64_t n, int64_t t, int64_t tiles, int64_t grid);

/**
 * The features of a block, when an axis of n is cut into at most `blocks` of at least `least`: n / blocks
 * rounded up, to a multiple of 16 (of `least`, if that is less).  Block b begins at b * size; the last
 * may be short, and those behind it are empty.  From n on there is one block: the axis is not cut.
 */
LK_API int64_t lk_block_size(int64_t n, int64_t blocks, int64_t least);

/** What `blocks` of the size `size` have of an axis of n. */
LK_API lk_range lk_block_range(int64_t n, int64_t size, lk_range blocks);

/* ---- boxes ---- */

/** A range of each axis; entries beyond `ndim` are ignored.  A box without axes has one element. */
typedef struct lk_box {
    int ndim;
    int64_t first[LK_MAX_NDIM], n[LK_MAX_NDIM];
} lk_box;

/** All of a tensor of the sizes dim [ndim]. */
LK_API lk_box lk_box_whole(int ndim, const int64_t *dim);

/** Elements of a box. */
LK_API int64_t lk_box_count(const lk_box *box);

/** Whether the ranges of all axes are equal. */
LK_API bool lk_box_is_equal(const lk_box *a, const lk_box *b);

/** Whether a box lies in a tensor of the sizes dim [box->ndim]: no range is negative or reaches out. */
LK_API bool lk_box_is_within(const lk_box *box, const int64_t *dim);

/** What lies in both boxes, of as many axes; if nothing does, the ranges of some axes have n 0. */
LK_API lk_box lk_box_intersect(const lk_box *a, const lk_box *b);

/** A walk over the elements of a box, as long stretches that lie side by side in box and tensor. */
typedef struct lk_box_walk {
    int64_t n;     /* elements of this stretch */
    int64_t at;    /* where it begins in the dense array of the box */
    int64_t place; /* where it begins in the tensor, row-major */
    /* How it goes on: axes before the stretch, their sizes and steps, and where we are. */
    int outer;
    int64_t size[LK_MAX_NDIM], step[LK_MAX_NDIM], index[LK_MAX_NDIM];
    int64_t left;
} lk_box_walk;

/** Begin a walk over a box within a tensor of the sizes dim [box->ndim], before the first stretch. */
LK_API lk_box_walk lk_box_start(const lk_box *box, const int64_t *dim);

/** Go to the next stretch, in row-major order; false: there is none. */
LK_API bool lk_box_next(lk_box_walk *walk);

LK_END_DECLS

#endif /* LK_PIECES_H */
