/* Tilings for tests: random grids, tiles and bounds, the same on all ranks; values that are a formula of
 * sample, position and channel.
 */
#ifndef LK_TEST_TILINGS_H
#define LK_TEST_TILINGS_H

#include "sent_bytes.h"
#include "tile_cuts.h"

#include <lockstep/tiles.h>

#include <string.h>

/* ---- numbers of a case ---- */

/* A sequence that depends on the case alone. */
typedef struct tiling_draws {
    uint64_t state;
} tiling_draws;

static inline tiling_draws draws_of(int64_t number)
{
    return (tiling_draws){(uint64_t)(number + 1) * UINT64_C(0x9E3779B97F4A7C15)};
}

/* From lo to hi, both of them. */
static inline int64_t draw(tiling_draws *d, int64_t lo, int64_t hi)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return lo + (int64_t)((d->state >> 16) % (uint64_t)(hi - lo + 1));
}

/* ---- tilings ---- */

/* A tiling of all ranks of `comm`, and where a host may cut: bounds of two values. */
typedef struct tiling_case {
    lk_tiling *tiling;
    int64_t cut[2][LK_TILE_AXES][40];
} tiling_case;

/* Grids of 1 to 3 axes, some with the large side first and some last; at least as many tiles as ranks. */
static inline void tiling_begin(tiling_case *c, lk_comm *comm, tiling_draws *d)
{
    int ndim = (int)draw(d, 1, LK_TILE_AXES), dim[LK_TILE_AXES];
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), ndim, 0);
    bool turned = draw(d, 0, 1) == 1;
    int64_t tiles[LK_TILE_AXES], step = draw(d, 0, 2) == 2 ? 4 : 0;
    lk_grid grid;
    for (int k = 0; k < ndim; k++) {
        dim[k] = cut.dim[turned ? ndim - 1 - k : k];
        tiles[k] = dim[k] + draw(d, 0, 2);
    }
    ASSERT_OK(lk_grid_make(comm, ndim, dim, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, step, &c->tiling));
}

static inline void tiling_end(tiling_case *c)
{
    lk_tiling_free(c->tiling);
}

/* Cut some axes of n in places of the host's own: number 0 or 1 of a case. */
static inline lk_tile_bounds tiling_bounds(tiling_case *c, tiling_draws *d, int number,
                                           const int64_t *n)
{
    lk_tile_bounds b = {{NULL}};
    for (int k = 0; k < c->tiling->ndim; k++) {
        int64_t *at = c->cut[number][k], tiles = c->tiling->tiles[k];
        ASSERT_TRUE(tiles < 40);
        at[0] = 0;
        for (int64_t i = 1; i < tiles; i++)
            at[i] = at[i - 1] + draw(d, 0, 2 * n[k] / tiles + 1);
        for (int64_t i = 1; i < tiles; i++)
            at[i] = at[i] < n[k] ? at[i] : n[k];
        at[tiles] = n[k];
        if (draw(d, 0, 1) == 1)
            b.axis[k] = at;
    }
    return b;
}

/* Run it for cases number 0 to n - 1, on all ranks and on the odd and the even ones in reverse. */
static inline void tiling_cases(lk_comm *comm, int64_t n,
                                void (*run)(lk_comm *comm, int64_t number))
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    for (int64_t i = 0; i < n; i++)
        run(i % 4 == 3 ? half : comm, i);
    lk_comm_close(half);
}

/* ---- values ---- */

/* Exact in f32, and never 0. */
static inline double tiled_value(int64_t sample, const int64_t *at, int ndim, int64_t channel)
{
    int64_t v = sample;
    for (int k = 0; k < ndim; k++)
        v = v * 41 + at[k];
    return (double)(v * 5 + channel + 1);
}

static inline void element_put(lk_dtype dtype, void *array, int64_t i, double v)
{
    if (dtype == LK_F32)
        ((float *)array)[i] = (float)v;
    else if (dtype == LK_F64)
        ((double *)array)[i] = v;
    else if (dtype == LK_I64)
        ((int64_t *)array)[i] = (int64_t)v;
    else
        ((uint8_t *)array)[i] = (uint8_t)(int64_t)v;
}

static inline bool box_has_place(const lk_box *box, const int64_t *at)
{
    bool has = true;
    for (int k = 0; k < box->ndim; k++)
        has = has && at[k] >= box->first[k] && at[k] < box->first[k] + box->n[k];
    return has;
}

/* Fill an array [samples][box...][channels]: in `inside` by the formula, elsewhere with `other`.  Samples
 * begin with number `first`. */
static inline void tiled_fill(lk_dtype dtype, void *array, lk_range samples, const lk_box *box,
                              int64_t channels, const lk_box *inside, double other)
{
    int64_t i = 0, count = lk_box_count(box);
    for (int64_t s = samples.first; s < samples.first + samples.n; s++)
        for (int64_t p = 0; p < count; p++) {
            int64_t at[LK_TILE_AXES] = {0}, rest = p;
            for (int k = box->ndim - 1; k >= 0; k--) {
                at[k] = box->first[k] + rest % box->n[k];
                rest /= box->n[k];
            }
            bool in = box_has_place(inside, at);
            for (int64_t c = 0; c < channels; c++, i++)
                element_put(dtype, array, i, in ? tiled_value(s, at, box->ndim, c) : other);
        }
}

#endif /* LK_TEST_TILINGS_H */
