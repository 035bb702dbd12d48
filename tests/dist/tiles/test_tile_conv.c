/* Convolutions and transposed ones on tiles: y, dx, dw and db of ranks against those of one rank that has
 * all tiles, y and dx also against the op on the whole sample, all by bits; and gradients against
 * differences.
 */
#include "tile_conv_checks.h"
#include "tile_cuts.h"

#include <lockstep/coll.h>
#include <lockstep/extra/conv.h>

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
    k.fixed = between(s, 0, 5) == 0;
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

RANKS_TEST(random_shapes_have_the_bits_of_one_rank)
{
    bool is_slow = ranks_brief() || getenv("TEST_TRANSPORT");
    cases_check(comm, test_whole() ? 290 : is_slow ? 10 : 29, 7 + (uint64_t)lk_comm_size(comm));
}

RANKS_TEST(groups_of_ranks_do_too)
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    cases_check(half, 3, 70 + (uint64_t)rank % 2);
    lk_comm_close(half);
}

/* ---- cases by name ---- */

/* A convolution of squares, 2 channels to 3, tiles 3x2 or as many as there are ranks. */
static void named_check(lk_comm *comm, const char *name, int64_t size, lk_window window)
{
    for (int back = 0; back < 2; back++) {
        struct conv_case k = {.name = name,
                              .ndim = 2,
                              .cut = 2,
                              .back = back == 1,
                              .bias = true,
                              .x_channels = 2,
                              .y_channels = 3,
                              .batch = 3,
                              .shard = 1,
                              .step = 1,
                              .attr = {.window = window, .groups = 1}};
        struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
        lk_grid grid;
        for (int d = 0; d < 2; d++) {
            lk_window *w = &k.attr.window;
            int64_t out, *stride = &w->stride[d], *dilation = &w->dilation[d];
            w->kernel[d] = window.kernel[0];
            *stride = window.stride[0] > 0 ? window.stride[0] : 1;
            *dilation = window.dilation[0] > 0 ? window.dilation[0] : 1;
            w->pad_lo[d] = window.pad_lo[0];
            w->pad_hi[d] = window.pad_hi[0];
            ASSERT_OK(lk_conv_out(size, w->kernel[d], *stride, *dilation, w->pad_lo[d],
                                  w->pad_hi[d], &out));
            k.x[d] = back ? out : size;
            k.y[d] = back ? size : out;
            if (back)
                k.attr.extra[d] = (size + w->pad_lo[d] + w->pad_hi[d] -
                                   *dilation * (w->kernel[d] - 1) - 1) %
                                  *stride;
            k.tiles[d] = cut.dim[d] > 3 - d ? cut.dim[d] : 3 - d;
        }
        ASSERT_OK(lk_grid_make(comm, 2, cut.dim, NULL, &grid));
        case_check(comm, &grid, &k, (uint64_t)size);
    }
}

#define WINDOW(k, s, d, lo, hi) \
    ((lk_window){.kernel = {k}, .stride = {s}, .dilation = {d}, .pad_lo = {lo}, .pad_hi = {hi}})

RANKS_TEST(kernel_7_stride_2_padding_3)
{
    named_check(comm, "7x7/s2/p3", 16, WINDOW(7, 2, 1, 3, 3));
}

RANKS_TEST(kernel_3_stride_2_padding_1)
{
    named_check(comm, "3x3/s2/p1", 16, WINDOW(3, 2, 1, 1, 1));
}

RANKS_TEST(even_kernels)
{
    named_check(comm, "2x2", 9, WINDOW(2, 1, 1, 0, 0));
    named_check(comm, "4x4/s2/p1", 12, WINDOW(4, 2, 1, 1, 1));
    named_check(comm, "4x4 same", 11, WINDOW(4, 1, 1, 1, 2));
}

RANKS_TEST(dilation_2)
{
    named_check(comm, "3x3/d2/p2", 13, WINDOW(3, 1, 2, 2, 2));
}

RANKS_TEST(sizes_that_the_stride_does_not_divide)
{
    named_check(comm, "3x3/s2/p1 of 15", 15, WINDOW(3, 2, 1, 1, 1));
    named_check(comm, "2x2/s3 of 17", 17, WINDOW(2, 3, 1, 0, 0));
}

/* ---- gradients against differences ---- */

static struct conv_case smooth_case(bool back, lk_comm *comm, lk_grid *grid)
{
    struct conv_case k = {.ndim = 2,
                          .cut = 2,
                          .back = back,
                          .bias = true,
                          .dtype = LK_F64,
                          .x_channels = 2,
                          .y_channels = 2,
                          .batch = 2,
                          .shard = 1,
                          .step = 1,
                          .attr = {.window = WINDOW(3, 2, 1, 1, 1), .groups = 1}};
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    for (int d = 0; d < 2; d++) {
        k.attr.window.kernel[d] = 3;
        k.attr.window.stride[d] = 2;
        k.attr.window.pad_lo[d] = k.attr.window.pad_hi[d] = 1;
        k.x[d] = back ? 4 : 7;
        k.y[d] = back ? 7 : 4;
        k.tiles[d] = cut.dim[d] > 2 ? cut.dim[d] : 2;
    }
    ASSERT_OK(lk_grid_make(comm, 2, cut.dim, NULL, grid));
    return k;
}

/* The sum over ranks of <y, dy>; the gradients too, where `out` is not NULL. */
static double loss_of(lk_comm *comm, const lk_grid *grid, const struct conv_case *k,
                      const struct conv_whole *v, struct conv_result *out)
{
    struct conv_result r = conv_run(k, comm, grid, v, false);
    double own = 0, sum;
    for (int64_t i = 0; i < conv_count(k, true); i++)
        own += ((double *)r.y)[i] * ((double *)v->dy)[i];
    ASSERT_OK(lk_allreduce(comm, &own, &sum, 1, LK_F64, LK_REDUCE_SUM, "loss"));
    if (out)
        *out = r;
    else
        conv_result_free(&r);
    return sum;
}

RANKS_TEST(gradients_are_differences_of_the_loss)
{
    for (int back = 0; back < 2; back++) {
        lk_grid grid;
        struct conv_case k = smooth_case(back == 1, comm, &grid);
        struct conv_whole v = conv_whole_new(&k, 5);
        struct conv_result r;
        (void)loss_of(comm, &grid, &k, &v, &r);
        int64_t n[3] = {conv_count(&k, false), conv_weights_count(&k), k.y_channels};
        double *dx = conv_array(LK_F64, n[0]);
        ASSERT_OK(lk_allreduce(comm, r.dx, dx, n[0], LK_F64, LK_REDUCE_SUM, "dx"));
        double *at[3] = {v.x, v.w, v.b}, *grad[3] = {dx, r.dw, r.db};
        for (int j = 0; j < 3; j++)
            for (int64_t i = 0; i < n[j]; i += 1 + n[j] / 8) {
                double old = at[j][i], loss[2];
                for (int side = 0; side < 2; side++) { /* linear in each: any step will do */
                    at[j][i] = old + (side == 0 ? -0.5 : 0.5);
                    loss[side] = loss_of(comm, &grid, &k, &v, NULL);
                }
                at[j][i] = old;
                ASSERT_NEAR(loss[1] - loss[0], grad[j][i], 1e-11);
            }
        free(dx);
        conv_result_free(&r);
        conv_whole_free(&v);
    }
}

/* ---- what is refused, and what is not ---- */

/* A tile of smooth_case() on one rank, and operands of it on a tape. */
struct alone {
    struct conv_case k;
    struct conv_whole v;
    lk_tiling *tiling;
    lk_tile *tile;
    lk_tape *tape;
    lk_var x, w, b, y;
};

static void alone_begin(struct alone *a, lk_comm *comm, bool back)
{
    const lk_grid one = {.ndim = 2, .dim = {1, 1}};
    lk_grid grid;
    a->k = smooth_case(back, comm, &grid);
    a->v = conv_whole_new(&a->k, 3);
    conv_tile_new(&a->k, NULL, &one, &a->tiling, &a->tile);
    ASSERT_OK(lk_tape_new(&a->tape));
    ASSERT_OK(
        lk_constant_data(a->tape, LK_F64, LK_SHAPE(2, a->k.x[0], a->k.x[1], 2), a->v.x, &a->x));
    ASSERT_OK(lk_constant_data(a->tape, LK_F64, conv_weights_shape(&a->k), a->v.w, &a->w));
    ASSERT_OK(lk_constant_data(a->tape, LK_F64, LK_SHAPE(2), a->v.b, &a->b));
}

static void alone_end(struct alone *a)
{
    lk_tape_free(a->tape);
    lk_tile_free(a->tile);
    lk_tiling_free(a->tiling);
    conv_whole_free(&a->v);
}

RANKS_TEST(what_does_not_fit_the_tile_is_refused)
{
    struct alone a;
    lk_conv_attr attr;
    alone_begin(&a, comm, false);
    const lk_act none = LK_ACT_NONE;
    ASSERT_FAILS(lk_dist_tile_conv(NULL, a.x, a.w, a.b, &a.k.attr, none, "c", &a.y), LK_EINVAL,
                 "tile is NULL");
    ASSERT_FAILS(lk_dist_tile_conv_transpose(a.tile, a.x, a.w, a.b, &a.k.attr, "c", &a.y),
                 LK_EINVAL, "not of a transposed convolution");
    attr = (lk_conv_attr){.groups = 1};
    ASSERT_FAILS(
        lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &attr, none, "c", &a.y), LK_EINVAL,
        "along axis 0 stride, dilation and padding are 1, 1 and 0, of the tile 2, 1 and 1");
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &a.k.attr, LK_ACT_GELU, "c", &a.y),
                 LK_EINVAL,
                 "tile_conv with activation number 4: there are none, relu, sigmoid and");
    attr = a.k.attr;
    attr.act = LK_ACT_RELU;
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &attr, none, "c", &a.y), LK_EINVAL,
                 "attr->act is 1; the activation is an argument");
    attr = a.k.attr;
    attr.algorithm = LK_CONV_WINOGRAD;
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &attr, none, "c", &a.y), LK_EINVAL,
                 "the grid of the tile's window is 0, where the algorithm needs 4");
    attr = a.k.attr;
    attr.window.pad_hi[1] = 9;
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &attr, none, "c", &a.y), LK_EINVAL,
                 "along axis 1 the tile's sizes are 7 and 4");
    attr = a.k.attr;
    attr.extra[0] = 1;
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.b, &attr, none, "c", &a.y), LK_EINVAL,
                 "extra[0] is 1, where the tile's sizes need 0");
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.w, a.w, a.b, &a.k.attr, none, "c", &a.y), LK_ESHAPE,
                 "this rank holds positions");
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.b, a.b, &a.k.attr, none, "c", &a.y), LK_ESHAPE,
                 "with weights");
    ASSERT_FAILS(lk_dist_tile_conv(a.tile, a.x, a.w, a.w, &a.k.attr, none, "c", &a.y), LK_ESHAPE,
                 "with a bias");
    alone_end(&a);
}

RANKS_TEST(groups_of_winograd_are_not_cut_apart)
{
    struct alone a;
    lk_tile *tile;
    int64_t cuts[CONV_TILES + 1] = {0};
    alone_begin(&a, comm, false);
    lk_tile_spec spec = {.kind = LK_TILE_CONV,
                         .window = {.ndim = 2, .kernel = {3, 3}, .grid = 4},
                         .in = {18, 18},
                         .out = {16, 16}};
    ASSERT_FAILS(lk_tile_new(a.tiling, &spec, &tile), LK_EINVAL, "give the tiling a step of 4");
    cuts[1] = 5;
    for (int64_t i = 2; i <= a.tiling->tiles[0]; i++)
        cuts[i] = 18;
    spec.in_bounds.axis[0] = cuts;
    ASSERT_FAILS(lk_tile_new(a.tiling, &spec, &tile), LK_EINVAL, "a tile begins at 5 of axis 0");
    alone_end(&a);
}

/* Operands with any strides: the same bits. */
RANKS_TEST(operands_may_be_views)
{
    for (int back = 0; back < 2; back++) {
        struct alone a;
        lk_var y;
        const lk_tensor *t[2];
        alone_begin(&a, comm, back == 1);
        ASSERT_OK(conv_apply(&a.k, a.tile, a.x, a.w, a.b, &a.y));
        lk_var *in[2] = {&a.x, &a.w};
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(lk_transpose(*in[i], 0, 1, in[i]));
            ASSERT_OK(lk_copy(*in[i], in[i]));
            ASSERT_OK(lk_transpose(*in[i], 0, 1, in[i]));
        }
        ASSERT_OK(conv_apply(&a.k, a.tile, a.x, a.w, a.b, &y));
        ASSERT_OK(lk_value(a.y, &t[0]));
        ASSERT_OK(lk_value(y, &t[1]));
        ASSERT_SAME_BITS(lk_tensor_data(t[0]), lk_tensor_data(t[1]),
                         (size_t)lk_tensor_count(t[0]) * sizeof(double));
        alone_end(&a);
    }
}
