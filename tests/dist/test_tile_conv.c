/* Convolutions and transposed ones on tiles: y, dx, dw and db of ranks against those of one rank that has
 * all tiles, y and dx also against the op on the whole sample, all by bits; and gradients against
 * differences.
 */
#include "tile_convs.h"
#include "tile_cuts.h"

#include <lockstep/coll.h>
#include <lockstep/extra/conv.h>

/* ---- what must be equal ---- */

static void assert_part(const struct conv_case *k, const void *a, const void *b,
                        const lk_box *whole, const lk_box *tile, int64_t channels)
{
    int64_t bytes = channels * (int64_t)lk_dtype_size(k->dtype);
    int64_t n = k->batch * lk_box_count(tile) * channels;
    void *p = conv_array(k->dtype, n), *q = conv_array(k->dtype, n);
    lk__tile_pack(a, whole, tile, k->batch, bytes, p);
    lk__tile_pack(b, whole, tile, k->batch, bytes, q);
    ASSERT_SAME_BITS(p, q, (size_t)n * lk_dtype_size(k->dtype));
    free(p);
    free(q);
}

/* What this rank has of `got` is that of `want`. */
static void assert_result(const struct conv_case *k, const struct conv_result *got,
                          const struct conv_result *want)
{
    size_t w = (size_t)conv_weights_count(k) * lk_dtype_size(k->dtype);
    size_t b = (size_t)k->y_channels * lk_dtype_size(k->dtype);
    assert_part(k, got->y, want->y, &got->y_whole, &got->y_tile, k->y_channels);
    assert_part(k, got->dx, want->dx, &got->x_whole, &got->x_tile, k->x_channels);
    for (size_t i = 0; i < CONV_TILES * CONV_TILES; i++)
        if (got->has[i]) {
            ASSERT_SAME_BITS((char *)got->dw + i * w, (char *)want->dw + i * w, w);
            ASSERT_SAME_BITS((char *)got->db + i * b, (char *)want->db + i * b, b);
        }
}

/* The op on the whole sample. */
static struct conv_result conv_serially(const struct conv_case *k, const struct conv_whole *v)
{
    struct conv_result r = {.y = conv_array(k->dtype, conv_count(k, true))};
    lk_shape shape[2];
    lk_tape *tape;
    lk_tensor *dy;
    const lk_tensor *value;
    lk_var x, w, b, y;
    r.dx = conv_array(k->dtype, conv_count(k, false));
    r.dw = conv_array(k->dtype, conv_weights_count(k));
    r.db = conv_array(k->dtype, k->y_channels);
    for (int i = 0; i < 2; i++) {
        shape[i] = (lk_shape){.ndim = k->ndim + 2, .dim = {k->batch}};
        memcpy(&shape[i].dim[1], i == 0 ? k->x : k->y, (size_t)k->ndim * sizeof(int64_t));
        shape[i].dim[k->ndim + 1] = i == 0 ? k->x_channels : k->y_channels;
    }
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(lk_leaf_data(tape, k->dtype, shape[0], v->x, r.dx, &x));
    ASSERT_OK(lk_leaf_data(tape, k->dtype, conv_weights_shape(k), v->w, r.dw, &w));
    ASSERT_OK(lk_leaf_data(tape, k->dtype, LK_SHAPE(k->y_channels), v->b, r.db, &b));
    b = k->bias ? b : LK_NO_VAR;
    if (k->back)
        ASSERT_OK(lk_conv_transpose(x, w, b, &k->attr, &y));
    else if (k->relu)
        ASSERT_OK(lk_conv_relu(x, w, b, &k->attr, &y));
    else
        ASSERT_OK(lk_conv(x, w, b, &k->attr, &y));
    ASSERT_OK(lk_value(y, &value));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(value), shape[1]));
    if (lk_tensor_count(value) > 0)
        memcpy(r.y, lk_tensor_data(value),
               (size_t)lk_tensor_count(value) * lk_dtype_size(k->dtype));
    ASSERT_OK(lk_tensor_wrap(k->dtype, shape[1], v->dy, NULL, NULL, &dy));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    lk_tensor_free(dy);
    lk_tape_free(tape);
    return r;
}

/* v [tiles of the axes from d on][n] becomes their sum: axis by axis, the last innermost. */
static void leaves_join(const struct conv_case *k, int d, double *v, int64_t from, int64_t tiles,
                        int64_t n)
{
    int64_t size = n, half;
    for (int e = d; e < k->cut; e++)
        size *= e > d ? k->tiles[e] : 1;
    if (d == k->cut)
        return;
    if (tiles == 1) {
        leaves_join(k, d + 1, v + from * size, 0, d + 1 < k->cut ? k->tiles[d + 1] : 1, n);
        return;
    }
    half = lk_tree_half(tiles);
    leaves_join(k, d, v, from, half, n);
    leaves_join(k, d, v, from + half, tiles - half, n);
    for (int64_t i = 0; i < n; i++)
        v[from * size + i] = real_add(k->dtype, v[from * size + i], v[(from + half) * size + i]);
}

static void assert_joined(const struct conv_case *k, const void *leaves, const void *sum, int64_t n)
{
    int64_t all = conv_leaves(k) * n;
    double *v = conv_array(LK_F64, all);
    for (int64_t i = 0; i < all; i++)
        v[i] = real_get(k->dtype, leaves, i);
    leaves_join(k, 0, v, 0, k->tiles[0], n);
    for (int64_t i = 0; i < n; i++)
        ASSERT_TRUE(real_same(v[i], real_get(k->dtype, sum, i)));
    free(v);
}

static void describe(const struct conv_case *k, lk_comm *comm)
{
    static _Thread_local char text[400];
    const lk_window *w = &k->attr.window;
    snprintf(text, sizeof text,
             "%s, %d ranks: %s%s %s x %lldx%lldx%lld tiles %lldx%lldx%lld kernel %lldx%lldx%lld "
             "stride %lld,%lld,%lld dilation %lld,%lld,%lld pad %lld,%lld,%lld batch %lld shard "
             "%lld groups %lld algorithm %d%s",
             k->name ? k->name : "random", lk_comm_size(comm), k->back ? "transposed " : "conv",
             k->relu ? " relu" : "", k->dtype == LK_F32 ? "f32" : "f64", (long long)k->x[0],
             (long long)k->x[1], (long long)k->x[2], (long long)k->tiles[0], (long long)k->tiles[1],
             (long long)k->tiles[2], (long long)w->kernel[0], (long long)w->kernel[1],
             (long long)w->kernel[2], (long long)w->stride[0], (long long)w->stride[1],
             (long long)w->stride[2], (long long)w->dilation[0], (long long)w->dilation[1],
             (long long)w->dilation[2], (long long)w->pad_lo[0], (long long)w->pad_lo[1],
             (long long)w->pad_lo[2], (long long)k->batch, (long long)k->shard,
             (long long)k->attr.groups, (int)k->attr.algorithm, k->bounded ? " bounds" : "");
    if (getenv("TEST_VERBOSE"))
        fprintf(stderr, "%s\n", text);
}

/* Ranks against one rank, and one rank against the op. */
static void case_check(lk_comm *comm, const lk_grid *grid, const struct conv_case *k, uint64_t seed)
{
    struct conv_whole v = conv_whole_new(k, seed);
    struct conv_result serial = conv_serially(k, &v);
    struct conv_result by_tile = {0};
    const lk_grid alone = {.ndim = k->cut, .dim = {1, 1, 1}};
    describe(k, comm);
    for (int plain = 0; plain < 2; plain++) {
        struct conv_result one = conv_run(k, NULL, &alone, &v, !plain);
        struct conv_result got = conv_run(k, comm, grid, &v, !plain);
        assert_result(k, &got, &one);
        assert_part(k, one.y, serial.y, &one.y_whole, &one.y_whole, k->y_channels);
        assert_part(k, one.dx, serial.dx, &one.x_whole, &one.x_whole, k->x_channels);
        if (conv_leaves(k) == 1) {
            one.has[0] = true;
            serial.x_tile = serial.x_whole = one.x_whole;
            serial.y_tile = serial.y_whole = one.y_whole;
            assert_result(k, &one, &serial);
        }
        conv_result_free(&got);
        if (!plain) {
            by_tile = one;
            continue;
        }
        assert_joined(k, by_tile.dw, one.dw, conv_weights_count(k));
        if (k->bias)
            assert_joined(k, by_tile.db, one.db, k->y_channels);
        conv_result_free(&one);
        conv_result_free(&by_tile);
    }
    conv_result_free(&serial);
    conv_whole_free(&v);
}

/* ---- random cases ---- */

static int64_t between(uint64_t *s, int64_t low, int64_t high)
{
    return low + (int64_t)(real_random(s) % (uint64_t)(high - low + 1));
}

/* Sizes and window of one axis; false: the kernel does not fit. */
static bool axis_draw(struct conv_case *k, int d, uint64_t *s)
{
    static const int64_t most[3] = {40, 18, 8};
    lk_window *w = &k->attr.window;
    bool winograd = k->attr.algorithm == LK_CONV_WINOGRAD;
    int64_t in = between(s, 1, most[k->ndim - 1]), out;
    w->kernel[d] = winograd ? 3 : between(s, 1, k->ndim == 3 ? 3 : 7);
    w->stride[d] = winograd ? 1 : between(s, 1, 4);
    w->dilation[d] = winograd || between(s, 0, 1) ? 1 : between(s, 1, 3);
    w->pad_lo[d] = between(s, -1, w->kernel[d]);
    w->pad_hi[d] = between(s, -1, w->kernel[d]);
    ASSERT_OK(lk_conv_out(in, w->kernel[d], w->stride[d], w->dilation[d], w->pad_lo[d],
                          w->pad_hi[d], &out));
    k->x[d] = k->back ? out : in;
    k->y[d] = k->back ? in : out;
    k->attr.extra[d] = 0;
    if (k->back)
        k->attr.extra[d] = in - ((out - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] +
                                 1 - w->pad_lo[d] - w->pad_hi[d]);
    return out > 0 && out <= 2 * most[k->ndim - 1];
}

/* Cuts of the host's own: anywhere, at multiples of 4 for Winograd. */
static void bounds_draw(struct conv_case *k, uint64_t *s)
{
    int64_t step = k->attr.algorithm == LK_CONV_WINOGRAD ? 4 : 1;
    for (int side = 0; side < 2; side++)
        for (int d = 0; d < k->cut; d++) {
            int64_t n = side == 0 ? k->x[d] : k->y[d], *at = k->bounds[side][d];
            for (int64_t i = 1; i < k->tiles[d]; i++) {
                int64_t most = (n - at[i - 1]) / step;
                at[i] = at[i - 1] + between(s, 0, most / 2 + most % 2) * step;
            }
            at[k->tiles[d]] = n;
        }
}

static struct conv_case case_draw(const lk_grid *grid, uint64_t *s)
{
    struct conv_case k = {.cut = grid->ndim, .attr.groups = 1, .step = 1};
    bool fits;
    k.ndim = (int)between(s, k.cut, 3);
    k.back = between(s, 0, 2) == 0;
    k.relu = !k.back && between(s, 0, 1);
    k.bias = between(s, 0, 3) > 0;
    k.dtype = between(s, 0, 1) ? LK_F32 : LK_F64;
    k.batch = between(s, 0, 15) == 0 ? 0 : between(s, 1, 5);
    k.shard = between(s, 0, 3);
    if (k.ndim == 2 && between(s, 0, 2) == 0) {
        k.attr.algorithm = LK_CONV_WINOGRAD;
        k.step = 4;
    } else if (between(s, 0, 2) == 0) {
        k.attr.groups = between(s, 1, 3);
    }
    k.x_channels = k.attr.groups * between(s, 1, 3);
    k.y_channels = k.attr.groups * between(s, 1, 3);
    do {
        fits = true;
        for (int d = 0; d < k.ndim; d++)
            fits = axis_draw(&k, d, s) && fits;
    } while (!fits);
    for (int d = 0; d < 3; d++)
        k.tiles[d] = d < k.cut ? grid->dim[d] + between(s, 0, 2) : 1;
    k.bounded = between(s, 0, 3) == 0;
    if (k.bounded)
        bounds_draw(&k, s);
    return k;
}

static lk_grid grid_draw(lk_comm *comm, uint64_t *s)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), (int)between(s, 1, 3), 0);
    lk_grid grid;
    ASSERT_OK(lk_grid_make(comm, cut.ndim, cut.dim, NULL, &grid));
    return grid;
}

static void cases_check(lk_comm *comm, int n, uint64_t seed)
{
    uint64_t s = seed;
    for (int i = 0; i < n; i++) {
        lk_grid grid = grid_draw(comm, &s);
        struct conv_case k = case_draw(&grid, &s);
        case_check(comm, &grid, &k, s);
    }
}

static void random_shapes_have_the_bits_of_one_rank(lk_comm *comm)
{
    cases_check(comm, test_whole() ? 290 : 29, 7 + (uint64_t)lk_comm_size(comm));
}

static void groups_of_ranks_do_too(lk_comm *comm)
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    cases_check(half, 3, 70 + (uint64_t)rank % 2);
    lk_comm_close(half);
}

RANKS_MAIN(TEST(random_shapes_have_the_bits_of_one_rank), TEST(groups_of_ranks_do_too))
