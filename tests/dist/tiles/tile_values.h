/* Samples [samples][n...][channels] cut into tiles, as each rank of a grid holds them, and as one rank
 * that has all tiles does: what tests of ops on tiles compare.
 *
 * A value is a function of its place in the whole.  The margins of what a rank holds have other numbers,
 * which must not be seen in any result.
 */
#ifndef LK_TEST_TILE_VALUES_H
#define LK_TEST_TILE_VALUES_H

#include "kernel/reference/reference.h"
#include "real.h"
#include "tile_cuts.h"

#include <lockstep/coll.h>

struct tiled {
    int ndim;
    int64_t n[CUT_AXES], tiles[CUT_AXES]; /* positions, and tiles along each axis */
    int64_t samples, channels, shard;
    lk_dtype dtype;
};

enum { TILED_KINDS = 4 };

/* Uneven tiles, as many as ranks or more; of kind 1 some are empty, of kind 2 ranks have several, kind 3
 * has one sample more than whole shards. */
static inline struct tiled tiled_of(const int *dim, int ndim, int kind, lk_dtype dtype)
{
    struct tiled t = {.ndim = ndim, .samples = 4, .channels = 3, .shard = 2, .dtype = dtype};
    for (int d = 0; d < ndim; d++) {
        t.tiles[d] = dim[d] + (kind == 2 ? 2 + d : kind == 3 ? 1 : 0);
        t.n[d] = kind == 1 ? t.tiles[d] / 2 + 1 : 2 * t.tiles[d] + 1 + d;
    }
    if (kind == 3)
        t.samples = 5;
    return t;
}

/* What one rank has: a tile, with or without a margin, of a layer that goes position by position. */
struct held {
    struct tiled of;
    lk_tiling *tiling;
    lk_tile *tile;
};

static inline lk_box box_wider(lk_box b, const int64_t *n)
{
    bool empty = lk_box_count(&b) == 0;
    for (int d = 0; d < b.ndim; d++) {
        int64_t end = b.first[d] + b.n[d] + 2;
        b.first[d] -= b.first[d] > 0;
        end = end < n[d] ? end : n[d];
        b.n[d] = (empty && n[d] > 1 ? 1 : end) - b.first[d];
    }
    return b;
}

/* The tiles of a rank of `dim`; `comm` NULL: of one that has all. */
static inline struct held held_begin(const struct tiled *of, lk_comm *comm, const int *dim,
                                     bool margin)
{
    struct held h = {.of = *of};
    lk_grid grid = {.ndim = of->ndim, .dim = {1, 1, 1}};
    lk_tile_spec spec = {.kind = LK_TILE_POINTWISE, .window = {.ndim = of->ndim}};
    if (comm)
        ASSERT_OK(lk_grid_make(comm, of->ndim, dim, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, of->tiles, 0, &h.tiling));
    for (int d = 0; d < of->ndim; d++)
        spec.in[d] = spec.out[d] = of->n[d];
    if (margin) {
        lk_box tile = lk_tiling_box(h.tiling, h.tiling->rank, of->ndim, of->n, NULL);
        spec.x_box = spec.y_box = box_wider(tile, of->n);
    }
    ASSERT_OK(lk_tile_new(h.tiling, &spec, &h.tile));
    return h;
}

static inline void held_end(struct held *h)
{
    lk_tile_free(h->tile);
    lk_tiling_free(h->tiling);
}

static inline double real_at(const lk_tensor *t, int64_t i)
{
    return real_get(lk_tensor_dtype(t), lk_tensor_data(t), i);
}

static inline void real_put(lk_tensor *t, int64_t i, double v)
{
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_set(lk_tensor_dtype(t), data, i, v);
}

static inline int64_t elements_of(const lk_tensor *t)
{
    int64_t n;
    ASSERT_OK(lk_shape_count(lk_tensor_shape(t), &n));
    return n;
}

static inline lk_tensor *tensor_like(lk_dtype dtype, lk_shape shape, double v)
{
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_fill_f64(t, v));
    return t;
}

static inline lk_tensor *channel_values(const struct tiled *of, int stream)
{
    lk_tensor *t = tensor_like(of->dtype, LK_SHAPE(of->channels), 0);
    for (int64_t c = 0; c < of->channels; c++)
        real_put(t, c, 0.5 + 0.25 * (double)((c + stream) % 4));
    return t;
}

/* Go over the elements of a held array: where each is in the whole, -1 in the margin. */
static inline int64_t place_of(const struct held *h, int64_t i)
{
    const lk_box *box = &h->tile->x.box, *tile = &h->tile->x.tile;
    int64_t c = i % h->of.channels, at[CUT_AXES] = {0}, place = 0;
    bool mine = true;
    i /= h->of.channels;
    for (int d = h->of.ndim - 1; d >= 0; d--) {
        at[d] = box->first[d] + i % box->n[d];
        i /= box->n[d];
        mine = mine && at[d] >= tile->first[d] && at[d] < tile->first[d] + tile->n[d];
    }
    place = i; /* the sample */
    for (int d = 0; d < h->of.ndim; d++)
        place = place * h->of.n[d] + at[d];
    return mine ? place * h->of.channels + c : -1;
}

static inline lk_shape held_shape(const struct held *h)
{
    lk_shape s = {.ndim = h->of.ndim + 2, .dim = {h->of.samples}};
    for (int d = 0; d < h->of.ndim; d++)
        s.dim[1 + d] = h->tile->x.box.n[d];
    s.dim[s.ndim - 1] = h->of.channels;
    return s;
}

/* This rank's box of a value of the whole; `first`: its samples begin there. */
static inline lk_tensor *held_values(const struct held *h, int stream, int64_t first)
{
    lk_tensor *t = tensor_like(h->of.dtype, held_shape(h), 0);
    int64_t each = h->of.channels;
    for (int d = 0; d < h->of.ndim; d++)
        each *= h->of.n[d];
    for (int64_t i = 0; i < elements_of(t); i++) {
        int64_t place = place_of(h, i);
        real_put(t, i,
                 place < 0 ? 100.0 + (double)(i % 7)
                           : cut_real(stream, first * each + place, h->of.dtype));
    }
    return t;
}

/* The tile's part of `got` is what `want`, of one rank that has all samples from `first` on, has there. */
static inline void assert_part(const struct held *h, const lk_tensor *got, const struct held *all,
                               const lk_tensor *want, int64_t first)
{
    size_t size = lk_dtype_size(h->of.dtype);
    int64_t each = h->of.channels;
    const char *a = lk_tensor_data(got), *b = lk_tensor_data(want);
    for (int d = 0; d < h->of.ndim; d++)
        each *= h->of.n[d];
    ASSERT_TRUE(lk_box_is_equal(&all->tile->x.box, &all->tile->x.tile));
    for (int64_t i = 0; i < elements_of(got); i++) {
        int64_t place = place_of(h, i);
        if (place >= 0)
            ASSERT_SAME_BITS(a + i * (int64_t)size, b + (first * each + place) * (int64_t)size,
                             size);
        else
            ASSERT_TRUE(isfinite(real_at(got, i)));
    }
}

static inline void assert_same(const lk_tensor *got, const lk_tensor *want)
{
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got), lk_tensor_shape(want)));
    ASSERT_EQ(lk_tensor_dtype(got), lk_tensor_dtype(want));
    size_t bytes = (size_t)elements_of(want) * lk_dtype_size(lk_tensor_dtype(want));
    if (bytes > 0)
        ASSERT_SAME_BITS(lk_tensor_data(got), lk_tensor_data(want), bytes);
}

/* A value that outlives its tape. */
static inline lk_tensor *value_kept(lk_var v)
{
    const lk_tensor *t;
    lk_tensor *own;
    ASSERT_OK(lk_value(v, &t));
    ASSERT_OK(lk_tensor_new(lk_tensor_dtype(t), lk_tensor_shape(t), &own));
    ASSERT_OK(lk_tensor_copy(t, own));
    return own;
}

/* Run it in 1 to 3 dimensions with tiles of each kind, on all ranks and on the odd and the even ones in
 * reverse. */
static inline void on_all_tilings(lk_comm *comm,
                                  void (*run)(lk_comm *comm, const int *dim, struct tiled of))
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    for (int ndim = 1; ndim <= CUT_AXES; ndim++)
        for (int kind = 0; kind < TILED_KINDS; kind++) {
            lk_dtype dtype = (ndim + kind) % 2 ? LK_F32 : LK_F64;
            struct tile_cut all = tile_cut_of(lk_comm_size(comm), ndim, 0),
                            some = tile_cut_of(lk_comm_size(half), ndim, 0);
            run(comm, all.dim, tiled_of(all.dim, ndim, kind, dtype));
            if (!ranks_brief() || kind == 1)
                run(half, some.dim, tiled_of(some.dim, ndim, kind, dtype));
        }
    lk_comm_close(half);
}

/* A lane sum of f64: its lanes are joined by the tree. */
struct lanes {
    double lane[16];
    int64_t n;
};

static inline void lanes_add(struct lanes *l, double v)
{
    l->lane[l->n++ % 16] += v;
}

/* Leaves in row-major order become their sum: columns first, then rows, then planes. */
static inline double tree_of_tiles(const struct tiled *of, double *leaf)
{
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < of->ndim; d++)
        outer *= of->tiles[d];
    for (int d = of->ndim - 1; d >= 0; d--) {
        outer /= of->tiles[d];
        for (int64_t o = 0; o < outer; o++) {
            double *row = leaf + o * of->tiles[d] * inner;
            lk__ref_tree_vectors(LK_F64, of->tiles[d], inner, row, row, NULL);
        }
        inner *= of->tiles[d];
    }
    return leaf[0];
}

#endif /* LK_TEST_TILE_VALUES_H */
