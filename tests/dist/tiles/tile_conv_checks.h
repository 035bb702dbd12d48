/* What must be equal of convolutions on tiles: ranks and one rank that has all tiles; that and the op on
 * the whole sample; what a tile says of dw and db and the op on that tile; their sum by the tree over
 * tiles and the gradient of a plain parameter.  All by bits.
 */
#ifndef LK_TEST_TILE_CONV_CHECKS_H
#define LK_TEST_TILE_CONV_CHECKS_H

#include "tile_convs.h"

static inline void assert_part(const struct conv_case *k, const void *a, const void *b,
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
static inline void assert_result(const struct conv_case *k, const struct conv_result *got,
                                 const struct conv_result *want)
{
    size_t w = conv_weights_bytes(k), b = conv_bias_bytes(k);
    assert_part(k, got->y, want->y, &got->y_whole, &got->y_tile, k->y_channels);
    assert_part(k, got->dx, want->dx, &got->x_whole, &got->x_tile, k->x_channels);
    for (size_t i = 0; i < CONV_LEAVES; i++)
        if (got->has[i]) {
            ASSERT_SAME_BITS((char *)got->dw + i * w, (char *)want->dw + i * w, w);
            ASSERT_SAME_BITS((char *)got->db + i * b, (char *)want->db + i * b, b);
        }
}

/* The op on the whole sample. */
static inline struct conv_result conv_serially(const struct conv_case *k,
                                               const struct conv_whole *v)
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
    if (k->apply)
        ASSERT_OK(k->apply(k, NULL, x, w, b, &y));
    else if (k->back)
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
static inline void leaves_join(const struct conv_case *k, int d, double *v, int64_t from,
                               int64_t tiles, int64_t n)
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

static inline void assert_joined(const struct conv_case *k, const void *leaves, const void *sum,
                                 int64_t n)
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

/* dy before the activation, of the op on the whole sample. */
static inline void *conv_dz(const struct conv_case *k, const struct conv_whole *v,
                            const struct conv_result *serial)
{
    void *dz = conv_array(k->dtype, conv_count(k, true));
    for (int64_t i = 0; i < conv_count(k, true); i++)
        if (!k->relu || real_get(k->dtype, serial->y, i) > 0)
            real_set(k->dtype, dz, i, real_get(k->dtype, v->dy, i));
    return dz;
}

/* An array of x or y as a constant, all of it, or 0 outside a box. */
static inline lk_var conv_constant(lk_tape *tape, const struct conv_case *k, bool y,
                                   const void *whole, const lk_box *box, void **room)
{
    int64_t channels = y ? k->y_channels : k->x_channels;
    int64_t bytes = channels * (int64_t)lk_dtype_size(k->dtype);
    lk_box all = lk_box_whole(k->ndim, y ? k->y : k->x);
    lk_shape shape = {.ndim = k->ndim + 2, .dim = {k->batch}};
    lk_var out;
    memcpy(&shape.dim[1], all.n, (size_t)k->ndim * sizeof(int64_t));
    shape.dim[k->ndim + 1] = channels;
    *room = conv_array(k->dtype, conv_count(k, y));
    memcpy(*room, whole, (size_t)conv_count(k, y) * lk_dtype_size(k->dtype));
    if (box)
        lk__tile_clear_around(*room, &all, box, k->batch, bytes);
    ASSERT_OK(lk_constant_data(tape, k->dtype, shape, *room, &out));
    return out;
}

/* dw of one leaf, by the op on the whole sample where all but the leaf is 0: such terms change no sum.
 * db by the op on the leaf alone, because lanes count its own positions. */
static inline void assert_leaf(const struct conv_case *k, const struct conv_whole *v,
                               const void *dz, const lk_tile *tile, int64_t i,
                               const struct conv_result *got)
{
    size_t w = conv_weights_bytes(k), b = conv_bias_bytes(k);
    const lk_box *leaf = &tile->y_leaf[i], all = lk_box_whole(k->ndim, k->y);
    int64_t n = k->batch * lk_box_count(leaf);
    lk_conv_attr attr = k->attr;
    lk_tape *tape;
    lk_var x, y, dw, db;
    const lk_tensor *value;
    void *room[3];
    memset(attr.extra, 0, sizeof attr.extra);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    x = conv_constant(tape, k, false, v->x, k->back ? &tile->x_leaf[i] : NULL, &room[0]);
    y = conv_constant(tape, k, true, dz, k->back ? NULL : leaf, &room[1]);
    ASSERT_OK(lk_conv_weights(k->back ? y : x, k->back ? x : y, &attr, attr.window.kernel, &dw));
    ASSERT_OK(lk_value(dw, &value));
    ASSERT_SAME_BITS((char *)got->dw + (size_t)i * w, lk_tensor_data(value), w);
    room[2] = conv_array(k->dtype, n * k->y_channels);
    lk__tile_pack(dz, &all, leaf, k->batch, (int64_t)b, room[2]);
    ASSERT_OK(lk_constant_data(tape, k->dtype,
                               LK_SHAPE(k->batch, lk_box_count(leaf), k->y_channels), room[2], &y));
    ASSERT_OK(lk_sum_to(y, LK_SHAPE(k->y_channels), &db));
    ASSERT_OK(lk_value(db, &value));
    if (k->bias)
        ASSERT_SAME_BITS((char *)got->db + (size_t)i * b, lk_tensor_data(value), b);
    lk_tape_free(tape);
    for (int j = 0; j < 3; j++)
        free(room[j]);
}

/* What each tile says, by ranks in turn. */
static inline void assert_leaves(lk_comm *comm, const struct conv_case *k,
                                 const struct conv_whole *v, const struct conv_result *serial,
                                 const struct conv_result *got)
{
    const lk_grid alone = {.ndim = k->cut, .dim = {1, 1, 1}};
    void *dz = conv_dz(k, v, serial);
    lk_tiling *tiling;
    lk_tile *tile;
    conv_tile_new(k, NULL, &alone, &tiling, &tile);
    for (int64_t i = lk_comm_rank(comm); i < tile->leaves; i += lk_comm_size(comm))
        assert_leaf(k, v, dz, tile, i, got);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
    free(dz);
}

/* Ranks against one rank, and one rank against the op. */
static inline void case_check(lk_comm *comm, const lk_grid *grid, const struct conv_case *k,
                              uint64_t seed)
{
    struct conv_whole v = conv_whole_new(k, seed);
    struct conv_result serial = conv_serially(k, &v);
    struct conv_result by_tile = {0};
    const lk_grid alone = {.ndim = k->cut, .dim = {1, 1, 1}};
    for (int plain = 0; plain < 2; plain++) {
        struct conv_result one = conv_run(k, NULL, &alone, &v, !plain);
        struct conv_result got = conv_run(k, comm, grid, &v, !plain);
        assert_result(k, &got, &one);
        assert_part(k, one.y, serial.y, &one.y_whole, &one.y_whole, k->y_channels);
        if (!k->fixed)
            assert_part(k, one.dx, serial.dx, &one.x_whole, &one.x_whole, k->x_channels);
        if (conv_leaves(k) == 1) {
            ASSERT_SAME_BITS(one.dw, serial.dw, conv_weights_bytes(k));
            ASSERT_SAME_BITS(one.db, serial.db, conv_bias_bytes(k));
        }
        conv_result_free(&got);
        if (!plain) {
            assert_leaves(comm, k, &v, &serial, &one);
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

#endif /* LK_TEST_TILE_CONV_CHECKS_H */
