/* Pools on tiles: random shapes against the pool of the whole sample, by bits, in 1 to 3 dimensions.
 *
 * Every rank makes the whole sample and pools it alone, then takes its box of it, with other numbers in
 * the margin.  Windows overlap or leave gaps, reach into the padding and beyond it, and over several tiles;
 * tiles are uneven, and some are empty; the largest is found among ties, zeros of both signs and NaN.
 */
#include "pool_cases.h"

#include <lockstep/coll.h>

/* ---- running it ---- */

static lk_shape shape_of(const struct pool_case *c, const lk_box *box)
{
    lk_shape s = {.ndim = box->ndim + 2, .dim = {c->samples}};
    for (int d = 0; d < box->ndim; d++)
        s.dim[d + 1] = box->n[d];
    s.dim[box->ndim + 1] = c->channels;
    return s;
}

static void pool_plain(const struct pool_case *c, lk_var x, lk_var *y)
{
    if (c->kind == LK_POOL_AVG)
        ASSERT_OK(lk_avg_pool(x, &c->attr, y));
    else if (c->kind == LK_POOL_L2)
        ASSERT_OK(lk_l2_pool(x, &c->attr, y));
    else if (c->relu)
        ASSERT_OK(lk_relu_max_pool(x, &c->attr, y));
    else
        ASSERT_OK(lk_max_pool(x, &c->attr, y, NULL));
}

/* y and dx of x and dy: on a tile, or without one of the whole. */
static void pool_run(const struct pool_case *c, const lk_tile *tile, const lk_box *x_box, void *x,
                     const lk_box *y_box, void *dy, void *y, void *dx)
{
    lk_tape *tape;
    lk_tensor *seed;
    lk_var vx, vy;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, c->dtype, shape_of(c, x_box), x, dx, &vx));
    ASSERT_OK(lk_tensor_wrap(c->dtype, shape_of(c, y_box), dy, NULL, NULL, &seed));
    /* Every other one leaves the window to the tile. */
    const lk_pool_attr *attr = c->attr.count_padding || c->samples % 2 ? &c->attr : NULL;
    if (tile)
        ASSERT_OK(lk_dist_tile_pool(tile, c->kind, vx, attr, c->relu, "pool", &vy));
    else
        pool_plain(c, vx, &vy);
    ASSERT_OK(lk_read(vy, c->dtype, elements(c, y_box), y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){vy, seed}, 1, 0));
    lk_tensor_free(seed);
    lk_tape_free(tape);
}

/* The tile of a pool; where it is wide, of one among layers that hold more. */
static lk_tile *tile_new(const struct pool_case *c, const lk_tiling *tiling)
{
    lk_tile_spec layers[3] = {{.kind = LK_TILE_POOL, .window = c->attr.window}};
    lk_tile *tile;
    for (int d = 0; d < c->ndim; d++) {
        layers[0].in[d] = c->in[d];
        layers[0].out[d] = c->out[d];
        if (c->bounds && d < c->grid_ndim) {
            layers[0].in_bounds.axis[d] = c->in_bounds[d];
            layers[0].out_bounds.axis[d] = c->out_bounds[d];
        }
    }
    for (int i = 1; i < 3; i++) { /* convolutions of 5 around x and y that keep the size */
        layers[i] = layers[0];
        layers[i].kind = LK_TILE_CONV;
        layers[i].window = (lk_window){.ndim = c->ndim};
        memcpy(layers[i].in, i == 1 ? c->in : c->out, sizeof c->in);
        memcpy(layers[i].out, layers[i].in, sizeof c->in);
        layers[i].in_bounds = layers[i].out_bounds = i == 1 ? layers[0].in_bounds
                                                            : layers[0].out_bounds;
        for (int d = 0; d < c->ndim; d++) {
            layers[i].window.kernel[d] = 5;
            layers[i].window.pad_lo[d] = layers[i].window.pad_hi[d] = 2;
        }
    }
    if (c->wide)
        ASSERT_OK(lk_tiling_hold(tiling, layers, 3));
    ASSERT_OK(lk_tile_new(tiling, &layers[0], &tile));
    return tile;
}

static lk_tiling *tiling_new(const struct pool_case *c, lk_comm *comm)
{
    lk_grid grid;
    lk_tiling *tiling;
    ASSERT_OK(lk_grid_make(comm, c->grid_ndim, c->grid_dim, (const bool[AXES]){false}, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, c->tiles, c->step, &tiling));
    return tiling;
}

static void case_check(struct pool_case *c, lk_comm *comm)
{
    lk_tiling *tiling = tiling_new(c, comm);
    lk_tile *tile = tile_new(c, tiling);
    lk_box in = lk_box_whole(c->ndim, c->in), out = lk_box_whole(c->ndim, c->out);
    const lk_box *x_box = &tile->x.box, *y_box = &tile->y.box;
    size_t size = lk_dtype_size(c->dtype);
    void *x = array_drawn(c, &in, x_value), *dy = array_drawn(c, &out, dy_value);
    void *y = array_new(c, &out), *dx = array_new(c, &in);
    void *x_held = held_new(c, &tile->x, x, &in), *dy_held = held_new(c, &tile->y, dy, &out);
    void *got_y = array_new(c, y_box), *want_y = array_new(c, y_box);
    void *got_dx = array_new(c, x_box), *want_dx = array_new(c, x_box);
    pool_run(c, NULL, &in, x, &out, dy, y, dx);
    pool_run(c, tile, x_box, x_held, y_box, dy_held, got_y, got_dx);
    part_copy(c, &tile->y_makes, y, &out, want_y, y_box);
    part_copy(c, &tile->x.tile, dx, &in, want_dx, x_box);
    ASSERT_SAME_BITS(got_y, want_y, (size_t)elements(c, y_box) * size);
    ASSERT_SAME_BITS(got_dx, want_dx, (size_t)elements(c, x_box) * size);
    void *all[] = {x, dy, y, dx, x_held, dy_held, got_y, want_y, got_dx, want_dx};
    for (int i = 0; i < LK_COUNT(all); i++)
        free(all[i]);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
}

RANKS_TEST(pools_on_tiles_are_those_of_the_whole)
{
    int64_t cases = test_whole() ? 300 : ranks_brief() ? 12 : 30;
    for (int64_t i = 0; i < cases; i++) {
        struct pool_case c = case_draw(lk_comm_size(comm), i);
        case_check(&c, comm);
    }
}

RANKS_TEST(groups_of_ranks_have_their_own_tiles)
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    for (int64_t i = 1000; i < 1006; i++) {
        struct pool_case c = case_draw(lk_comm_size(half), i);
        case_check(&c, half);
    }
    lk_comm_close(half);
}

/* ---- what is sent ---- */

static struct pool_case case_plain(lk_pool_kind kind, int size, int64_t n, int64_t kernel)
{
    struct pool_case c = {.ndim = 2, .kind = kind, .dtype = LK_F64, .samples = 2, .channels = 3};
    c.grid_ndim = 2;
    c.grid_dim[0] = size % 2 == 0 ? size / 2 : size;
    c.grid_dim[1] = size / c.grid_dim[0];
    c.attr.window.ndim = 2;
    for (int d = 0; d < 2; d++) {
        c.tiles[d] = c.grid_dim[d];
        c.in[d] = n;
        c.attr.window.kernel[d] = kernel;
        c.attr.window.stride[d] = 2;
        c.attr.window.pad_lo[d] = c.attr.window.pad_hi[d] = kernel / 2 - (kernel + 1) % 2;
        c.out[d] = (n + 2 * c.attr.window.pad_lo[d] - kernel) / 2 + 1;
    }
    return c;
}

RANKS_TEST(aligned_pools_send_nothing)
{
    int size = lk_comm_size(comm);
    for (int kind = LK_POOL_MAX; kind <= LK_POOL_L2; kind++) {
        struct pool_case c = case_plain((lk_pool_kind)kind, size, INT64_C(4) * size, 2);
        lk_tiling *tiling = tiling_new(&c, comm);
        lk_tile *tile = tile_new(&c, tiling);
        ASSERT_TRUE(!tile->get_x && !tile->get_dy);
        ASSERT_TRUE(lk_box_is_equal(&tile->y_makes, &tile->y.tile));
        ASSERT_TRUE(lk_box_is_equal(&tile->x.box, &tile->x.tile));
        lk_tile_free(tile);
        lk_tiling_free(tiling);
        case_check(&c, comm);
    }
}

/* ---- against differences ---- */

/* The loss of all ranks: y of the tiles times dy. */
static double loss(const struct pool_case *c, const lk_tile *tile, lk_comm *comm, void *x,
                   const double *dy, double *dx)
{
    int64_t n = elements(c, &tile->y.box);
    double *y = array_new(c, &tile->y.box), *weight = array_new(c, &tile->y.box), sum = 0, all;
    double *seed = array_new(c, &tile->y.box);
    part_copy(c, &tile->y.tile, dy, &tile->y.box, weight, &tile->y.box);
    memcpy(seed, weight, (size_t)n * sizeof *seed);
    pool_run(c, tile, &tile->x.box, x, &tile->y.box, seed, y, dx);
    for (int64_t i = 0; i < n; i++)
        sum += y[i] * weight[i];
    ASSERT_OK(lk_allreduce(comm, &sum, &all, 1, LK_F64, LK_REDUCE_SUM, "loss"));
    free(y);
    free(weight);
    free(seed);
    return all;
}

static double apart_value(struct pool_case *c)
{
    return (double)pick(c, 1, 1 << 30) / (1 << 20);
}

/* Position i of the whole changes by `by` on the rank that has it; returns where it is there, or -1. */
static int64_t change(const struct pool_case *c, const lk_held *held, int64_t i, double by,
                      double *x)
{
    int64_t left = i / c->channels, at[AXES] = {0};
    for (int d = c->ndim - 1; d >= 0; d--) {
        at[d] = left % c->in[d];
        left /= c->in[d];
        if (at[d] < held->tile.first[d] || at[d] >= held->tile.first[d] + held->tile.n[d])
            return -1;
    }
    int64_t place = place_in(&held->box, left, at) * c->channels + i % c->channels;
    x[place] += by;
    return place;
}

RANKS_TEST(gradients_are_those_of_differences)
{
    const double h = 0x1p-12;
    for (int kind = LK_POOL_MAX; kind <= LK_POOL_L2; kind++) {
        struct pool_case c = case_plain((lk_pool_kind)kind, lk_comm_size(comm), 9, 3);
        lk_tiling *tiling = tiling_new(&c, comm);
        lk_tile *tile = tile_new(&c, tiling);
        lk_box in = lk_box_whole(c.ndim, c.in), out = lk_box_whole(c.ndim, c.out);
        double *whole = array_drawn(&c, &in, apart_value);
        double *dy_whole = array_drawn(&c, &out, dy_value);
        double *x = held_new(&c, &tile->x, whole, &in), *dx = array_new(&c, &tile->x.box);
        double *dy = held_new(&c, &tile->y, dy_whole, &out), *none = array_new(&c, &tile->x.box);
        (void)loss(&c, tile, comm, x, dy, dx);
        for (int64_t i = 0; i < elements(&c, &in); i += 17) {
            (void)change(&c, &tile->x, i, h, x);
            double high = loss(&c, tile, comm, x, dy, none);
            (void)change(&c, &tile->x, i, -2 * h, x);
            double low = loss(&c, tile, comm, x, dy, none);
            int64_t place = change(&c, &tile->x, i, h, x);
            if (place >= 0)
                ASSERT_NEAR(dx[place], (high - low) / (2 * h), 1e-4 * (1 + fabs(dx[place])));
        }
        double *all[] = {whole, dy_whole, x, dx, dy, none};
        for (int i = 0; i < LK_COUNT(all); i++)
            free(all[i]);
        lk_tile_free(tile);
        lk_tiling_free(tiling);
    }
}

/* ---- misuse ---- */

RANKS_TEST(misuse_is_refused)
{
    struct pool_case c = case_plain(LK_POOL_AVG, lk_comm_size(comm), 9, 3);
    lk_tiling *tiling = tiling_new(&c, comm);
    lk_tile *tile = tile_new(&c, tiling);
    lk_pool_attr other = c.attr;
    lk_tape *tape;
    lk_var x, wrong, y;
    other.window.stride[1] = 3;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, shape_of(&c, &tile->x.box), 1, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 100, 100, 3), 1, &wrong));
    ASSERT_FAILS(lk_dist_tile_pool(NULL, LK_POOL_AVG, x, &c.attr, false, "", &y), LK_EINVAL,
                 "tile is NULL");
    ASSERT_FAILS(lk_dist_tile_pool(tile, LK_POOL_AVG, x, NULL, false, "", NULL), LK_EINVAL,
                 "out is NULL");
    ASSERT_FAILS(lk_dist_tile_pool(tile, LK_POOL_AVG, x, &c.attr, true, "", &y), LK_EINVAL,
                 "only the largest");
    ASSERT_FAILS(
        lk_dist_tile_pool(tile, LK_POOL_AVG, x, &other, false, "", &y), LK_EINVAL,
        "axis 1 has kernel 3, stride 3 and padding 1, but the tile was made for 3, 2 and 1");
    ASSERT_FAILS(lk_dist_tile_pool(tile, LK_POOL_AVG, wrong, &c.attr, false, "", &y), LK_ESHAPE,
                 "x is [2,100,100,3], where this rank holds");
    tile->kind = LK_TILE_CONV;
    ASSERT_FAILS(lk_dist_tile_pool(tile, LK_POOL_AVG, x, &c.attr, false, "", &y), LK_EINVAL,
                 "not made for a pool");
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
}
