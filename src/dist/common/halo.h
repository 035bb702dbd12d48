/* What a halo exchange does along each axis, as this rank and its neighbours agreed: between
 * common/halo.c, which makes it, and halo.c, which runs it in both directions.
 */
#ifndef LK_DIST_COMMON_HALO_H
#define LK_DIST_COMMON_HALO_H

#include "dist/common/dist.h"

/* Sides are 0, towards lower coordinates of the grid, and 1. */
typedef struct lk__halo_axis {
    int axis;
    int rank[2];     /* neighbours, negative: none */
    int64_t get[2];  /* rows that come from a neighbour */
    int64_t give[2]; /* rows that a neighbour gets */
    int64_t zero[2]; /* rows of zeros at a border */
} lk__halo_axis;

/* Attributes of the ops; compared as bytes. */
typedef struct lk__halo {
    lk__dist d;
    int n;
    lk_shape tile; /* without halos */
    lk__halo_axis axis[LK_MAX_GRID];
} lk__halo;

/** Tell the neighbours what this rank wants, learn what they want, and check both.  x is a tile; if the
 * call `adds`, a tile with its halos.  Collective; what does not fit ends the job with an error that
 * names both ranks. */
lk_status lk__halo_plan(lk__dist d, bool adds, const lk_grid *grid, lk_var x, const lk_halo *halos,
                        int n, lk__halo *out) LK_NODISCARD;

/** The shape with halos. */
lk_status lk__halo_shape(const lk__halo *h, lk_shape *out) LK_NODISCARD;

#endif /* LK_DIST_COMMON_HALO_H */
