/* Convolutions on tiles in a row, whose values share boxes:
 *
 *     a = relu(conv 3x3 of x),  y = a + transposed conv 5x5/s2 (conv 5x5/s2 of a)
 *
 * a is read by two layers, and the gradient of y goes two ways, so that margins of one array are fetched
 * more than once.  Ranks against one rank that has all tiles, and against the ops on whole samples.
 */
#include "tile_convs.h"
#include "tile_cuts.h"

enum { LAYERS = 3 };

/* Sizes of x, a and y, the only ones that operands have; w and b are of each layer. */
static const struct conv_case shapes = {.ndim = 2,
                                        .cut = 2,
                                        .dtype = LK_F32,
                                        .x = {11, 9},
                                        .y = {11, 9},
                                        .x_channels = 2,
                                        .y_channels = 2,
                                        .attr = {.window.kernel = {5, 5}, .groups = 1},
                                        .batch = 3,
                                        .shard = 2};
static const lk_window windows[LAYERS] = {
    {.ndim = 2, .kernel = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}},
    {.ndim = 2, .kernel = {5, 5}, .stride = {2, 2}, .pad_lo = {2, 2}, .pad_hi = {2, 2}},
    {.ndim = 2, .kernel = {5, 5}, .stride = {2, 2}, .pad_lo = {2, 2}, .pad_hi = {2, 2}}};
static const int64_t sizes[LAYERS + 1][2] = {{11, 9}, {11, 9}, {6, 5}, {11, 9}};

/* tile NULL: on whole samples. */
static void net(lk_tile *const *tile, lk_var x, const lk_var *w, lk_var *y)
{
    lk_conv_attr attr[LAYERS];
    lk_var a, down, up;
    for (int i = 0; i < LAYERS; i++)
        attr[i] = (lk_conv_attr){.window = windows[i]};
    if (tile) {
        ASSERT_OK(lk_dist_tile_conv(tile[0], x, w[0], LK_NO_VAR, &attr[0], LK_ACT_RELU, "a", &a));
        ASSERT_OK(
            lk_dist_tile_conv(tile[1], a, w[1], LK_NO_VAR, &attr[1], LK_ACT_NONE, "down", &down));
        ASSERT_OK(lk_dist_tile_conv_transpose(tile[2], down, w[2], LK_NO_VAR, &attr[2], "up", &up));
    } else {
        ASSERT_OK(lk_conv_relu(x, w[0], LK_NO_VAR, &attr[0], &a));
        ASSERT_OK(lk_conv(a, w[1], LK_NO_VAR, &attr[1], &down));
        ASSERT_OK(lk_conv_transpose(down, w[2], LK_NO_VAR, &attr[2], &up));
    }
    ASSERT_OK(lk_add(a, up, y));
}

/* y and dx of this rank's tile in the whole, dw of all layers one behind the other. */
struct result {
    float *y, *dx, *dw;
    lk_box tile;
};

static void result_free(struct result *r)
{
    free(r->y);
    free(r->dx);
    free(r->dw);
}

static void specs_make(const lk_tiling *tiling, lk_tile *tile[LAYERS])
{
    lk_tile_spec spec[LAYERS] = {{.kind = LK_TILE_CONV}};
    for (int i = 0; i < LAYERS; i++) {
        spec[i].kind = i == 2 ? LK_TILE_CONV_TRANSPOSE : LK_TILE_CONV;
        spec[i].window = windows[i];
        memcpy(spec[i].in, sizes[i], sizeof sizes[i]);
        memcpy(spec[i].out, sizes[i + 1], sizeof sizes[i + 1]);
    }
    ASSERT_OK(lk_tiling_hold(tiling, spec, LAYERS));
    for (int i = 0; i < LAYERS; i++)
        ASSERT_OK(lk_tile_new(tiling, &spec[i], &tile[i]));
}

/* On the ranks of a grid; `grid` NULL: on whole samples. */
static struct result run(lk_comm *comm, const lk_grid *grid, const int64_t *tiles,
                         const struct conv_whole *v)
{
    const struct conv_case *k = &shapes;
    int64_t n_w = conv_weights_count(k);
    struct result r = {.y = conv_array(LK_F32, conv_count(k, true)),
                       .dx = conv_array(LK_F32, conv_count(k, false)),
                       .dw = conv_array(LK_F32, n_w * LAYERS)};
    lk_held held = {lk_box_whole(2, k->x), lk_box_whole(2, k->x)};
    lk_tiling *tiling = NULL;
    lk_tile *tile[LAYERS] = {NULL};
    lk_tape *tape;
    lk_tensor *dx;
    const lk_tensor *value;
    lk_var x, w[LAYERS], y;
    if (grid) {
        ASSERT_OK(lk_tiling_new(comm, grid, tiles, 0, &tiling));
        specs_make(tiling, tile);
        held = tile[0]->x;
        ASSERT_TRUE(lk_box_is_equal(&held.box, &tile[2]->y.box));
    }
    r.tile = held.tile;
    int rank = comm ? lk_comm_rank(comm) : 0;
    lk_tensor *tx = conv_held(k, false, &held, v->x, rank),
              *dy = conv_held(k, true, &held, v->dy, rank);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(lk_tensor_new(LK_F32, lk_tensor_shape(tx), &dx));
    ASSERT_OK(lk_tensor_fill_f64(dx, 0));
    ASSERT_OK(lk_leaf(tape, tx, dx, &x));
    for (int i = 0; i < LAYERS; i++)
        ASSERT_OK(lk_leaf_data(tape, LK_F32,
                               LK_SHAPE(windows[i].kernel[0], windows[i].kernel[1], 2, 2), v->w,
                               r.dw + i * n_w, &w[i]));
    net(grid ? tile : NULL, x, w, &y);
    ASSERT_OK(lk_value(y, &value));
    conv_take(k, true, &held, value, false, r.y); /* its margin is that of a */
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    conv_take(k, false, &held, dx, true, r.dx);
    lk_tape_free(tape);
    lk_tensor_free(tx);
    lk_tensor_free(dy);
    lk_tensor_free(dx);
    for (int i = 0; i < LAYERS; i++)
        lk_tile_free(tile[i]);
    lk_tiling_free(tiling);
    return r;
}

static void assert_tile(const struct result *got, const struct result *want)
{
    lk_box all = lk_box_whole(2, shapes.x);
    int64_t n = shapes.batch * lk_box_count(&got->tile) * 2, bytes = 2 * (int64_t)sizeof(float);
    const float *pair[2][2] = {{got->y, want->y}, {got->dx, want->dx}};
    float *a = conv_array(LK_F32, n), *b = conv_array(LK_F32, n);
    for (int i = 0; i < 2; i++) {
        lk__tile_pack(pair[i][0], &all, &got->tile, shapes.batch, bytes, a);
        lk__tile_pack(pair[i][1], &all, &got->tile, shapes.batch, bytes, b);
        ASSERT_SAME_BITS(a, b, (size_t)n * sizeof(float));
    }
    free(a);
    free(b);
}

RANKS_TEST(layers_in_a_row_have_the_bits_of_one_rank)
{
    const lk_grid alone = {.ndim = 2, .dim = {1, 1}};
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    struct conv_whole v = conv_whole_new(&shapes, 9);
    struct result serial = run(NULL, NULL, NULL, &v);
    lk_grid grid;
    ASSERT_OK(lk_grid_make(comm, 2, cut.dim, NULL, &grid));
    for (int more = 0; more < 2; more++) {
        const int64_t tiles[2] = {cut.dim[0] + more, cut.dim[1] + 2 * more};
        struct result one = run(NULL, &alone, tiles, &v), got = run(comm, &grid, tiles, &v);
        assert_tile(&got, &one);
        assert_tile(&one, &serial);
        ASSERT_SAME_BITS(got.dw, one.dw,
                         (size_t)(LAYERS * conv_weights_count(&shapes)) * sizeof(float));
        result_free(&one);
        result_free(&got);
    }
    result_free(&serial);
    conv_whole_free(&v);
}
