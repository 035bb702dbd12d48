/* Layers that are cut by tiles and by features: y, dx, dw and db of ranks on grids of both against those of one
 * rank that has all tiles and all blocks, y and dx also against the layer on the whole sample, all by
 * bits; what a rank says without others; and what is refused.
 */
#include "feature_values.h"
#include "tiles/tile_conv_checks.h"

#include <lockstep/extra/conv.h>

/* The layer as a whole, for `apply` of a case, which has a rank's part of it. */
struct layer {
    const lk_feature_split *split;
    int64_t channels, filters, groups;
    lk_act act;
    bool linear, copies; /* copies: what joins dx stands before it */
};

/* ---- layers ---- */

static lk_status linear_apply(const struct conv_case *k, const lk_tile *tile, lk_var x, lk_var w,
                              lk_var b, lk_var *y)
{
    const struct layer *l = k->layer;
    lk_feature_linear_attr a = {
        .sum = LK_FEATURE_PARTIAL, .in = l->channels, .units = l->filters, .act = l->act};
    lk_shape shape = lk_shape_of(w);
    bool by_tile = shape.ndim == k->ndim + 3;
    ASSERT_OK(lk_reshape(w,
                         by_tile ? LK_SHAPE(shape.dim[0], k->x_channels, k->y_channels)
                                 : LK_SHAPE(k->x_channels, k->y_channels),
                         &w));
    if (!tile)
        return lk_dist_feature_linear(l->split, &a, x, w, b, "layer", y);
    return lk_dist_tile_feature_linear(tile, l->split, &a, x, w, b, "layer", y);
}

static lk_status conv_of_filters_apply(const struct conv_case *k, const lk_tile *tile, lk_var x,
                                       lk_var w, lk_var b, lk_var *y)
{
    const struct layer *l = k->layer;
    lk_feature_conv_attr a = {.conv = k->attr,
                              .sum = l->groups > 1 ? LK_FEATURE_JOINED : LK_FEATURE_PARTIAL,
                              .channels = l->channels,
                              .filters = l->filters};
    a.conv.groups = l->groups;
    a.conv.act = l->act;
    if (k->y_channels == 0) { /* filters of so many channels, but none of them */
        lk_shape shape = lk_shape_of(w);
        shape.dim[shape.ndim - 2] = l->channels / l->groups;
        ASSERT_OK(lk_reshape(w, shape, &w));
    }
    if (!tile)
        return lk_dist_feature_conv(l->split, &a, x, w, b, "layer", y);
    return lk_dist_tile_feature_conv(tile, l->split, &a, x, w, b, "layer", y);
}

static lk_status layer_apply(const struct conv_case *k, const lk_tile *tile, lk_var x, lk_var w,
                             lk_var b, lk_var *y)
{
    const struct layer *l = k->layer;
    if (l->copies && l->groups == 1)
        ASSERT_OK(lk_dist_feature_copy(l->split, x, l->filters, "copy", &x));
    return (l->linear ? linear_apply : conv_of_filters_apply)(k, tile, x, w, b, y);
}

/* ---- a rank's part ---- */

/* Which filters it has, and which channels of x. */
struct part {
    lk_range filters, channels;
};

static struct part part_of(const struct layer *l)
{
    lk_range all = {0, l->channels};
    return (struct part){range_of(l->split, l->filters),
                         l->groups > 1 ? range_of(l->split, l->channels) : all};
}

/* The case of what the rank has; `k` is that of the whole. */
static struct conv_case case_part(const struct conv_case *k, const struct layer *l)
{
    struct part p = part_of(l);
    struct conv_case own = *k;
    own.y_channels = p.filters.n;
    own.x_channels = p.channels.n;
    own.attr.groups = p.filters.n > 0 ? p.filters.n * l->groups / l->filters : 1;
    own.attr.groups = own.attr.groups > 0 ? own.attr.groups : 1;
    own.layer = l;
    return own;
}

static int64_t rows_of_weights(const struct conv_case *k)
{
    return conv_weights_count(k) / k->y_channels;
}

static struct conv_whole operands_part(const struct conv_case *k, const struct conv_whole *v,
                                       struct part p)
{
    lk_dtype t = k->dtype;
    int64_t x = conv_count(k, false) / k->x_channels, y = conv_count(k, true) / k->y_channels;
    return (struct conv_whole){array_part(t, v->x, x, k->x_channels, 1, p.channels),
                               array_part(t, v->dy, y, k->y_channels, 1, p.filters),
                               array_part(t, v->w, rows_of_weights(k), k->y_channels, 1, p.filters),
                               array_part(t, v->b, 1, k->y_channels, 1, p.filters)};
}

static struct conv_result result_part(const struct conv_case *k, const struct conv_result *r,
                                      struct part p, int64_t leaves)
{
    lk_dtype t = k->dtype;
    int64_t x = conv_count(k, false) / k->x_channels, y = conv_count(k, true) / k->y_channels;
    return (struct conv_result){
        .y = array_part(t, r->y, y, k->y_channels, 1, p.filters),
        .dx = array_part(t, r->dx, x, k->x_channels, 1, p.channels),
        .dw = array_part(t, r->dw, leaves * rows_of_weights(k), k->y_channels, 1, p.filters),
        .db = array_part(t, r->db, leaves, k->y_channels, 1, p.filters)};
}

/* ---- ranks against one rank ---- */

static const lk_grid alone = {.ndim = 2, .dim = {1, 1}};

/* One rank that has all, against the layer on the whole sample. */
static void assert_serial(const struct conv_case *k, const struct conv_whole *v,
                          const struct conv_result *one)
{
    struct conv_result serial = conv_serially(k, v);
    lk_box x = lk_box_whole(2, k->x), y = lk_box_whole(2, k->y);
    assert_part(k, one->y, serial.y, &y, &y, k->y_channels);
    assert_part(k, one->dx, serial.dx, &x, &x, k->x_channels);
    if (conv_leaves(k) == 1) {
        ASSERT_SAME_BITS(one->dw, serial.dw, conv_weights_bytes(k));
        ASSERT_SAME_BITS(one->db, serial.db, conv_bias_bytes(k));
    }
    conv_result_free(&serial);
}

static void case_on_ranks(const lk_mesh *mesh, struct cut_rule rule, struct conv_case k,
                          struct layer whole, uint64_t seed)
{
    lk_feature_split *one_split = split_new(NULL, rule),
                     *split = split_new(mesh->along[LK_AXIS_FEATURES], rule);
    struct layer own = whole;
    whole.split = one_split;
    own.split = split;
    k.apply = layer_apply;
    k.layer = &whole;
    struct part p = part_of(&own);
    struct conv_case mine = case_part(&k, &own);
    struct conv_whole v = conv_whole_new(&k, seed), held = operands_part(&k, &v, p);
    for (int plain = 0; plain < 2; plain++) {
        struct conv_result one = conv_run(&k, NULL, &alone, &v, !plain);
        struct conv_result want = result_part(&k, &one, p, plain ? 1 : conv_leaves(&k));
        struct conv_result got = conv_run(&mine, mesh->along[LK_AXIS_SPACE], &mesh->space, &held,
                                          !plain);
        assert_result(&mine, &got, &want);
        assert_serial(&k, &v, &one);
        conv_result_free(&one);
        conv_result_free(&want);
        conv_result_free(&got);
    }
    conv_whole_free(&v);
    conv_whole_free(&held);
    lk_feature_split_free(split);
    lk_feature_split_free(one_split);
}

/* On each grid of tiles and features that these ranks make. */
static void on_all_layouts(lk_comm *comm,
                           void (*run)(const lk_mesh *mesh, const lk_grid *grid, int features))
{
    static const int64_t grids[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 3}};
    for (int g = 0; g < 5; g++)
        for (int features = 1; features <= 3; features++) {
            lk_mesh_shape shape = {1, 2, {grids[g][0], grids[g][1]}, features, 1};
            lk_mesh *mesh;
            if (grids[g][0] * grids[g][1] * features != lk_comm_size(comm))
                continue;
            ASSERT_OK(lk_mesh_new(comm, &shape, &mesh));
            run(mesh, &mesh->space, features);
            lk_mesh_free(mesh);
        }
}

/* Sizes that follow from the window. */
static void case_finish(struct conv_case *k, const lk_grid *grid, int more_tiles)
{
    k->ndim = k->cut = 2;
    for (int d = 0; d < 2; d++) {
        lk_window *w = &k->attr.window;
        ASSERT_OK(lk_conv_out(k->x[d], w->kernel[d], w->stride[d], w->dilation[d], w->pad_lo[d],
                              w->pad_hi[d], &k->y[d]));
        ASSERT_TRUE(k->y[d] > 0);
        k->tiles[d] = grid->dim[d] + (d == 0 ? more_tiles : more_tiles / 2);
    }
    k->tiles[2] = 1;
}

/* Strides, kernels, dilations and padding that differ along the axes; filters of less than a block, of uneven
 * ones, and of several. */
static struct conv_case case_of(int i, const lk_grid *grid)
{
    static const int64_t filters[] = {1, 5, 16, 18, 33};
    struct conv_case k = {.dtype = i % 3 == 2 ? LK_F64 : LK_F32,
                          .bias = i % 4 != 1,
                          .x = {9 + i % 3, 8},
                          .x_channels = 1 + i % 3,
                          .y_channels = filters[i % 5],
                          .attr = {.window = {.kernel = {1 + i % 4, 3},
                                              .stride = {1 + i % 2, 1 + i / 2 % 3},
                                              .dilation = {1, 1 + i % 2},
                                              .pad_lo = {i % 3, 1},
                                              .pad_hi = {i % 2, 2}},
                                   .groups = 1},
                          .batch = i == 13 ? 0 : 1 + i % 3,
                          .shard = 2,
                          .step = 1};
    case_finish(&k, grid, i % 3);
    return k;
}

static struct layer layer_of(const struct conv_case *k, int i)
{
    return (struct layer){.channels = k->x_channels,
                          .filters = k->y_channels,
                          .groups = k->attr.groups,
                          .act = (lk_act)(i % 4),
                          .copies = true};
}

static void convs_on(const lk_mesh *mesh, const lk_grid *grid, int features)
{
    for (int i = 0; i < (ranks_brief() ? 5 : 20); i++) {
        struct conv_case k = case_of(i, grid);
        case_on_ranks(mesh, cut_rule_of(features, (i + i / 5) % CUT_RULES), k, layer_of(&k, i),
                      (uint64_t)i);
    }
}

RANKS_TEST(filters_on_tiles_have_the_bits_of_one_rank)
{
    on_all_layouts(comm, convs_on);
}

static void winograd_on(const lk_mesh *mesh, const lk_grid *grid, int features)
{
    for (int i = 0; i < 2 * CUT_RULES; i++) {
        struct conv_case k = {.dtype = i % 2 ? LK_F64 : LK_F32,
                              .bias = true,
                              .x = {10 + i, 13},
                              .x_channels = 3,
                              .y_channels = 18 + i,
                              .attr = {.window = {.kernel = {3, 3},
                                                  .stride = {1, 1},
                                                  .dilation = {1, 1},
                                                  .pad_lo = {1, 1},
                                                  .pad_hi = {1, 1}},
                                       .groups = 1,
                                       .algorithm = LK_CONV_WINOGRAD},
                              .batch = 2,
                              .shard = 1,
                              .step = 4};
        case_finish(&k, grid, i % 2);
        case_on_ranks(mesh, cut_rule_of(features, i % CUT_RULES), k, layer_of(&k, i), (uint64_t)i);
    }
}

RANKS_TEST(winograd_on_tiles_does_too)
{
    on_all_layouts(comm, winograd_on);
}

/* Depthwise, and two channels in a group; some ranks have none. */
static void groups_on(const lk_mesh *mesh, const lk_grid *grid, int features)
{
    static const struct cut_rule rules[] = {{8, 2}, {8, 4}, {16, 2}};
    (void)features;
    for (int i = 0; i < 6; i++) {
        struct conv_case k = case_of(i, grid);
        k.x_channels = k.y_channels = 16;
        k.attr.groups = i < 3 ? 16 : 8;
        struct layer l = layer_of(&k, i);
        case_on_ranks(mesh, rules[i % 3], k, l, (uint64_t)i);
    }
}

RANKS_TEST(whole_groups_on_tiles_do_too)
{
    on_all_layouts(comm, groups_on);
}

static void linears_on(const lk_mesh *mesh, const lk_grid *grid, int features)
{
    for (int i = 0; i < 12; i++) {
        struct conv_case k = case_of(i, grid);
        k.attr.window = (lk_window){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
        case_finish(&k, grid, i % 3);
        struct layer l = layer_of(&k, i);
        l.linear = true;
        case_on_ranks(mesh, cut_rule_of(features, i % CUT_RULES), k, l, (uint64_t)i);
    }
}

RANKS_TEST(units_on_tiles_do_too)
{
    on_all_layouts(comm, linears_on);
}

/* ---- what a rank says without others ---- */

/* dx of rank `rank` of two that cannot talk, dense: nothing travels along features. */
static void *partial_of(struct conv_case k, struct layer l, const struct conv_whole *v, int rank,
                        struct cut_rule rule)
{
    lk_feature_split *split;
    ASSERT_OK(lk_feature_split_new(NULL, rank, 2, rule.blocks, rule.least, &split));
    l.split = split;
    k.apply = layer_apply;
    struct part p = part_of(&l);
    struct conv_case mine = case_part(&k, &l);
    struct conv_whole held = operands_part(&k, v, p);
    struct conv_result r = conv_run(&mine, NULL, &alone, &held, true);
    void *dx = r.dx;
    r.dx = NULL;
    conv_result_free(&r);
    conv_whole_free(&held);
    lk_feature_split_free(split);
    return dx;
}

RANKS_TEST(partial_gradients_are_subtrees_of_the_whole)
{
    const struct cut_rule rules[] = {{4, 2}, {16, 16}}; /* of the second rank 1 has no filters */
    for (int i = 0; i < 4; i++) {
        struct cut_rule rule = rules[i / 2];
        struct conv_case k = case_of(3, &alone);
        struct layer l = layer_of(&k, 0);
        if (i % 2) {
            k.attr.window = (lk_window){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
            case_finish(&k, &alone, 1);
            l.linear = true;
        }
        l.copies = false;
        struct conv_whole v = conv_whole_new(&k, 3);
        void *half[] = {partial_of(k, l, &v, 0, rule), partial_of(k, l, &v, 1, rule)};
        lk_feature_split *one = split_new(NULL, rule);
        l.split = one;
        k.apply = layer_apply;
        k.layer = &l;
        struct conv_result r = conv_run(&k, NULL, &alone, &v, true);
        for (int64_t j = 0; j < conv_count(&k, false); j++) {
            double a = real_get(k.dtype, half[0], j), b = real_get(k.dtype, half[1], j);
            ASSERT_TRUE(real_same(real_add(k.dtype, a, b), real_get(k.dtype, r.dx, j)));
            ASSERT_TRUE(i < 2 || b == 0);
        }
        conv_result_free(&r);
        conv_whole_free(&v);
        lk_feature_split_free(one);
        free(half[0]), free(half[1]);
    }
    (void)comm;
}

/* ---- what is refused ---- */

/* A tile of 4 positions, and operands of 5 channels and 8 filters. */
struct refused {
    lk_tiling *tiling;
    lk_tile *tile;
    lk_feature_split *split;
    lk_tape *tape;
    lk_var x, w, y;
    lk_feature_conv_attr conv;
    lk_feature_linear_attr linear;
};

static void refused_begin(struct refused *r, lk_tile_kind kind)
{
    static const float zeros[256];
    const lk_grid grid = {.ndim = 1, .dim = {1}};
    lk_tile_spec spec = {.kind = kind,
                         .window = {.ndim = 1, .kernel = {1}, .stride = {1}, .dilation = {1}},
                         .in = {4},
                         .out = {4}};
    memset(r, 0, sizeof *r);
    ASSERT_OK(lk_tiling_new(NULL, &grid, (const int64_t[]){2}, 0, &r->tiling));
    ASSERT_OK(lk_tile_new(r->tiling, &spec, &r->tile));
    r->split = split_new(NULL, (struct cut_rule){4, 2});
    ASSERT_OK(lk_tape_new(&r->tape));
    ASSERT_OK(lk_constant_data(r->tape, LK_F32, LK_SHAPE(1, 4, 5), zeros, &r->x));
    ASSERT_OK(lk_constant_data(r->tape, LK_F32, LK_SHAPE(1, 5, 8), zeros, &r->w));
    r->conv.sum = r->linear.sum = LK_FEATURE_PARTIAL;
    r->conv.channels = r->linear.in = 5;
    r->conv.filters = r->linear.units = 8;
}

static void refused_end(struct refused *r)
{
    lk_tape_free(r->tape);
    lk_feature_split_free(r->split);
    lk_tile_free(r->tile);
    lk_tiling_free(r->tiling);
}

#define CONV_FAILS(status, text)                                                                 \
    ASSERT_FAILS(                                                                                \
        lk_dist_tile_feature_conv(r.tile, r.split, &r.conv, r.x, r.w, LK_NO_VAR, "layer", &r.y), \
        status, text)
#define LINEAR_FAILS(status, text)                                                            \
    ASSERT_FAILS(lk_dist_tile_feature_linear(r.tile, r.split, &r.linear, r.x, r.w, LK_NO_VAR, \
                                             "layer", &r.y),                                  \
                 status, text)

RANKS_TEST(convs_that_cannot_be_are_refused)
{
    struct refused r;
    (void)comm;
    refused_begin(&r, LK_TILE_CONV);
    ASSERT_FAILS(lk_dist_tile_feature_conv(NULL, r.split, &r.conv, r.x, r.w, r.w, "c", &r.y),
                 LK_EINVAL, "tile_feature_conv: tile is NULL");
    ASSERT_FAILS(lk_dist_tile_feature_conv(r.tile, NULL, &r.conv, r.x, r.w, r.w, "c", &r.y),
                 LK_EINVAL, "split is NULL");
    ASSERT_FAILS(lk_dist_tile_feature_conv(r.tile, r.split, NULL, r.x, r.w, r.w, "c", &r.y),
                 LK_EINVAL, "attr is NULL");
    ASSERT_FAILS(lk_dist_tile_feature_conv(r.tile, r.split, &r.conv, r.x, r.w, r.w, "c", NULL),
                 LK_EINVAL, "out is NULL");
    ASSERT_OK(lk_dist_tile_feature_conv(r.tile, r.split, &r.conv, r.x, r.w, LK_NO_VAR, "c", &r.y));
    r.conv.sum = LK_FEATURE_JOINED;
    CONV_FAILS(LK_EINVAL, "the sum is number 0, where it must be partial: a copy or a gather_sum");
    r.conv.sum = LK_FEATURE_PARTIAL;
    r.conv.filters = 9;
    CONV_FAILS(LK_ESHAPE, "w is [1,5,8], where this rank has 9 features");
    r.conv.filters = 8;
    r.conv.channels = 6;
    CONV_FAILS(LK_ESHAPE, "x is [1,4,5], where this rank has 6 features");
    r.conv.conv.groups = 4;
    CONV_FAILS(LK_EINVAL, "tile_feature_conv: 6 channels and 8 filters in 4 groups");
    r.conv.conv.groups = 0;
    r.conv.channels = 5;
    r.conv.conv.act = LK_ACT_GELU;
    CONV_FAILS(LK_EINVAL, "tile_feature_conv with activation number 4");
    refused_end(&r);
    refused_begin(&r, LK_TILE_POINTWISE);
    CONV_FAILS(LK_EINVAL, "the tile is not of a convolution");
    refused_end(&r);
}

RANKS_TEST(linears_that_cannot_be_are_refused)
{
    struct refused r;
    (void)comm;
    refused_begin(&r, LK_TILE_POINTWISE);
    ASSERT_OK(lk_reshape(r.w, LK_SHAPE(5, 8), &r.w));
    ASSERT_OK(
        lk_dist_tile_feature_linear(r.tile, r.split, &r.linear, r.x, r.w, LK_NO_VAR, "l", &r.y));
    r.linear.sum = LK_FEATURE_SCATTERED;
    LINEAR_FAILS(LK_EINVAL, "the sum is number 1, where it must be partial");
    r.linear.cut = LK_FEATURE_IN;
    LINEAR_FAILS(LK_ENOTSUP, "inputs that are cut, at positions that are cut as well");
    r.linear.cut = (lk_feature_cut)7;
    LINEAR_FAILS(LK_EINVAL, "the cut is number 7");
    r.linear.cut = LK_FEATURE_OUT;
    r.linear.sum = LK_FEATURE_PARTIAL;
    r.linear.units = 9;
    LINEAR_FAILS(LK_ESHAPE, "w is [5,8], where this rank has 9 features");
    r.linear.units = -1;
    LINEAR_FAILS(LK_EINVAL, "5 inputs and -1 units");
    r.linear.units = 8;
    r.linear.act = LK_ACT_GELU;
    LINEAR_FAILS(LK_EINVAL, "tile_feature_linear with activation number 4");
    refused_end(&r);
}
