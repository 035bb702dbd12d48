/* Random pools on random tiles, the same on all ranks, and arrays of their boxes.
 *
 * Sizes, windows and cuts differ down to nothing: windows overlap or leave gaps, reach into the padding
 * and beyond it, and over several tiles; tiles are uneven, and some are empty.  Among the values are ties,
 * zeros of both signs and, for max, NaN.
 */
#ifndef LK_TEST_POOL_CASES_H
#define LK_TEST_POOL_CASES_H

#include "ranks.h"
#include "real.h"

#include <lockstep/lockstep.h>

#include <string.h>

enum { AXES = LK_TILE_AXES, MOST_TILES = 12 };

struct pool_case {
    uint64_t state; /* of the random numbers, the same on all ranks */
    int ndim;
    lk_pool_kind kind;
    bool relu;
    lk_pool_attr attr;
    lk_dtype dtype;
    int64_t samples, channels, in[AXES], out[AXES], tiles[AXES], step;
    int grid_ndim, grid_dim[AXES];
    int64_t in_bounds[AXES][MOST_TILES + 1], out_bounds[AXES][MOST_TILES + 1];
    bool bounds, wide;
};

/* A number in [lo, hi]. */
static inline int64_t pick(struct pool_case *c, int64_t lo, int64_t hi)
{
    c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (int64_t)((c->state >> 33) % (uint64_t)(hi - lo + 1));
}

/* ---- making a case ---- */

static inline void bounds_draw(struct pool_case *c, int64_t n, int64_t tiles, int64_t *bounds)
{
    bounds[0] = 0;
    for (int64_t i = 1; i <= tiles; i++) {
        int64_t b = i == tiles ? n : pick(c, 0, n), k = i;
        for (; bounds[k - 1] > b; k--)
            bounds[k] = bounds[k - 1];
        bounds[k] = b;
    }
}

static inline void grid_draw(struct pool_case *c, int size)
{
    c->grid_ndim = (int)pick(c, 1, c->ndim);
    for (int d = 0; d < AXES; d++)
        c->grid_dim[d] = 1;
    for (int p = 2; size > 1; p++)
        for (; size % p == 0; size /= p)
            c->grid_dim[pick(c, 0, c->grid_ndim - 1)] *= p;
    for (int d = 0; d < c->grid_ndim; d++)
        c->tiles[d] = c->grid_dim[d] + pick(c, 0, 2);
    c->step = pick(c, 0, 3) == 0 ? 4 : 1;
}

static inline void window_draw(struct pool_case *c, int d)
{
    static const int64_t most[] = {24, 12, 7};
    lk_window *w = &c->attr.window;
    int64_t room = -1;
    while (room < 0) {
        c->in[d] = pick(c, 1, most[c->ndim - 1]);
        w->kernel[d] = pick(c, 1, 5);
        w->stride[d] = pick(c, 0, 4);
        int64_t kind = pick(c, 0, 3);
        bool same = kind == 1;
        w->pad_lo[d] = same        ? (w->kernel[d] - 1) / 2
                       : kind == 0 ? 0
                                   : pick(c, -2, w->kernel[d] + 1);
        w->pad_hi[d] = same ? w->kernel[d] / 2 : kind == 0 ? 0 : pick(c, -2, w->kernel[d] + 1);
        room = c->in[d] + w->pad_lo[d] + w->pad_hi[d] - w->kernel[d];
    }
    c->out[d] = room / (w->stride[d] > 0 ? w->stride[d] : 1) + 1;
}

static inline struct pool_case case_draw(int size, int64_t number)
{
    struct pool_case c = {.state = (uint64_t)size * 1000003 + (uint64_t)number * 7919};
    pick(&c, 0, 1);
    c.ndim = 1 + (int)(number % 3);
    c.kind = (lk_pool_kind)pick(&c, 0, 2);
    c.relu = c.kind == LK_POOL_MAX && pick(&c, 0, 2) == 0;
    c.dtype = pick(&c, 0, 1) ? LK_F32 : LK_F64;
    c.samples = pick(&c, 0, 9) == 0 ? 0 : pick(&c, 1, 3);
    c.channels = pick(&c, 1, 9);
    c.attr.window.ndim = c.ndim;
    c.attr.count_padding = pick(&c, 0, 1);
    for (int d = 0; d < c.ndim; d++)
        window_draw(&c, d);
    grid_draw(&c, size);
    c.bounds = pick(&c, 0, 2) == 0;
    c.wide = pick(&c, 0, 2) == 0;
    for (int d = 0; d < c.grid_ndim; d++) {
        bounds_draw(&c, c.in[d], c.tiles[d], c.in_bounds[d]);
        bounds_draw(&c, c.out[d], c.tiles[d], c.out_bounds[d]);
    }
    return c;
}

/* ---- values ---- */

/* Of x: of max few different ones, with NaN; of l2 windows of zeros. */
static inline double x_value(struct pool_case *c)
{
    if (c->kind == LK_POOL_MAX && pick(c, 0, 19) == 0)
        return (double)NAN;
    if (c->kind != LK_POOL_AVG && pick(c, 0, 2) == 0)
        return pick(c, 0, 1) ? 0.0 : -0.0;
    if (c->kind == LK_POOL_MAX)
        return (double)pick(c, -3, 3);
    return (double)pick(c, -1000000, 1000000) / 65537;
}

static inline double dy_value(struct pool_case *c)
{
    return (double)pick(c, -1000000, 1000000) / 4099;
}

static inline int64_t elements(const struct pool_case *c, const lk_box *box)
{
    return c->samples * lk_box_count(box) * c->channels;
}

static inline void *array_new(const struct pool_case *c, const lk_box *box)
{
    void *p = calloc((size_t)elements(c, box) + 1, sizeof(double));
    ASSERT_TRUE(p);
    return p;
}

static inline void *array_drawn(struct pool_case *c, const lk_box *box,
                                double (*draw)(struct pool_case *))
{
    void *p = array_new(c, box);
    for (int64_t i = 0; i < elements(c, box); i++)
        real_set(c->dtype, p, i, draw(c));
    return p;
}

static inline int64_t place_in(const lk_box *box, int64_t sample, const int64_t at[AXES])
{
    int64_t place = sample;
    for (int d = 0; d < box->ndim; d++)
        place = place * box->n[d] + at[d] - box->first[d];
    return place;
}

/* Positions of `part`, from an array of one box to that of another. */
static inline void part_copy(const struct pool_case *c, const lk_box *part, const void *from,
                             const lk_box *from_box, void *to, const lk_box *to_box)
{
    size_t bytes = (size_t)c->channels * lk_dtype_size(c->dtype);
    int64_t count = lk_box_count(part);
    for (int64_t i = 0; i < c->samples * count; i++) {
        int64_t at[AXES] = {0}, left = i % count;
        for (int d = part->ndim - 1; d >= 0; d--) {
            at[d] = part->first[d] + left % part->n[d];
            left /= part->n[d];
        }
        memcpy((char *)to + (size_t)place_in(to_box, i / count, at) * bytes,
               (const char *)from + (size_t)place_in(from_box, i / count, at) * bytes, bytes);
    }
}

/* What this rank holds of a value: its tile, and in the margin what is nobody's. */
static inline void *held_new(const struct pool_case *c, const lk_held *held, const void *whole,
                             const lk_box *whole_box)
{
    void *p = array_new(c, &held->box);
    for (int64_t i = 0; i < elements(c, &held->box); i++)
        real_set(c->dtype, p, i, 1e6 + (double)i);
    part_copy(c, &held->tile, whole, whole_box, p, &held->box);
    return p;
}

#endif /* LK_TEST_POOL_CASES_H */
