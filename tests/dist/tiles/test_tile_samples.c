/* Between tiles and whole samples: both calls against the formula of the values, by bits; there and back;
 * each as the gradient of the other; and the bytes that are sent.  Tilings are random, of 1 to 3 axes, with
 * uneven and empty tiles, ranks without samples, and groups that do not begin at rank 0.
 */
#include "tilings.h"

enum { CASES = 40, FEW = 12 };

/* One case on this rank. */
typedef struct sides {
    tiling_case tiling;
    lk_tile *tile;
    lk_dtype dtype;
    int64_t first[65]; /* [ranks + 1] */
    int64_t samples, channels, bytes;
    lk_box whole;
    lk_tape *tape;
    lk_tensor *tiles, *own; /* by the formula; the margin has something else */
} sides;

/* Who owns which of the samples: some ranks nothing. */
static void samples_deal(sides *s, tiling_draws *d, int size)
{
    s->samples = draw(d, 0, 5);
    for (int r = 0; r < size; r++) {
        int64_t left = s->samples - s->first[r];
        s->first[r + 1] = s->first[r] + draw(d, 0, left < 3 ? left : 3);
    }
    s->first[size] = s->samples;
}

static lk_tensor *value_new(const sides *s, int64_t samples, const lk_box *box)
{
    lk_tensor *t;
    lk_shape shape = {.ndim = box->ndim + 2, .dim = {samples}};
    memcpy(&shape.dim[1], box->n, (size_t)box->ndim * sizeof box->n[0]);
    shape.dim[box->ndim + 1] = s->channels;
    ASSERT_OK(lk_tensor_new(s->dtype, shape, &t));
    return t;
}

static void value_fill(const sides *s, lk_tensor *t, lk_range samples, const lk_box *box,
                       const lk_box *inside, double other)
{
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    tiled_fill(s->dtype, data, samples, box, s->channels, inside, other);
}

/* A value that has a margin where `wide`, as that of a convolution has. */
static lk_tile_spec spec_of(sides *s, tiling_draws *d, bool wide)
{
    lk_tile_spec spec = {.kind = LK_TILE_POINTWISE};
    int least = s->tiling.tiling->ndim;
    spec.window.ndim = (int)draw(d, least, LK_TILE_AXES);
    for (int k = 0; k < spec.window.ndim; k++) {
        spec.window.kernel[k] = draw(d, 1, 5);
        spec.window.pad_lo[k] = draw(d, 0, 2);
        spec.in[k] = spec.out[k] = draw(d, 0, 19) == 0 ? 0 : draw(d, 1, 9);
    }
    if (draw(d, 0, 2) == 0)
        spec.in_bounds = spec.out_bounds = tiling_bounds(&s->tiling, d, 0, spec.in);
    lk_tile_spec layers[2] = {spec, spec};
    layers[1].kind = LK_TILE_CONV;
    ASSERT_OK(lk_tiling_hold(s->tiling.tiling, layers, wide ? 2 : 1));
    return layers[0];
}

static void sides_begin(sides *s, lk_comm *comm, int64_t number)
{
    static const lk_dtype dtypes[] = {LK_F32, LK_F64, LK_I64, LK_U8};
    tiling_draws d = draws_of(number);
    memset(s, 0, sizeof *s);
    tiling_begin(&s->tiling, comm, &d);
    lk_tile_spec spec = spec_of(s, &d, draw(&d, 0, 2) > 0);
    ASSERT_OK(lk_tile_new(s->tiling.tiling, &spec, &s->tile));
    memset(s->tiling.cut, 0xff, sizeof s->tiling.cut); /* the tile has its own */
    s->dtype = dtypes[number % 4 == 3 ? draw(&d, 0, 1) : number % 4];
    s->channels = draw(&d, 0, 9) == 0 ? 0 : draw(&d, 1, 3);
    s->bytes = s->channels * (int64_t)lk_dtype_size(s->dtype);
    samples_deal(s, &d, s->tiling.tiling->size);
    s->whole = lk_box_whole(spec.window.ndim, spec.in);
    int rank = s->tiling.tiling->rank;
    lk_range all = {0, s->samples}, own = {s->first[rank], s->first[rank + 1] - s->first[rank]};
    s->tiles = value_new(s, s->samples, &s->tile->x.box);
    s->own = value_new(s, own.n, &s->whole);
    value_fill(s, s->tiles, all, &s->tile->x.box, &s->tile->x.tile, 77);
    value_fill(s, s->own, own, &s->whole, &s->whole, 0);
    ASSERT_OK(lk_tape_new(&s->tape));
}

static void sides_end(sides *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->tiles);
    lk_tensor_free(s->own);
    lk_tile_free(s->tile);
    tiling_end(&s->tiling);
}

/* The tiles' array as it comes back: with a clear margin. */
static lk_tensor *tiles_cleared(const sides *s)
{
    lk_tensor *t = value_new(s, s->samples, &s->tile->x.box);
    value_fill(s, t, (lk_range){0, s->samples}, &s->tile->x.box, &s->tile->x.tile, 0);
    return t;
}

static void assert_tensor(const lk_tensor *got, const lk_tensor *want)
{
    size_t bytes = (size_t)lk_tensor_count(want) * lk_dtype_size(lk_tensor_dtype(want));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got), lk_tensor_shape(want)));
    ASSERT_EQ(lk_tensor_dtype(got), lk_tensor_dtype(want));
    if (bytes > 0)
        ASSERT_SAME_BITS(lk_tensor_data(got), lk_tensor_data(want), bytes);
}

static const lk_tensor *value(lk_var v)
{
    const lk_tensor *t;
    ASSERT_OK(lk_value(v, &t));
    return t;
}

/* ---- values ---- */

static void values_of(lk_comm *comm, int64_t number)
{
    sides s;
    lk_var x, y, back;
    sides_begin(&s, comm, number);
    lk_tensor *want = tiles_cleared(&s);
    ASSERT_OK(lk_constant(s.tape, s.tiles, &x));
    ASSERT_OK(lk_dist_tiles_to_samples(s.tile, x, s.first, "leave", &y));
    assert_tensor(value(y), s.own);
    ASSERT_OK(lk_dist_samples_to_tiles(s.tile, y, s.first, "return", &back));
    assert_tensor(value(back), want);
    lk_tensor_free(want);
    sides_end(&s);
}

RANKS_TEST(samples_are_whole_and_come_back)
{
    tiling_cases(comm, ranks_brief() ? FEW : CASES, values_of);
}

/* One rank has whole samples already. */
RANKS_TEST(one_rank_copies_nothing)
{
    lk_comm *own;
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &own));
    for (int64_t i = 0; i < FEW; i++) {
        sides s;
        lk_var x, y, back;
        sides_begin(&s, own, i);
        ASSERT_OK(lk_constant(s.tape, s.tiles, &x));
        ASSERT_OK(lk_dist_tiles_to_samples(s.tile, x, s.first, "leave", &y));
        ASSERT_OK(lk_dist_samples_to_tiles(s.tile, y, s.first, "return", &back));
        ASSERT_TRUE(lk_tensor_data(value(y)) == lk_tensor_data(value(x)));
        ASSERT_TRUE(lk_tensor_data(value(back)) == lk_tensor_data(value(x)));
        sides_end(&s);
    }
    lk_comm_close(own);
}

/* ---- gradients ---- */

/* The gradient of each call, with a seed, is what the other makes of the seed; also where it is written to
 * the tape, and then its own gradient is the call again. */
static void gradients_of(lk_comm *comm, int64_t number)
{
    sides s;
    lk_var x, z, y, back, dx, dz, again, gy, gback;
    sides_begin(&s, comm, number);
    if (!lk_dtype_is_real(s.dtype)) {
        sides_end(&s);
        return;
    }
    lk_tensor *cleared = tiles_cleared(&s);
    ASSERT_OK(lk_leaf(s.tape, s.tiles, NULL, &x));
    ASSERT_OK(lk_leaf(s.tape, s.own, NULL, &z));
    ASSERT_OK(lk_dist_tiles_to_samples(s.tile, x, s.first, "leave", &y));
    ASSERT_OK(lk_dist_samples_to_tiles(s.tile, z, s.first, "return", &back));
    ASSERT_OK(lk_grad(s.tape, &y, &z, 1, &x, 1, LK_RECORD, &dx));
    assert_tensor(value(dx), cleared);
    ASSERT_OK(lk_grad(s.tape, &back, &x, 1, &z, 1, LK_RECORD, &dz));
    assert_tensor(value(dz), s.own);
    /* dx is linear in the seed z, dz in the seed x. */
    ASSERT_OK(lk_constant(s.tape, s.tiles, &gy));
    ASSERT_OK(lk_grad(s.tape, &dx, &gy, 1, &z, 1, LK_RETAIN_GRAPH, &again));
    assert_tensor(value(again), s.own);
    ASSERT_OK(lk_constant(s.tape, s.own, &gback));
    ASSERT_OK(lk_grad(s.tape, &dz, &gback, 1, &x, 1, LK_RETAIN_GRAPH, &again));
    assert_tensor(value(again), cleared);
    lk_tensor_free(cleared);
    sides_end(&s);
}

RANKS_TEST(each_is_the_gradient_of_the_other)
{
    tiling_cases(comm, ranks_brief() ? FEW : CASES, gradients_of);
}

/* The sum over ranks of <to_samples(x), y> is that of <x, to_tiles(y)>, in integers, of values that differ on
 * every rank. */
static void identity_of(lk_comm *comm, int64_t number)
{
    sides s;
    lk_var x, z, y, back;
    double side[2] = {0, 0};
    sides_begin(&s, comm, number);
    if (s.dtype != LK_F64) {
        sides_end(&s);
        return;
    }
    for (int k = 0; k < 2; k++) {
        void *data;
        lk_tensor *t = k == 0 ? s.tiles : s.own;
        ASSERT_OK(lk_tensor_writable_data(t, &data));
        for (int64_t i = 0; i < lk_tensor_count(t); i++)
            ((double *)data)[i] = cut_integer(s.tiling.tiling->rank, i, (uint32_t)k);
    }
    ASSERT_OK(lk_constant(s.tape, s.tiles, &x));
    ASSERT_OK(lk_constant(s.tape, s.own, &z));
    ASSERT_OK(lk_dist_tiles_to_samples(s.tile, x, s.first, "leave", &y));
    ASSERT_OK(lk_dist_samples_to_tiles(s.tile, z, s.first, "return", &back));
    const lk_var pair[2][2] = {{y, z}, {x, back}};
    for (int k = 0; k < 2; k++) {
        const double *a = lk_tensor_data(value(pair[k][0])), *b = lk_tensor_data(value(pair[k][1]));
        for (int64_t i = 0; i < lk_tensor_count(value(pair[k][0])); i++)
            side[k] += a[i] * b[i];
    }
    ASSERT_OK(lk_allreduce(comm, NULL, side, 2, LK_F64, LK_REDUCE_SUM, "sides"));
    ASSERT_SAME_BITS(&side[0], &side[1], sizeof side[0]);
    sides_end(&s);
}

RANKS_TEST(both_sides_of_the_identity_are_equal)
{
    tiling_cases(comm, CASES, identity_of);
}

/* ---- what is sent ---- */

/* To each other rank its samples of this rank's tile; and back to each its tile of this rank's samples. */
static void bytes_of(lk_comm *comm, int64_t number)
{
    sides s;
    lk_var x, y, back;
    sides_begin(&s, comm, number);
    const lk_tiling *t = s.tiling.tiling;
    int64_t own = s.first[t->rank + 1] - s.first[t->rank];
    int64_t tile = lk_box_count(&s.tile->x.tile), all = lk_box_count(&s.whole);
    ASSERT_OK(lk_constant(s.tape, s.tiles, &x));
    bytes_begin(comm);
    ASSERT_OK(lk_dist_tiles_to_samples(s.tile, x, s.first, "leave", &y));
    ASSERT_EQ(bytes_end(comm).all, (s.samples - own) * tile * s.bytes);
    bytes_begin(comm);
    ASSERT_OK(lk_dist_samples_to_tiles(s.tile, y, s.first, "return", &back));
    ASSERT_EQ(bytes_end(comm).all, own * (all - tile) * s.bytes);
    sides_end(&s);
}

RANKS_TEST(each_element_is_sent_once_to_who_gets_it)
{
    tiling_cases(comm, ranks_brief() ? FEW : CASES, bytes_of);
}

/* ---- misuse ---- */

RANKS_TEST(what_does_not_fit_is_refused)
{
    const int dim[] = {1};
    const int64_t tiles[] = {3};
    lk_comm *own;
    lk_grid grid;
    lk_tiling *t;
    lk_tile *tile;
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &own));
    ASSERT_OK(lk_grid_make(own, 1, dim, NULL, &grid));
    ASSERT_OK(lk_tiling_new(own, &grid, tiles, 0, &t));
    ASSERT_OK(lk_tile_new(t, &(lk_tile_spec){.window.ndim = 1, .in = {7}, .out = {7}}, &tile));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(4, 7, 2), 1, &x));
    const int64_t good[] = {0, 4}, begins[] = {1, 4}, falls[] = {0, -1}, few[] = {0, 3};
    ASSERT_FAILS(lk_dist_tiles_to_samples(NULL, x, good, "x", &y), LK_EINVAL, "tile is NULL");
    ASSERT_FAILS(lk_dist_tiles_to_samples(tile, x, NULL, "x", &y), LK_EINVAL, "samples is NULL");
    ASSERT_FAILS(lk_dist_samples_to_tiles(tile, x, good, "x", NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_dist_tiles_to_samples(tile, LK_NO_VAR, good, "x", &y), LK_EINVAL,
                 "tiles_to_samples of LK_NO_VAR");
    ASSERT_FAILS(lk_dist_tiles_to_samples(tile, x, begins, "x", &y), LK_EINVAL, "ascending from 0");
    ASSERT_FAILS(lk_dist_samples_to_tiles(tile, x, falls, "x", &y), LK_EINVAL, "ascending from 0");
    ASSERT_FAILS(lk_dist_tiles_to_samples(tile, x, few, "x", &y), LK_ESHAPE,
                 "x is [4,7,2], where this rank has 3 samples");
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(4, 6, 2), 1, &x));
    ASSERT_FAILS(lk_dist_samples_to_tiles(tile, x, good, "x", &y), LK_ESHAPE,
                 "samples_to_tiles: x is [4,6,2], where this rank holds positions [7]");
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(t);
    /* A tiling to look at sends nothing. */
    grid.dim[0] = 2;
    ASSERT_OK(lk_tiling_new(NULL, &grid, tiles, 0, &t));
    ASSERT_OK(lk_tile_new(t, &(lk_tile_spec){.window.ndim = 1, .in = {7}, .out = {7}}, &tile));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(4, 5, 2), 1, &x));
    ASSERT_FAILS(lk_dist_tiles_to_samples(tile, x, good, "x", &y), LK_ESTATE, "no communicator");
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(t);
    lk_comm_close(own);
}
