/* Tiles of 1 to 3 spatial axes on a grid of all ranks, between samples and channels: [2][...][3].
 *
 * Every rank knows the sizes and halos of all: tiles differ, some have nothing, and halos differ in width
 * down to 0.  Values are functions of rank and position.
 */
#ifndef LK_TEST_TILE_CUTS_H
#define LK_TEST_TILE_CUTS_H

#include "ranks.h"

#include <lockstep/lockstep.h>

enum { CUT_AXES = 3, CUT_CHANNELS = 3, CUT_SAMPLES = 2 };

struct tile_cut {
    int ndim, dim[CUT_AXES];
    bool periodic, zeros; /* at borders */
    bool empty;           /* some tiles have nothing */
};

enum { CUT_KINDS = 5 };

/* The grid of `size` ranks, as even as it can be: 12 is 12, 3x4 or 2x2x3. */
static inline struct tile_cut tile_cut_of(int size, int ndim, int kind)
{
    struct tile_cut c = {.ndim = ndim,
                         .periodic = kind == 0 || kind == 3,
                         .zeros = kind == 1 || kind == 4,
                         .empty = kind >= 3};
    for (int k = 0; k < ndim; k++) {
        int n = 1, left = ndim - k;
        for (int d = 1; d <= size; d++) {
            int power = 1;
            for (int i = 0; i < left; i++)
                power *= d;
            if (size % d == 0 && power <= size)
                n = d;
        }
        c.dim[k] = left == 1 ? size : n;
        size /= c.dim[k];
    }
    return c;
}

static inline void cut_at(const struct tile_cut *c, int rank, int at[CUT_AXES])
{
    for (int k = c->ndim - 1; k >= 0; k--) {
        at[k] = rank % c->dim[k];
        rank /= c->dim[k];
    }
}

static inline int cut_rank(const struct tile_cut *c, const int at[CUT_AXES])
{
    int rank = 0;
    for (int k = 0; k < c->ndim; k++)
        rank = rank * c->dim[k] + at[k];
    return rank;
}

/* Rows of a tile along axis k, at coordinate `at` of the grid. */
static inline int64_t cut_rows(const struct tile_cut *c, int k, int at)
{
    return c->empty && (at + k) % 3 == 1 ? 0 : 2 + (2 * at + k) % 3;
}

/* The neighbour's coordinate on side 0 or 1, or -1. */
static inline int cut_beside(const struct tile_cut *c, int k, int at, int side)
{
    int other = at + (side == 0 ? -1 : 1);
    if (c->periodic)
        return (other + c->dim[k]) % c->dim[k];
    return other >= 0 && other < c->dim[k] ? other : -1;
}

/* Rows that are asked for on a side: at most what the neighbour has. */
static inline int64_t cut_asked(const struct tile_cut *c, int k, int at, int side)
{
    int64_t want = (at + k + 2 * side) % 3, there = INT64_MAX;
    int beside = cut_beside(c, k, at, side);
    if (c->dim[k] < 3)
        want++;
    if (beside >= 0)
        there = cut_rows(c, k, beside);
    return want < there ? want : there;
}

/* Rows that there are on a side. */
static inline int64_t cut_halo(const struct tile_cut *c, int k, int at, int side)
{
    return c->zeros || cut_beside(c, k, at, side) >= 0 ? cut_asked(c, k, at, side) : 0;
}

/* Spatial axes are the axes 1 to ndim of a value. */
static inline lk_shape cut_shape(const struct tile_cut *c, const int at[CUT_AXES], bool halos)
{
    lk_shape s = {.ndim = c->ndim + 2};
    s.dim[0] = CUT_SAMPLES;
    s.dim[c->ndim + 1] = CUT_CHANNELS;
    for (int k = 0; k < c->ndim; k++) {
        s.dim[1 + k] = cut_rows(c, k, at[k]);
        for (int side = 0; side < 2 && halos; side++)
            s.dim[1 + k] += cut_halo(c, k, at[k], side);
    }
    return s;
}

/* The arguments of the calls.  The halos are listed from the last axis to the first, if `turned`. */
static inline lk_grid cut_grid(const struct tile_cut *c, lk_comm *comm, bool turned,
                               lk_halo halos[CUT_AXES])
{
    const bool periodic[CUT_AXES] = {c->periodic, c->periodic, c->periodic};
    lk_grid g;
    ASSERT_OK(lk_grid_make(comm, c->ndim, c->dim, periodic, &g));
    for (int i = 0; i < c->ndim; i++) {
        int k = turned ? c->ndim - 1 - i : i;
        halos[i] = (lk_halo){.axis = 1 + k,
                             .grid_axis = k,
                             .low = cut_asked(c, k, g.at[k], 0),
                             .high = cut_asked(c, k, g.at[k], 1),
                             .zeros = c->zeros};
    }
    return g;
}

/* A number of a rank and the place of an element, well mixed. */
static inline uint32_t cut_mix(int rank, int64_t place, uint32_t stream)
{
    uint64_t h = (uint64_t)(rank + 1) * UINT64_C(0x9E3779B97F4A7C15) ^
                 (uint64_t)(place + 1) * UINT64_C(0xC2B2AE3D27D4EB4F) ^
                 stream * UINT64_C(0x165667B1);
    h ^= h >> 29;
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(h >> 32);
}

/* An integer from -8 to 8; sums of products of such are exact. */
static inline double cut_integer(int rank, int64_t place, uint32_t stream)
{
    return (double)(cut_mix(rank, place, stream) % 17) - 8;
}

/* Of sizes that differ, so that each order of additions has its own rounding. */
static inline double cut_real(int rank, int64_t place, lk_dtype dtype)
{
    uint32_t m = cut_mix(rank, place, 3);
    double v = ((double)m / 4294967296.0 - 0.5) * (double)(1 << m % 8);
    return dtype == LK_F32 ? (double)(float)v : v;
}

#endif /* LK_TEST_TILE_CUTS_H */
