/* Convolutions on tiles for tests: a case, its operands as a whole, and what a run gives of it.
 *
 * Every rank has the operands of the whole and takes from them what its tiles are; margins begin as
 * numbers that nobody else has, so that one that is read before it was fetched shows.
 */
#ifndef LK_TEST_TILE_CONVS_H
#define LK_TEST_TILE_CONVS_H

#include "dist/common/tiles.h"
#include "ranks.h"
#include "real.h"

#include <lockstep/lockstep.h>

enum { CONV_TILES = 24, CONV_LEAVES = 576 }; /* at most, along an axis and in all */

struct conv_case;

/* Another layer in place of the convolution; tile NULL: on the whole sample. */
typedef lk_status conv_apply_fn(const struct conv_case *k, const lk_tile *tile, lk_var x, lk_var w,
                                lk_var b, lk_var *y);

struct conv_case {
    const char *name;
    bool back, relu, bias; /* back: transposed */
    lk_dtype dtype;
    int ndim, cut;      /* axes; the first of them, that are cut */
    int64_t x[3], y[3]; /* sizes */
    int64_t x_channels, y_channels;
    lk_conv_attr attr; /* with the kernel */
    int64_t batch, shard, step;
    int64_t tiles[3];
    int64_t bounds[2][3][CONV_TILES + 1]; /* of x and of y, where `bounded` */
    bool bounded;
    bool fixed;           /* nobody wants dx */
    conv_apply_fn *apply; /* NULL: lk_dist_tile_conv(), or its transpose */
    const void *layer;    /* of `apply` */
};

/* Elements: of x and y as a whole, of w, and of b. */
static inline int64_t conv_count(const struct conv_case *k, bool y)
{
    int64_t n = k->batch * (y ? k->y_channels : k->x_channels);
    for (int d = 0; d < k->ndim; d++)
        n *= y ? k->y[d] : k->x[d];
    return n;
}

static inline lk_shape conv_weights_shape(const struct conv_case *k)
{
    lk_shape s = {.ndim = k->ndim + 2};
    memcpy(s.dim, k->attr.window.kernel, (size_t)k->ndim * sizeof s.dim[0]);
    s.dim[k->ndim] = (k->back ? k->y_channels : k->x_channels) / k->attr.groups;
    s.dim[k->ndim + 1] = k->back ? k->x_channels : k->y_channels;
    return s;
}

static inline int64_t conv_weights_count(const struct conv_case *k)
{
    int64_t n = 0;
    ASSERT_OK(lk_shape_count(conv_weights_shape(k), &n));
    return n;
}

static inline size_t conv_weights_bytes(const struct conv_case *k)
{
    return (size_t)conv_weights_count(k) * lk_dtype_size(k->dtype);
}

static inline size_t conv_bias_bytes(const struct conv_case *k)
{
    return (size_t)k->y_channels * lk_dtype_size(k->dtype);
}

static inline int64_t conv_leaves(const struct conv_case *k)
{
    int64_t n = 1;
    for (int d = 0; d < k->cut; d++)
        n *= k->tiles[d];
    return n;
}

/* Operands as a whole. */
struct conv_whole {
    void *x, *dy, *w, *b;
};

static inline void *conv_array(lk_dtype dtype, int64_t n)
{
    void *p = calloc((size_t)n + 1, lk_dtype_size(dtype));
    ASSERT_TRUE(p);
    return p;
}

static inline struct conv_whole conv_whole_new(const struct conv_case *k, uint64_t seed)
{
    int64_t n[4] = {conv_count(k, false), conv_count(k, true), conv_weights_count(k),
                    k->y_channels};
    void *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = conv_array(k->dtype, n[i]);
        real_fill(k->dtype, p[i], n[i], seed * 4 + (uint64_t)i, false);
    }
    return (struct conv_whole){p[0], p[1], p[2], p[3]};
}

static inline void conv_whole_free(struct conv_whole *v)
{
    free(v->x);
    free(v->dy);
    free(v->w);
    free(v->b);
}

/* What a run gives: of y and dx this rank's tile, at its place in the whole; of dw and db what its tiles
 * say, [all tiles][...], or the joined ones. */
struct conv_result {
    void *y, *dx, *dw, *db;
    lk_box x_whole, y_whole, x_tile, y_tile;
    bool has[CONV_LEAVES]; /* leaves */
};

static inline void conv_result_free(struct conv_result *r)
{
    free(r->y);
    free(r->dx);
    free(r->dw);
    free(r->db);
}

static inline void *conv_data(lk_tensor *t)
{
    void *p = NULL;
    ASSERT_OK(lk_tensor_writable_data(t, &p));
    return p;
}

/* A held box of a value, its tile from the whole and its margin of numbers of this rank alone. */
static inline lk_tensor *conv_held(const struct conv_case *k, bool y, const lk_held *held,
                                   const void *whole, int rank)
{
    int64_t channels = y ? k->y_channels : k->x_channels;
    int64_t bytes = channels * (int64_t)lk_dtype_size(k->dtype);
    lk_box all = lk_box_whole(k->ndim, y ? k->y : k->x);
    lk_shape shape = {.ndim = k->ndim + 2, .dim = {k->batch}};
    lk_tensor *t;
    memcpy(&shape.dim[1], held->box.n, (size_t)k->ndim * sizeof shape.dim[0]);
    shape.dim[k->ndim + 1] = channels;
    ASSERT_OK(lk_tensor_new(k->dtype, shape, &t));
    if (lk_tensor_count(t) == 0)
        return t;
    real_fill(k->dtype, conv_data(t), lk_tensor_count(t), 1000 + (uint64_t)rank, false);
    void *dense = conv_array(k->dtype, k->batch * lk_box_count(&held->tile) * channels);
    lk__tile_pack(whole, &all, &held->tile, k->batch, bytes, dense);
    lk__tile_unpack(conv_data(t), &held->box, &held->tile, k->batch, bytes, dense);
    free(dense);
    return t;
}

/* Put the tile of a held box to its place in the whole; if `cleared`, all around the tile must be 0. */
static inline void conv_take(const struct conv_case *k, bool y, const lk_held *held,
                             const lk_tensor *t, bool cleared, void *whole)
{
    int64_t channels = y ? k->y_channels : k->x_channels, n = lk_tensor_count(t);
    int64_t bytes = channels * (int64_t)lk_dtype_size(k->dtype);
    lk_box all = lk_box_whole(k->ndim, y ? k->y : k->x);
    int64_t count = k->batch * lk_box_count(&held->tile) * channels;
    if (n == 0)
        return;
    char *dense = conv_array(k->dtype, count), *rest = conv_array(k->dtype, n);
    memcpy(rest, lk_tensor_data(t), (size_t)n * lk_dtype_size(k->dtype));
    lk__tile_pack(rest, &held->box, &held->tile, k->batch, bytes, dense);
    lk__tile_unpack(whole, &all, &held->tile, k->batch, bytes, dense);
    memset(dense, 0, (size_t)count * lk_dtype_size(k->dtype));
    lk__tile_unpack(rest, &held->box, &held->tile, k->batch, bytes, dense);
    for (int64_t i = 0; i < n * (int64_t)lk_dtype_size(k->dtype); i++)
        ASSERT_TRUE(rest[i] == 0 || !cleared);
    free(dense);
    free(rest);
}

/* A parameter as a leaf of the tape, plain or by tile. */
struct conv_param {
    lk_tensor *value, *seen, *grad;
    lk_var var;
};

static inline struct conv_param conv_param_new(lk_tape *tape, lk_dtype dtype, lk_shape shape,
                                               void *data, int64_t leaves)
{
    struct conv_param p;
    lk_shape by_tile = {.ndim = shape.ndim + 1, .dim = {leaves}};
    memcpy(&by_tile.dim[1], shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
    ASSERT_OK(lk_tensor_wrap(dtype, shape, data, NULL, NULL, &p.value));
    ASSERT_OK(lk_tensor_broadcast(p.value, leaves > 0 ? by_tile : shape, &p.seen));
    ASSERT_OK(lk_tensor_new(dtype, leaves > 0 ? by_tile : shape, &p.grad));
    ASSERT_OK(lk_tensor_fill_f64(p.grad, 0));
    ASSERT_OK(lk_leaf(tape, p.seen, p.grad, &p.var));
    return p;
}

static inline void conv_param_free(struct conv_param *p)
{
    lk_tensor_free(p->value);
    lk_tensor_free(p->seen);
    lk_tensor_free(p->grad);
}

/* The number among all tiles of leaf number `i` of this rank. */
static inline int64_t conv_leaf_number(const lk_tiling *t, int64_t i)
{
    int64_t number = 0, at[3];
    for (int d = 2; d >= 0; d--) {
        at[d] = t->held[d].first + i % t->held[d].n;
        i /= t->held[d].n;
    }
    for (int d = 0; d < 3; d++)
        number = number * t->tiles[d] + at[d];
    return number;
}

static inline void conv_take_param(const struct conv_case *k, const lk_tiling *t,
                                   const struct conv_param *p, int64_t n, bool by_tile, void *out,
                                   bool *has)
{
    size_t bytes = (size_t)n * lk_dtype_size(k->dtype);
    for (int64_t i = 0; i < (by_tile ? lk_tiling_leaves(t) : 1); i++) {
        int64_t to = by_tile ? conv_leaf_number(t, i) : 0;
        ASSERT_TRUE(to < CONV_LEAVES);
        has[to] = true;
        if (bytes > 0)
            memcpy((char *)out + (size_t)to * bytes,
                   (const char *)lk_tensor_data(p->grad) + (size_t)i * bytes, bytes);
    }
}

static inline void conv_tile_new(const struct conv_case *k, lk_comm *comm, const lk_grid *grid,
                                 lk_tiling **tiling, lk_tile **tile)
{
    lk_tile_spec spec = {.kind = k->back ? LK_TILE_CONV_TRANSPOSE : LK_TILE_CONV,
                         .window = k->attr.window};
    spec.window.ndim = k->ndim;
    spec.window.grid = k->attr.algorithm == LK_CONV_WINOGRAD ? 4 : 0;
    for (int d = 0; d < k->ndim; d++) {
        spec.in[d] = k->x[d];
        spec.out[d] = k->y[d];
        if (k->bounded && d < k->cut) {
            spec.in_bounds.axis[d] = k->bounds[0][d];
            spec.out_bounds.axis[d] = k->bounds[1][d];
        }
    }
    ASSERT_OK(lk_tiling_new(comm, grid, k->tiles, k->step, tiling));
    ASSERT_OK(lk_tile_new(*tiling, &spec, tile));
}

static inline lk_status conv_apply(const struct conv_case *k, const lk_tile *tile, lk_var x,
                                   lk_var w, lk_var b, lk_var *y)
{
    /* Every other one leaves them to the tile. */
    const lk_conv_attr *attr = k->attr.groups == 1 && k->batch % 2 ? NULL : &k->attr;
    if (k->apply)
        return k->apply(k, tile, x, w, b, y);
    if (k->back)
        return lk_dist_tile_conv_transpose(tile, x, w, b, attr, "layer", y);
    return lk_dist_tile_conv(tile, x, w, b, attr, k->relu ? LK_ACT_RELU : LK_ACT_NONE, "layer", y);
}

/* A tape whose memory is full of NaN: what is read before it was written shows. */
static inline lk_tape *conv_tape_new(const struct conv_case *k)
{
    enum { N = 1 << 16 };
    void *nan = conv_array(LK_F32, N);
    lk_tape *tape;
    lk_var x;
    memset(nan, 0xff, N * sizeof(float));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(N), nan, &x));
    ASSERT_OK(lk_copy(x, &x));
    lk_tape_reset(tape);
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    free(nan);
    return tape;
}

/* Run a case, forward and backward; `comm` NULL: one rank has all tiles.  Every other rank leaves the gradients
 * of parameters, and computes them behind a barrier: that sends nothing. */
static inline struct conv_result conv_run(const struct conv_case *k, lk_comm *comm,
                                          const lk_grid *grid, const struct conv_whole *v,
                                          bool by_tile)
{
    struct conv_result r = {.x_whole = lk_box_whole(k->ndim, k->x),
                            .y_whole = lk_box_whole(k->ndim, k->y)};
    lk_tiling *tiling;
    lk_tile *tile;
    lk_tape *tape = conv_tape_new(k);
    lk_tensor *dx;
    lk_var x, y;
    const lk_tensor *value;
    int rank = comm ? lk_comm_rank(comm) : 0;
    int64_t n_w = conv_weights_count(k), leaves = by_tile ? conv_leaves(k) : 1;
    conv_tile_new(k, comm, grid, &tiling, &tile);
    r.x_tile = tile->x.tile;
    r.y_tile = tile->y.tile;
    r.y = conv_array(k->dtype, conv_count(k, true));
    r.dx = conv_array(k->dtype, conv_count(k, false));
    r.dw = conv_array(k->dtype, n_w * leaves);
    r.db = conv_array(k->dtype, k->y_channels * leaves);
    lk_tensor *held = conv_held(k, false, &tile->x, v->x, rank);
    lk_tensor *dy = conv_held(k, true, &tile->y, v->dy, rank);
    ASSERT_OK(lk_tensor_new(k->dtype, lk_tensor_shape(held), &dx));
    ASSERT_OK(lk_tensor_fill_f64(dx, 0));
    if (k->fixed)
        ASSERT_OK(lk_constant(tape, held, &x));
    else
        ASSERT_OK(lk_leaf(tape, held, dx, &x));
    struct conv_param w = conv_param_new(tape, k->dtype, conv_weights_shape(k), v->w,
                                         by_tile ? tile->leaves : 0);
    struct conv_param b = conv_param_new(tape, k->dtype, LK_SHAPE(k->y_channels), v->b,
                                         by_tile ? tile->leaves : 0);
    if (rank % 2) {
        ASSERT_OK(lk_leaf_postpone(w.var));
        ASSERT_OK(lk_leaf_postpone(b.var));
    }
    ASSERT_OK(conv_apply(k, tile, x, w.var, k->bias ? b.var : LK_NO_VAR, &y));
    ASSERT_OK(lk_value(y, &value));
    conv_take(k, true, &tile->y, value, true, r.y);
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    if (comm)
        ASSERT_OK(lk_barrier(comm, "backward"));
    ASSERT_OK(lk_backward_rest(tape));
    conv_take(k, false, &tile->x, dx, true, r.dx);
    conv_take_param(k, tiling, &w, n_w, by_tile, r.dw, r.has);
    conv_take_param(k, tiling, &b, k->y_channels, by_tile, r.db, r.has);
    lk_tape_free(tape);
    conv_param_free(&w);
    conv_param_free(&b);
    lk_tensor_free(held);
    lk_tensor_free(dy);
    lk_tensor_free(dx);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
    return r;
}

#endif /* LK_TEST_TILE_CONVS_H */
