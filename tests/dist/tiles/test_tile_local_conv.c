/* Local convolutions and their transposes on tiles: random shapes against those of the whole sample, by
 * bits, in 1 to 3 dimensions.
 *
 * Every rank makes the whole sample and all weights and convolves alone, then takes its box of x and dy,
 * with other numbers in the margin, and the weights of its own positions.  Windows overlap or leave gaps,
 * reach into the padding and over several tiles; tiles are uneven, and some are empty.
 */
#include "ranks.h"
#include "real.h"

#include <lockstep/coll.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>
#include <lockstep/tiles.h>

enum { AXES = 3, ROOM = 1 << 14, CASES = 60 };

struct local_case {
    int ndim;
    int64_t in[AXES], out[AXES], tiles[AXES], samples, channels, filters;
    lk_conv_attr attr;
    lk_dtype dtype;
    bool back;  /* the transpose: x is what the convolution makes, y what it reads */
    bool given; /* nobody asks for dx */
};

static uint64_t next(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

/* The same on all ranks. */
static struct local_case case_of(uint64_t seed, const int *dim, int ndim, bool back)
{
    uint64_t s = seed * 977 + (uint64_t)ndim;
    struct local_case c = {.ndim = ndim,
                           .samples = (int64_t)next(&s, 4),
                           .channels = 1 + (int64_t)next(&s, 3),
                           .filters = 1 + (int64_t)next(&s, 3),
                           .dtype = next(&s, 2) ? LK_F32 : LK_F64,
                           .back = back,
                           .given = seed % 5 == 0};
    lk_window *w = &c.attr.window;
    for (int d = 0; d < ndim; d++) {
        c.tiles[d] = dim[d] + (int64_t)next(&s, 3);
        w->kernel[d] = 1 + (int64_t)next(&s, 4);
        w->stride[d] = 1 + (int64_t)next(&s, 3);
        w->dilation[d] = 1 + (int64_t)next(&s, 2);
        w->pad_lo[d] = (int64_t)next(&s, 4);
        w->pad_hi[d] = (int64_t)next(&s, 4);
        int64_t extent = w->dilation[d] * (w->kernel[d] - 1) + 1;
        c.in[d] = extent + (int64_t)next(&s, ndim == 3 ? 3 : 7);
        int64_t room = c.in[d] + w->pad_lo[d] + w->pad_hi[d] - extent;
        c.out[d] = room / w->stride[d] + 1;
        c.attr.extra[d] = back ? room % w->stride[d] : 0;
    }
    w->ndim = ndim;
    return c;
}

/* Sizes and channels of x, or of y. */
struct side {
    const int64_t *n;
    int64_t channels;
};

static struct side side_x(const struct local_case *c)
{
    return c->back ? (struct side){c->out, c->filters} : (struct side){c->in, c->channels};
}

static struct side side_y(const struct local_case *c)
{
    return c->back ? (struct side){c->in, c->channels} : (struct side){c->out, c->filters};
}

/* The positions that a tile has filters of. */
static const lk_box *own_filters(const struct local_case *c, const lk_tile *tile)
{
    return c->back ? &tile->x.tile : &tile->y.tile;
}

/* Element number `i` of a value. */
static double value_at(int stream, int64_t i)
{
    return (double)((i * 37 + (int64_t)stream * 101) % 229 - 114) / 64;
}

/* The dense array [samples][box][inner] of a value of the sizes n, `tile` of it right: returns how many
 * elements it has. */
static int64_t box_fill(const struct local_case *c, int stream, int64_t samples, const int64_t *n,
                        const lk_box *box, const lk_box *tile, int64_t inner, void *out)
{
    int64_t held = lk_box_count(box), all = 1;
    ASSERT_TRUE(samples * held * inner <= ROOM);
    for (int d = 0; d < c->ndim; d++)
        all *= n[d];
    for (int64_t i = 0; i < samples * held * inner; i++) {
        int64_t left = i / inner, place = 0, at[AXES];
        bool mine = true;
        for (int d = c->ndim - 1; d >= 0; d--) {
            at[d] = box->first[d] + left % box->n[d];
            left /= box->n[d];
            mine = mine && at[d] >= tile->first[d] && at[d] < tile->first[d] + tile->n[d];
        }
        for (int d = 0; d < c->ndim; d++)
            place = place * n[d] + at[d];
        place = (left * all + place) * inner + i % inner;
        real_set(c->dtype, out, i, mine ? value_at(stream, place) : 1000.0 + (double)(i % 5));
    }
    return samples * held * inner;
}

/* `tile` of `got`, an array of `box`, is what `want`, of the whole, has there. */
static void expect_tile(const struct local_case *c, int64_t samples, const int64_t *n,
                        const lk_box *box, const lk_box *tile, int64_t inner, const void *got,
                        const void *want)
{
    size_t bytes = (size_t)inner * lk_dtype_size(c->dtype);
    int64_t held = lk_box_count(box), all = 1, at[AXES] = {0};
    for (int d = 0; d < c->ndim; d++)
        all *= n[d];
    for (int64_t b = 0; b < samples; b++)
        for (int64_t i = 0; i < lk_box_count(tile); i++) {
            int64_t left = i, here = 0, there = 0;
            for (int d = c->ndim - 1; d >= 0; d--) {
                at[d] = tile->first[d] + left % tile->n[d];
                left /= tile->n[d];
            }
            for (int d = 0; d < c->ndim; d++) {
                here = here * box->n[d] + at[d] - box->first[d];
                there = there * n[d] + at[d];
            }
            ASSERT_SAME_BITS((const char *)got + (size_t)(b * held + here) * bytes,
                             (const char *)want + (size_t)(b * all + there) * bytes, bytes);
        }
}

struct arrays {
    _Alignas(64) double x[ROOM], w[ROOM], dy[ROOM], y[ROOM], dx[ROOM], dw[ROOM];
};

static lk_shape shape_of(const struct local_case *c, const lk_box *box, int64_t channels)
{
    lk_shape s = {.ndim = c->ndim + 2, .dim = {c->samples}};
    for (int d = 0; d < c->ndim; d++)
        s.dim[d + 1] = box->n[d];
    s.dim[c->ndim + 1] = channels;
    return s;
}

static lk_shape weights_of(const struct local_case *c, const lk_box *box)
{
    lk_shape s = {.ndim = 2 * c->ndim + 2};
    for (int d = 0; d < c->ndim; d++) {
        s.dim[d] = box->n[d];
        s.dim[c->ndim + d] = c->attr.window.kernel[d];
    }
    s.dim[s.ndim - 2] = c->channels;
    s.dim[s.ndim - 1] = c->filters;
    return s;
}

/* y, dx and dw of x, w and dy: on a tile, or without one of the whole.  Every other rank computes dw behind a
 * barrier: that sends nothing. */
static void local_run(const struct local_case *c, const lk_tiling *tiling, const lk_tile *tile,
                      struct arrays *a)
{
    lk_tape *tape;
    lk_tensor *seed;
    lk_var x, w, y;
    struct side from = side_x(c), to = side_y(c);
    lk_box in = tile ? tile->x.box : lk_box_whole(c->ndim, from.n);
    lk_box out = tile ? tile->y.box : lk_box_whole(c->ndim, to.n);
    lk_box all = lk_box_whole(c->ndim, c->out);
    int64_t count;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, 2));
    lk_shape shape = shape_of(c, &in, from.channels);
    if (c->given)
        ASSERT_OK(lk_constant_data(tape, c->dtype, shape, a->x, &x));
    else
        ASSERT_OK(lk_leaf_data(tape, c->dtype, shape, a->x, a->dx, &x));
    ASSERT_OK(lk_leaf_data(tape, c->dtype, weights_of(c, tile ? own_filters(c, tile) : &all), a->w,
                           a->dw, &w));
    if (tile && tiling->rank % 2)
        ASSERT_OK(lk_leaf_postpone(w));
    ASSERT_OK(lk_tensor_wrap(c->dtype, shape_of(c, &out, to.channels), a->dy, NULL, NULL, &seed));
    if (tile && c->back)
        ASSERT_OK(lk_dist_tile_local_conv_transpose(tile, x, w, "local", &y));
    else if (tile)
        ASSERT_OK(lk_dist_tile_local_conv(tile, x, w, "local", &y));
    else
        ASSERT_OK(c->back ? lk_local_conv_transpose(x, w, &c->attr, &y)
                          : lk_local_conv(x, w, &c->attr, &y));
    ASSERT_OK(lk_shape_count(lk_shape_of(y), &count));
    ASSERT_OK(lk_read(y, c->dtype, count, a->y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
    if (tile && tiling->comm)
        ASSERT_OK(lk_barrier(tiling->comm, "backward"));
    ASSERT_OK(lk_backward_rest(tape));
    lk_tensor_free(seed);
    lk_tape_free(tape);
}

/* What a rank has of the values of a case; stream 1 of the weights is of the first step. */
static void arrays_fill(const struct local_case *c, const lk_tile *tile, int step, struct arrays *a)
{
    struct side from = side_x(c), to = side_y(c);
    lk_box in = lk_box_whole(c->ndim, from.n), out = lk_box_whole(c->ndim, to.n),
           all = lk_box_whole(c->ndim, c->out);
    const lk_box *x = tile ? &tile->x.box : &in, *y = tile ? &tile->y.box : &out;
    int64_t filter = c->channels * c->filters;
    for (int d = 0; d < c->ndim; d++)
        filter *= c->attr.window.kernel[d];
    memset(a, 0, sizeof *a);
    box_fill(c, 0, c->samples, from.n, x, tile ? &tile->x.tile : &in, from.channels, a->x);
    box_fill(c, 9, c->samples, to.n, y, tile ? &tile->y.tile : &out, to.channels, a->dy);
    const lk_box *own = tile ? own_filters(c, tile) : &all;
    box_fill(c, 1 + step, 1, c->out, own, own, filter, a->w);
}

/* The tile of a case; `wide`: among layers that hold more of y. */
static lk_tile *tile_of(const struct local_case *c, const lk_tiling *tiling, bool wide)
{
    lk_tile_spec layers[2] = {{.kind = c->back ? LK_TILE_LOCAL_CONV_TRANSPOSE : LK_TILE_LOCAL_CONV,
                               .window = c->attr.window},
                              {.kind = LK_TILE_CONV, .window = {.ndim = c->ndim}}};
    lk_tile *tile;
    for (int d = 0; d < c->ndim; d++) {
        layers[0].in[d] = side_x(c).n[d];
        layers[0].out[d] = layers[1].in[d] = layers[1].out[d] = side_y(c).n[d];
        layers[1].window.kernel[d] = 7;
        layers[1].window.pad_lo[d] = layers[1].window.pad_hi[d] = 3;
    }
    if (wide)
        ASSERT_OK(lk_tiling_hold(tiling, layers, 2));
    ASSERT_OK(lk_tile_new(tiling, &layers[0], &tile));
    return tile;
}

/* Two steps, for weights that have changed must be fetched again. */
static void case_check(const struct local_case *c, const lk_tiling *tiling, bool wide,
                       struct arrays *own, struct arrays *all)
{
    lk_tile *tile = tile_of(c, tiling, wide);
    struct side from = side_x(c), to = side_y(c);
    const lk_box *filters = own_filters(c, tile);
    int64_t filter = c->channels * c->filters;
    for (int d = 0; d < c->ndim; d++)
        filter *= c->attr.window.kernel[d];
    for (int step = 0; step < 2; step++) {
        lk_tile_weights_changed(tile);
        for (int pass = 0; pass < 2; pass++) { /* the second fetches nothing of them */
            arrays_fill(c, tile, step, own);
            local_run(c, tiling, tile, own);
        }
        arrays_fill(c, NULL, step, all);
        local_run(c, tiling, NULL, all);
        expect_tile(c, c->samples, to.n, &tile->y.box, &tile->y.tile, to.channels, own->y, all->y);
        expect_tile(c, c->samples, from.n, &tile->x.box, &tile->x.tile, from.channels, own->dx,
                    all->dx);
        expect_tile(c, 1, c->out, filters, filters, filter, own->dw, all->dw);
    }
    lk_tile_free(tile);
}

static void check_grid(lk_comm *comm, int ndim, const int *dim, bool back)
{
    lk_grid grid;
    struct arrays *own = malloc(sizeof *own), *all = malloc(sizeof *all);
    ASSERT_TRUE(own && all);
    ASSERT_OK(lk_grid_make(comm, ndim, dim, NULL, &grid));
    uint64_t cases = test_whole() ? 10 * CASES : ranks_brief() ? CASES / 4 : CASES;
    for (uint64_t seed = 0; seed < cases; seed++) {
        struct local_case c = case_of(seed, dim, ndim, back);
        lk_tiling *tiling;
        ASSERT_OK(lk_tiling_new(comm, &grid, c.tiles, 0, &tiling));
        case_check(&c, tiling, seed % 2, own, all);
        lk_tiling_free(tiling);
    }
    free(own);
    free(all);
}

static void check_grids(lk_comm *comm, bool back)
{
    int n = lk_comm_size(comm), rows = n % 2 == 0 ? 2 : 1;
    check_grid(comm, 1, (int[]){n}, back);
    check_grid(comm, 2, (int[]){rows, n / rows}, back);
    check_grid(comm, 3, (int[]){1, n / rows, rows}, back);
}

RANKS_TEST(tiles_have_the_bits_of_the_whole)
{
    check_grids(comm, false);
}

RANKS_TEST(tiles_of_the_transpose_have_the_bits_of_the_whole)
{
    check_grids(comm, true);
}

/* Ranks that are not the first of their communicator's world. */
RANKS_TEST(a_part_of_the_ranks_has_them_too)
{
    lk_comm *half = NULL;
    int n = lk_comm_size(comm), rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank < n / 2, -rank, &half));
    check_grid(half, 1, (int[]){lk_comm_size(half)}, false);
    check_grid(half, 1, (int[]){lk_comm_size(half)}, true);
    lk_comm_close(half);
}

RANKS_TEST(what_does_not_fit_is_refused)
{
    int n = lk_comm_size(comm);
    lk_grid grid;
    lk_tiling *tiling;
    lk_tile *tile;
    lk_tape *tape;
    lk_var x, w, y;
    ASSERT_OK(lk_grid_make(comm, 1, (int[]){n}, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, (int64_t[]){n}, 0, &tiling));
    lk_tile_spec spec = {.kind = LK_TILE_CONV,
                         .window = {.ndim = 1, .kernel = {1}},
                         .in = {(int64_t)2 * n},
                         .out = {(int64_t)2 * n}};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(1, 2, 1), 1, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(3, 1, 1, 1), 1, &w));
    ASSERT_OK(lk_tile_new(tiling, &spec, &tile));
    ASSERT_FAILS(lk_dist_tile_local_conv(tile, x, w, "w", &y), LK_EINVAL,
                 "not of a local convolution");
    lk_tile_weights_changed(tile);
    lk_tile_free(tile);
    spec.kind = LK_TILE_LOCAL_CONV;
    ASSERT_OK(lk_tile_new(tiling, &spec, &tile));
    ASSERT_FAILS(lk_dist_tile_local_conv(NULL, x, w, "w", &y), LK_EINVAL, "tile is NULL");
    ASSERT_FAILS(lk_dist_tile_local_conv(tile, x, w, "w", &y), LK_ESHAPE,
                 "of the positions of this rank's tile they must be [2,1,1,1]");
    ASSERT_FAILS(lk_dist_tile_local_conv_transpose(tile, x, w, "w", &y), LK_EINVAL,
                 "not of the transpose of a local convolution");
    lk_tile_free(tile);
    spec.kind = LK_TILE_LOCAL_CONV_TRANSPOSE;
    ASSERT_OK(lk_tile_new(tiling, &spec, &tile));
    ASSERT_FAILS(lk_dist_tile_local_conv_transpose(tile, x, LK_NO_VAR, "w", NULL), LK_EINVAL,
                 "out is NULL");
    ASSERT_FAILS(lk_dist_tile_local_conv_transpose(tile, x, w, "w", &y), LK_ESHAPE,
                 "of the positions of this rank's tile they must be [2,1,1,1]");
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
}
