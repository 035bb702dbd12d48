/* How the weight gradient of a shape is cut: dw into tiles, channels into slices, positions into
 * chunks and strips.
 *
 * dw is the matrix [tap][input channel] x [output channel], and each element a sum over output
 * positions.  The columns micro-kernel computes one tap of a tile: a few neighbouring channels of
 * one side (the *rows*, broadcast) by one or two vectors of the other (the *columns*).  Usually x
 * is the rows side; `swapped` exchanges the two where that costs less, and finished tiles are then
 * transposed into dw.
 *
 *   slices  the channels of a side, cut into tile heights or widths; never across groups.
 *   panels  a side copied slice by slice, so that a tile reads dense memory.  The columns side is if it
 *           is read often enough and does not lie so already, the rows side nearly always.  Input columns
 *           that differ by the stride are neighbours in a panel.
 *   runs    with few input channels x is read in place, and a slice is cut from the run (kernel
 *           column, input channel), consecutive in memory.  Kernel columns then are no taps, and
 *           the elements of one tile may differ in their valid output columns: see lk__phase.
 *   own     with one input channel in each group (depthwise), tiles are kernel columns by output
 *           channels: rows are slices of a kernel row, columns are slices of channels, both sides
 *           are read in place, and there is but one group.  If a group has several output
 *           channels, x is first copied so that each finds its own input (`spread`).
 *   chunk   the samples, or planes of one sample, or rows of one plane, or columns of one (very
 *           long) row, that are packed at a time.
 *   strip   the samples, or rows of a plane, of a chunk that stay in the nearest cache while all
 *           taps pass over them.
 *   stretch some whole pieces that one thread computes alone, as if they were the batch: a node of
 *           the tree, and further nodes join the stretches.  If they would be too few or too
 *           short, or their sums too large, one stretch is the batch, and a *crew* of all threads
 *           shares its tiles.
 *   slots   of each tile: the chain of its piece so far, if it takes more than one call, and for
 *           each level of the tree the node that waits for its right sibling.
 */
#ifndef LK_KERNEL_CONV_WEIGHTS_PLAN_H
#define LK_KERNEL_CONV_WEIGHTS_PLAN_H

#include "kernel/conv/shape.h"
#include "kernel/micro.h"
#include "kernel/panels.h"

/* Axes along which positions are cut, outermost first. */
enum { LK_CUT_SAMPLE, LK_CUT_PLANE, LK_CUT_ROW, LK_CUT_COLUMN, LK_CUTS };

typedef struct lk__range {
    int64_t lo, hi;
} lk__range;

/* One operand, x or dy. */
typedef struct lk__weights_side {
    bool packed;
    lk__panel *slice; /* of all groups, one group after another */
    int64_t per_group;
    int64_t width; /* of all slices together */
    int64_t room;  /* elements of its copy; 0 if it is read in place */
} lk__weights_side;

/* The output columns that take part: for one kernel column, or for one slice of a run or kernel
 * row.  Phases count from the first of them. */
typedef struct lk__weights_columns {
    int64_t out, in; /* the first output column, and where its input column is in a row of x */
    lk__phase *phase;
    int64_t n_phase;
} lk__weights_columns;

/* What the cuts aim at; no bit of dw depends on it. */
typedef enum lk__weights_choice {
    LK_WEIGHTS_CHOOSE,
    LK_WEIGHTS_NO,
    LK_WEIGHTS_YES
} lk__weights_choice;

typedef struct lk__weights_aims {
    int64_t strip_bytes;       /* of the columns side in a strip */
    int64_t packed_bytes;      /* of both sides in a chunk, if one is packed */
    int64_t place_bytes;       /* the same if none is */
    int64_t chunk_pixels;      /* at least; with fewer, loading and storing the tiles takes over */
    int64_t chunk_work;        /* with several threads: vector multiply-adds of each, at least, */
    int64_t chunk_bytes;       /* unless copies would then be larger, for each */
    int64_t stretch_positions; /* at least; with fewer, joining the sums takes over */
    int64_t sums_bytes;        /* of all stretches, at most */
    lk__weights_choice swapped, pack_rows, pack_cols;
} lk__weights_aims;

extern const lk__weights_aims lk__weights_default;

typedef struct lk__weights_plan {
    lk__conv_shape s;
    lk__weights_aims aims;
    const lk__columns_type *micro;
    lk__panels_fn *pack;
    int threads, crew; /* all that there are; those that share the tiles of a stretch */
    int lanes;         /* panels are this many elements wide, or a multiple */
    bool runs, own, spread, swapped;
    lk__weights_side x, y;
    int64_t groups, n_rows, n_cols;     /* channels of the rows and columns side in a group */
    int64_t taps[LK_CONV_AXES], n_taps; /* the kernel; one column with `runs` or `own` */
    int64_t tap_rows;                   /* rows of dw in one tap */
    int64_t tap_parts;                  /* in which the taps of a tile are given to threads */
    lk__range *valid[LK_CONV_AXES];     /* for each tap of an axis: its valid output positions */
    lk__weights_columns *columns;       /* for each kernel column, or each slice of the rows */
    lk__phase *phases;
    lk__range need;               /* input columns that the columns of the chunk read */
    int64_t pack_columns;         /* of those with one remainder modulo the stride, at most */
    int64_t pack_row;             /* pixels of a packed row of x */
    int64_t stretch, n_stretches; /* samples; the last may have fewer */
    int64_t chunk[LK_CUTS], strip[LK_CUTS];
    int n_levels;     /* of the tree of a stretch */
    bool interrupted; /* a piece may take several calls */
    int64_t n_slots;
    int64_t tree_room; /* elements */
} lk__weights_plan;

/** The side that gives the rows of tiles, and the one that gives their columns. */
static inline lk__weights_side *lk__weights_rows(lk__weights_plan *p)
{
    return p->swapped ? &p->y : &p->x;
}

static inline lk__weights_side *lk__weights_cols(lk__weights_plan *p)
{
    return p->swapped ? &p->x : &p->y;
}

/** The input positions along `axis` that output positions `out` read, within the image. */
lk__range lk__weights_reach(const lk__conv_shape *s, int axis, lk__range out);

/** Set `columns` and `need` for a chunk that has these output columns. */
void lk__weights_columns_set(lk__weights_plan *p, lk__range out);

/** Which of micro's widths holds `rest` channels: the narrowest that does, or the widest. */
int lk__weights_width(const lk__columns_type *micro, int64_t rest);

/** Decide `runs`, `swapped` and what is packed, and cut the channels.  Part of making a plan. */
lk_status lk__weights_slice(lk__weights_plan *p) LK_NODISCARD;

/**
 * Cut `s`, which has no empty axis.  Release `p` also after a failure.
 *
 * Errors: LK_EOVERFLOW, LK_ENOMEM, as lk_isa_now() and lk_threads_now().
 */
lk_status lk__weights_plan_make(const lk__conv_shape *s, const lk__weights_aims *aims,
                                lk__weights_plan *p) LK_NODISCARD;

/** Release what lk__weights_plan_make() allocated. */
void lk__weights_plan_release(lk__weights_plan *p);

#endif /* LK_KERNEL_CONV_WEIGHTS_PLAN_H */
