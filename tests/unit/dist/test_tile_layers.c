/* Linear layers, layer norm and local contrast normalisation on tiles, on one rank that has all of them:
 * values and gradients of x are those of the plain ops by memcmp, and what each tile says of parameters is
 * what the plain op says of that tile cut out.  Ranks are compared in tests/dist/tiles/test_spatial_layers.c, and
 * values of layer norm over all of a sample in tests/dist/tiles/test_tile_layer_norm.c.
 */
#include "drawn.h"
#include "faults.h"

#include <lockstep/op.h>
#include <lockstep/tiles.h>

enum { SAMPLES = 5, SHARD = 2, ROWS = 7, COLUMNS = 6, IN = 3, OUT = 4 };

typedef enum kind { LINEAR, LINEAR_RELU, LAYER_NORM, LCN, SAMPLE_NORM } kind;

static lk_tensor *drawn(lk_shape shape, const char *purpose)
{
    return test_drawn(lk_rng_start(11, "test", purpose), LK_F32, shape, 0);
}

static int64_t out_channels(kind k)
{
    return k == LINEAR || k == LINEAR_RELU ? OUT : IN;
}

/* The parameters, and an input with what its outputs weigh in the loss. */
struct bench {
    kind kind;
    lk_tensor *x, *weights, *param[2];
    int n_params;
};

static struct bench bench_new(kind k)
{
    bool linear = k == LINEAR || k == LINEAR_RELU;
    struct bench b = {.kind = k, .n_params = k == LCN ? 0 : 2};
    b.x = drawn(LK_SHAPE(SAMPLES, ROWS, COLUMNS, IN), "x");
    b.weights = drawn(LK_SHAPE(SAMPLES, ROWS, COLUMNS, out_channels(k)), "weights");
    b.param[0] = drawn(linear ? LK_SHAPE(IN, OUT) : LK_SHAPE(IN), "w");
    b.param[1] = drawn(LK_SHAPE(out_channels(k)), "b");
    return b;
}

static void bench_free(struct bench *b)
{
    lk_tensor_free(b->x);
    lk_tensor_free(b->weights);
    lk_tensor_free(b->param[0]);
    lk_tensor_free(b->param[1]);
}

/* What came out, and the gradients. */
struct result {
    lk_tensor *y, *dx, *grad[2];
};

static void result_free(struct result *r)
{
    lk_tensor_free(r->y);
    lk_tensor_free(r->dx);
    lk_tensor_free(r->grad[0]);
    lk_tensor_free(r->grad[1]);
}

static lk_status apply(kind k, const lk_tile *tile, lk_var x, const lk_var *p, lk_var *out)
{
    lk_layer_norm_attr norm = {.axes = 1, .eps = 0.01};
    lk_act act = k == LINEAR_RELU ? LK_ACT_RELU : LK_ACT_NONE;
    if (k == LCN)
        return tile ? lk_dist_tile_lcn(tile, x, 5, 3, "lcn", out) : lk_lcn(x, 5, 3, out);
    if (k == SAMPLE_NORM)
        norm.axes = 3;
    if (k == LAYER_NORM || k == SAMPLE_NORM)
        return tile ? lk_dist_tile_layer_norm(tile, x, p[0], p[1], &norm, "norm", out)
                    : lk_layer_norm(x, p[0], p[1], &norm, out);
    if (tile)
        return lk_dist_tile_linear(tile, x, p[0], p[1], act, "linear", out);
    return act == LK_ACT_RELU ? lk_linear_relu(x, p[0], p[1], out) : lk_linear(x, p[0], p[1], out);
}

/* The op on x; tile NULL: the plain one.  by_tile: parameters are [leaves][...]. */
static struct result run(const struct bench *b, const lk_tile *tile, bool by_tile, lk_tensor *x,
                         lk_tensor *weights)
{
    struct result r = {0};
    lk_tape *tape = NULL;
    lk_tensor *each[2] = {0};
    const lk_tensor *y = NULL;
    lk_var vx, vw, p[2] = {LK_NO_VAR, LK_NO_VAR}, out, product, loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, SHARD));
    ASSERT_OK(lk_tensor_zeros(LK_F32, lk_tensor_shape(x), &r.dx));
    ASSERT_OK(lk_leaf(tape, x, r.dx, &vx));
    ASSERT_OK(lk_constant(tape, weights, &vw));
    for (int i = 0; i < b->n_params; i++) {
        lk_shape shape = lk_tensor_shape(b->param[i]), all = {.ndim = shape.ndim + 1};
        memcpy(&all.dim[1], shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
        all.dim[0] = tile ? tile->leaves : 1;
        ASSERT_OK(lk_tensor_broadcast(b->param[i], by_tile ? all : shape, &each[i]));
        ASSERT_OK(lk_tensor_zeros(LK_F32, by_tile ? all : shape, &r.grad[i]));
        ASSERT_OK(lk_leaf(tape, each[i], r.grad[i], &p[i]));
    }
    ASSERT_OK(apply(b->kind, tile, vx, p, &out));
    ASSERT_OK(lk_value(out, &y));
    ASSERT_OK(lk_tensor_clone(y, LK_F32, &r.y));
    ASSERT_OK(lk_mul(out, vw, &product));
    ASSERT_OK(lk_sum(product, NULL, &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_free(tape);
    lk_tensor_free(each[0]);
    lk_tensor_free(each[1]);
    return r;
}

static lk_tile_spec spec_of(kind k)
{
    return (lk_tile_spec){
        .kind = k == LCN ? LK_TILE_LCN : LK_TILE_POINTWISE,
        .window = {.ndim = 2, .kernel = {5, 3}, .pad_lo = {2, 1}, .pad_hi = {2, 1}},
        .in = {ROWS, COLUMNS},
        .out = {ROWS, COLUMNS}};
}

static lk_tile *tile_new(kind k, const lk_tiling *tiling)
{
    lk_tile_spec spec = spec_of(k);
    lk_tile *tile = NULL;
    ASSERT_OK(lk_tile_new(tiling, &spec, &tile));
    return tile;
}

static lk_tiling *tiling_new(int64_t rows, int64_t columns)
{
    lk_tiling *tiling = NULL;
    ASSERT_OK(lk_tiling_new(NULL, &(lk_grid){.ndim = 2, .dim = {1, 1}},
                            (const int64_t[]){rows, columns}, 0, &tiling));
    return tiling;
}

static void expect_same(const char *what, const lk_tensor *a, const void *b)
{
    size_t bytes = (size_t)lk_tensor_count(a) * sizeof(float);
    if (bytes > 0 && memcmp(lk_tensor_data(a), b, bytes) != 0)
        TEST_FAIL("%s has other bits", what);
}

/* A copy of the positions of a leaf. */
static lk_tensor *cut(lk_tensor *x, const lk_box *leaf)
{
    lk_tensor *rows = NULL, *part = NULL, *copy = NULL;
    ASSERT_OK(lk_tensor_slice(x, 1, leaf->first[0], leaf->first[0] + leaf->n[0], 1, &rows));
    ASSERT_OK(lk_tensor_slice(rows, 2, leaf->first[1], leaf->first[1] + leaf->n[1], 1, &part));
    ASSERT_OK(lk_tensor_clone(part, LK_F32, &copy));
    lk_tensor_free(rows);
    lk_tensor_free(part);
    return copy;
}

/* What each leaf says is what the plain op says of it alone; nothing, if it is empty. */
static void check_leaves(const struct bench *b, const lk_tile *tile, const struct result *r)
{
    for (int64_t i = 0; i < tile->leaves; i++) {
        lk_tensor *x = cut(b->x, &tile->x_leaf[i]), *weights = cut(b->weights, &tile->x_leaf[i]);
        struct result alone = run(b, NULL, false, x, weights);
        for (int k = 0; k < b->n_params; k++)
            expect_same("a leaf's gradient", alone.grad[k],
                        (const float *)lk_tensor_data(r->grad[k]) +
                            i * lk_tensor_count(alone.grad[k]));
        result_free(&alone);
        lk_tensor_free(x);
        lk_tensor_free(weights);
    }
}

static void check(kind k, int64_t rows, int64_t columns)
{
    struct bench b = bench_new(k);
    lk_tiling *tiling = tiling_new(rows, columns);
    lk_tile *tile = tile_new(k, tiling);
    struct result whole = run(&b, NULL, false, b.x, b.weights),
                  plain = run(&b, tile, false, b.x, b.weights),
                  leaves = run(&b, tile, true, b.x, b.weights);
    expect_same("y", whole.y, lk_tensor_data(plain.y));
    expect_same("dx", whole.dx, lk_tensor_data(plain.dx));
    expect_same("y by tile", whole.y, lk_tensor_data(leaves.y));
    expect_same("dx by tile", whole.dx, lk_tensor_data(leaves.dx));
    for (int i = 0; rows * columns == 1 && i < b.n_params; i++) {
        expect_same("a gradient", whole.grad[i], lk_tensor_data(plain.grad[i]));
        expect_same("a gradient by tile", whole.grad[i], lk_tensor_data(leaves.grad[i]));
    }
    check_leaves(&b, tile, &leaves);
    result_free(&whole);
    result_free(&plain);
    result_free(&leaves);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
    bench_free(&b);
}

TEST(tiles_have_the_bits_of_the_whole)
{
    for (kind k = LINEAR; k <= LCN; k = (kind)(k + 1)) {
        check(k, 1, 1);
        check(k, 3, 2);
        check(k, 9, 4); /* some are empty */
    }
}

TEST(what_does_not_fit_is_refused)
{
    lk_tiling *tiling = tiling_new(2, 2);
    lk_tile *point = tile_new(LINEAR, tiling), *window = tile_new(LCN, tiling);
    struct bench b = bench_new(LINEAR);
    lk_layer_norm_attr two = {.axes = 2}, negative = {.eps = -1};
    lk_tape *tape = NULL;
    lk_var x, w, v, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, b.x, &x));
    ASSERT_OK(lk_constant(tape, b.param[0], &w));
    ASSERT_OK(lk_constant(tape, b.param[1], &v));
    ASSERT_FAILS(lk_dist_tile_linear(NULL, x, w, v, LK_ACT_NONE, "l", &y), LK_EINVAL,
                 "tile is NULL");
    ASSERT_FAILS(lk_dist_tile_linear(point, x, w, v, LK_ACT_GELU, "l", &y), LK_EINVAL,
                 "tile_linear with activation number 4");
    ASSERT_FAILS(lk_dist_tile_linear(point, x, v, v, LK_ACT_NONE, "l", &y), LK_ESHAPE,
                 "they must be [4 tiles, in, out]");
    ASSERT_FAILS(lk_dist_tile_linear(point, x, w, w, LK_ACT_NONE, "l", &y), LK_ESHAPE,
                 "it must be [4 tiles, 4]");
    ASSERT_FAILS(lk_dist_tile_linear(point, w, w, v, LK_ACT_NONE, "l", &y), LK_ESHAPE,
                 "this rank holds positions");
    ASSERT_FAILS(lk_dist_tile_layer_norm(point, x, v, v, &two, "n", &y), LK_EINVAL, "over 2 axes");
    ASSERT_FAILS(lk_dist_tile_layer_norm(point, x, v, v, &negative, "n", &y), LK_EINVAL, "eps -1");
    ASSERT_FAILS(lk_dist_tile_layer_norm(point, x, v, v, NULL, "n", &y), LK_ESHAPE,
                 "it must be [4 tiles, 3]");
    ASSERT_FAILS(lk_dist_tile_lcn(point, x, 5, 3, "c", &y), LK_EINVAL, "was not made for it");
    ASSERT_FAILS(lk_dist_tile_lcn(window, x, 3, 3, "c", &y), LK_EINVAL, "axis 0 has a window of 3");
    lk_tape_free(tape);
    bench_free(&b);
    lk_tile_free(point);
    lk_tile_free(window);
    lk_tiling_free(tiling);
}

/* ---- memory ---- */

static float values[2 * ROWS * COLUMNS * IN], grads[LK_COUNT(values)];
static float params[2][ROWS * COLUMNS * IN], param_grads[2][LK_COUNT(params[0])];
static kind failing;

static lk_status pass(lk_tape *tape, const lk_tile *tile)
{
    lk_var x, p[2], y, sum;
    bool linear = failing == LINEAR || failing == LINEAR_RELU;
    lk_shape each = LK_SHAPE(ROWS, COLUMNS, IN), w = linear ? LK_SHAPE(IN, OUT) : LK_SHAPE(IN);
    lk_shape b = failing == SAMPLE_NORM ? each : LK_SHAPE(out_channels(failing));
    w = failing == SAMPLE_NORM ? each : w;
    LK_TRY(lk_leaf_data(tape, LK_F32, LK_SHAPE(2, ROWS, COLUMNS, IN), values, grads, &x));
    LK_TRY(lk_leaf_data(tape, LK_F32, w, params[0], param_grads[0], &p[0]));
    LK_TRY(lk_leaf_data(tape, LK_F32, b, params[1], param_grads[1], &p[1]));
    LK_TRY(apply(failing, tile, x, p, &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
}

static lk_status layer_run(void)
{
    lk_tape *tape = NULL;
    lk_tiling *tiling = NULL;
    lk_tile *tile = NULL;
    lk_tile_spec spec = spec_of(failing);
    lk_status st = lk_tiling_new(NULL, &(lk_grid){.ndim = 2, .dim = {1, 1}},
                                 (const int64_t[]){2, 2}, 0, &tiling);
    if (st == LK_OK)
        st = lk_tile_new(tiling, &spec, &tile);
    if (st == LK_OK)
        st = lk_tape_new(&tape);
    if (st == LK_OK)
        st = pass(tape, tile);
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
    return st;
}

TEST(every_allocation_may_fail)
{
    for (failing = LINEAR; failing <= SAMPLE_NORM; failing = (kind)(failing + 1))
        ASSERT_TRUE(test_every_allocation_fails(layer_run) > 10);
}
