/* Convolutions whose filters are cut over ranks: any ranks have what plain loops compute, bit by bit, as
 * one rank has; by Winograd's algorithm what one rank has; groups and one block are lk_conv(). */
#include "feature_values.h"

struct conv_case {
    lk_dtype dtype;
    int64_t batch, x[2], channels, filters, kernel[2], stride[2], pad[2], groups, shard;
    bool bias;
    lk_act act;
    bool partial, winograd;
};

static int64_t out_of(const struct conv_case *k, int d)
{
    return (k->x[d] + 2 * k->pad[d] - k->kernel[d]) / k->stride[d] + 1;
}

/* Rows of channels of x, of filters of y, and of filters of w. */
struct sizes {
    int64_t x, y, w;
};

static struct sizes sizes_of(const struct conv_case *k)
{
    return (struct sizes){k->batch * k->x[0] * k->x[1], k->batch * out_of(k, 0) * out_of(k, 1),
                          k->kernel[0] * k->kernel[1] * k->channels / k->groups};
}

/* Operands and results as a whole. */
struct whole {
    void *x, *w, *b, *dy, *y, *dx, *dw, *db;
};

static void whole_free(struct whole *v)
{
    free(v->x), free(v->w), free(v->b), free(v->dy);
    free(v->y), free(v->dx), free(v->dw), free(v->db);
}

/* ---- what must come out, of one group ---- */

static lk_conv_shape shape_of(const struct conv_case *k)
{
    return (lk_conv_shape){.dtype = k->dtype,
                           .window = {.ndim = 2,
                                      .kernel = {k->kernel[0], k->kernel[1]},
                                      .stride = {k->stride[0], k->stride[1]},
                                      .pad_lo = {k->pad[0], k->pad[1]}},
                           .batch = k->batch,
                           .in_channels = k->channels,
                           .out_channels = k->filters,
                           .in = {k->x[0], k->x[1]},
                           .out = {out_of(k, 0), out_of(k, 1)},
                           .piece = k->shard};
}

/* dx: the tree over blocks of filters. */
static void plain_dx(const struct conv_case *k, const struct whole *v, struct cut_rule rule,
                     const void *dz)
{
    const struct sizes n = sizes_of(k);
    const int64_t size = plain_block(rule, k->filters), blocks = plain_blocks(rule, k->filters),
                  count = n.x * k->channels;
    char *part = array_new(k->dtype, blocks * count);
    for (int64_t b = 0; b < blocks; b++) {
        lk_range own = {b * size, k->filters - b * size < size ? k->filters - b * size : size};
        lk_conv_shape s = shape_of(k);
        s.out_channels = own.n;
        void *dz_own = array_part(k->dtype, dz, n.y, k->filters, 1, own);
        void *w_own = array_part(k->dtype, v->w, n.w, k->filters, 1, own);
        ASSERT_OK(lk__ref_conv_backward_data(&s, dz_own, w_own, NULL, false,
                                             part + (size_t)(b * count) * lk_dtype_size(k->dtype),
                                             NULL));
        free(dz_own), free(w_own);
    }
    lk__ref_tree_vectors(k->dtype, blocks, count, part, v->dx, NULL);
    plain_leaf(k->dtype, count, v->dx);
    free(part);
}

static struct whole whole_random(const struct conv_case *k)
{
    lk_dtype t = k->dtype;
    struct sizes n = sizes_of(k);
    return (struct whole){
        real_new(t, n.x * k->channels, 1, false), real_new(t, n.w * k->filters, 2, false),
        real_new(t, k->filters, 3, false),        real_new(t, n.y * k->filters, 4, false),
        array_new(t, n.y * k->filters),           array_new(t, n.x * k->channels),
        array_new(t, n.w * k->filters),           array_new(t, k->filters)};
}

static struct whole whole_new(const struct conv_case *k, struct cut_rule rule)
{
    const lk_conv_shape s = shape_of(k);
    const int64_t each = out_of(k, 0) * out_of(k, 1), rows = k->batch * each;
    struct whole v = whole_random(k);
    ASSERT_OK(lk__ref_conv_forward(&s, v.x, v.w, k->bias ? v.b : NULL, k->act, v.y, NULL));
    void *dz = plain_dz(k->dtype, k->act, rows * k->filters, v.dy, v.y);
    plain_dx(k, &v, rule, dz);
    lk__ref_conv_backward_weights(&s, v.x, dz, false, v.dw, NULL);
    plain_rows(k->dtype, rows, k->filters, k->shard * each, dz, v.db);
    free(dz);
    return v;
}

/* ---- runs ---- */

static lk_conv_attr attr_of(const struct conv_case *k)
{
    lk_conv_attr a = {.groups = k->groups,
                      .algorithm = k->winograd ? LK_CONV_WINOGRAD : LK_CONV_DIRECT,
                      .act = k->act};
    for (int d = 0; d < 2; d++) {
        a.window.stride[d] = k->stride[d];
        a.window.pad_lo[d] = a.window.pad_hi[d] = k->pad[d];
    }
    return a;
}

static lk_var layer(const lk_feature_split *s, const struct conv_case *k, lk_var x, lk_var w,
                    lk_var b)
{
    lk_feature_conv_attr a = {.conv = attr_of(k),
                              .sum = k->partial ? LK_FEATURE_PARTIAL : LK_FEATURE_JOINED,
                              .channels = k->channels,
                              .filters = k->filters};
    lk_var y;
    if (!s) {
        ASSERT_OK(lk_conv(x, w, b, &a.conv, &y));
        return y;
    }
    if (k->partial)
        ASSERT_OK(lk_dist_feature_copy(s, x, k->filters, "copy", &x));
    ASSERT_OK(lk_dist_feature_conv(s, &a, x, w, b, "conv", &y));
    return y;
}

/* s NULL: lk_conv().  `record`: the results become those of the whole, instead of being compared. */
static void case_run(const lk_feature_split *s, const struct conv_case *k, struct whole *v,
                     bool record)
{
    lk_dtype t = k->dtype;
    struct sizes n = sizes_of(k);
    lk_range all = {0, k->channels},
             filters = s ? range_of(s, k->filters) : (lk_range){0, k->filters};
    lk_range channels = s && k->groups > 1 ? range_of(s, k->channels) : all;
    void *x_part = array_part(t, v->x, n.x, k->channels, 1, channels);
    void *w_part = array_part(t, v->w, n.w, k->filters, 1, filters);
    void *b_part = array_part(t, v->b, 1, k->filters, 1, filters);
    void *dy_part = array_part(t, v->dy, n.y, k->filters, 1, filters);
    void *dx = array_new(t, n.x * channels.n), *dw = array_new(t, n.w * filters.n);
    void *db = array_new(t, filters.n);
    lk_tape *tape;
    lk_var x, w, b, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(
        lk_leaf_data(tape, t, LK_SHAPE(k->batch, k->x[0], k->x[1], channels.n), x_part, dx, &x));
    ASSERT_OK(lk_leaf_data(tape, t,
                           LK_SHAPE(k->kernel[0], k->kernel[1], k->channels / k->groups, filters.n),
                           w_part, dw, &w));
    ASSERT_OK(lk_leaf_data(tape, t, LK_SHAPE(filters.n), b_part, db, &b));
    leaf_postpone(s, w);
    leaf_postpone(s, b);
    y = layer(s, k, x, w, k->bias ? b : LK_NO_VAR);
    if (record)
        memcpy(v->y, value_of(y), (size_t)(n.y * k->filters) * lk_dtype_size(t));
    assert_part_of(t, value_of(y), v->y, n.y, k->filters, 1, filters);
    backward_from(y, dy_part);
    if (record) {
        memcpy(v->dx, dx, (size_t)(n.x * k->channels) * lk_dtype_size(t));
        memcpy(v->dw, dw, (size_t)(n.w * k->filters) * lk_dtype_size(t));
        memcpy(v->db, db, (size_t)k->filters * lk_dtype_size(t));
    }
    assert_part_of(t, dx, v->dx, n.x, k->channels, 1, channels);
    assert_part_of(t, dw, v->dw, n.w, k->filters, 1, filters);
    if (k->bias)
        assert_part_of(t, db, v->db, 1, k->filters, 1, filters);
    lk_tape_free(tape);
    free(x_part), free(w_part), free(b_part), free(dy_part), free(dx), free(dw), free(db);
}

static struct conv_case case_of(int i)
{
    static const int64_t filters[] = {1, 5, 16, 18};
    return (struct conv_case){.dtype = i % 3 == 2 ? LK_F64 : LK_F32,
                              .batch = 1 + i % 3,
                              .x = {4 + i % 2, 3},
                              .channels = 1 + i % 3,
                              .filters = filters[i % 4],
                              .kernel = {1 + i % 3, 2},
                              .stride = {1 + i % 2, 1},
                              .pad = {i % 2, 1},
                              .groups = 1,
                              .shard = 2,
                              .bias = i % 4 != 1,
                              .act = (lk_act)((i + i / 4) % 4),
                              .partial = i % 5 == 0};
}

RANKS_TEST(filters_over_ranks_have_the_bits_of_one_rank)
{
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < 12; i++) {
            struct conv_case k = case_of(i);
            struct whole v = whole_new(&k, rule);
            case_run(ranks, &k, &v, false);
            case_run(one, &k, &v, false);
            whole_free(&v);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

RANKS_TEST(winograd_over_ranks_has_the_bits_of_one_rank)
{
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < 4; i++) {
            struct conv_case k = {i % 2 ? LK_F64 : LK_F32,
                                  2,
                                  {7, 6},
                                  3,
                                  18 + i,
                                  {3, 3},
                                  {1, 1},
                                  {1, 1},
                                  1,
                                  1,
                                  true,
                                  (lk_act)i,
                                  false,
                                  true};
            struct whole v = whole_random(&k);
            case_run(one, &k, &v, true);
            case_run(ranks, &k, &v, false);
            whole_free(&v);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

/* Blocks of whole groups: no bit depends on them. */
RANKS_TEST(groups_over_ranks_are_lk_conv)
{
    const struct cut_rule rules[] = {{8, 2}, {8, 4}, {16, 2}};
    for (int r = 0; r < 3; r++) {
        lk_feature_split *ranks = split_new(comm, rules[r]), *one = split_new(NULL, rules[r]);
        for (int i = 0; i < 4; i++) { /* depthwise, and two channels in a group */
            struct conv_case k = {
                i % 2 ? LK_F64 : LK_F32, 2, {5, 4}, 16,        16,    {3, 2}, {1, 2}, {1, 0},
                i < 2 ? 16 : 8,          1, true,   (lk_act)i, false, false};
            struct whole v = whole_random(&k);
            ASSERT_TRUE(lk_feature_has_whole_groups(ranks, k.groups, 16, 16));
            case_run(NULL, &k, &v, true);
            case_run(one, &k, &v, false);
            case_run(ranks, &k, &v, false);
            whole_free(&v);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

RANKS_TEST(one_block_is_lk_conv)
{
    lk_feature_split *one = split_new(NULL, (struct cut_rule){1, 1});
    lk_feature_split *ranks = split_new(comm, (struct cut_rule){MOST_BLOCKS, 64});
    for (int i = 0; i < 12; i++) {
        struct conv_case k = case_of(i);
        struct whole v = whole_random(&k);
        case_run(NULL, &k, &v, true);
        case_run(one, &k, &v, false);
        case_run(ranks, &k, &v, false);
        whole_free(&v);
    }
    lk_feature_split_free(one);
    lk_feature_split_free(ranks);
}

/* The sum of dy y, of f64, as x is. */
static double loss_of(const lk_feature_split *s, const struct conv_case *k, const struct whole *v)
{
    struct sizes n = sizes_of(k);
    double sum = 0;
    lk_tape *tape;
    lk_var x, w;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(k->batch, k->x[0], k->x[1], k->channels),
                               v->x, &x));
    ASSERT_OK(lk_constant_data(
        tape, LK_F64, LK_SHAPE(k->kernel[0], k->kernel[1], k->channels, k->filters), v->w, &w));
    const double *y = value_of(layer(s, k, x, w, LK_NO_VAR)), *dy = v->dy;
    for (int64_t i = 0; i < n.y * k->filters; i++)
        sum += y[i] * dy[i];
    lk_tape_free(tape);
    return sum;
}

RANKS_TEST(gradients_agree_with_differences)
{
    const struct cut_rule rule = {4, 1};
    const struct conv_case k = {LK_F64, 2, {3, 3}, 2,     5,           {2, 2}, {1, 2},
                                {1, 0}, 1, 1,      false, LK_ACT_NONE, false,  false};
    struct whole v = whole_random(&k);
    lk_feature_split *one = split_new(NULL, rule);
    double *in[] = {v.x, v.w}, *grad[] = {v.dx, v.dw}, h = 1e-4;
    const int64_t n[] = {sizes_of(&k).x * k.channels, sizes_of(&k).w * k.filters};
    (void)comm;
    case_run(one, &k, &v, true);
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < n[i]; j++) {
            double was = in[i][j], up, down;
            in[i][j] = was + h, up = loss_of(one, &k, &v);
            in[i][j] = was - h, down = loss_of(one, &k, &v);
            in[i][j] = was;
            ASSERT_NEAR((up - down) / (2 * h), grad[i][j], 1e-9);
        }
    lk_feature_split_free(one);
    whole_free(&v);
}

RANKS_TEST(misuse_is_refused)
{
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 2});
    lk_feature_conv_attr a = {.conv.groups = 4, .channels = 12, .filters = 20};
    float zeros[256] = {0};
    lk_tape *tape;
    lk_var x, w, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(1, 4, 12), zeros, &x));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(1, 12, 21), zeros, &w));
    ASSERT_FAILS(lk_dist_feature_conv(s, NULL, x, w, LK_NO_VAR, "c", &y), LK_EINVAL,
                 "attr is NULL");
    ASSERT_FAILS(lk_dist_feature_conv(s, &a, x, w, LK_NO_VAR, "c", &y), LK_EINVAL,
                 "do not have whole groups");
    a.conv.groups = 1;
    ASSERT_FAILS(lk_dist_feature_conv(s, &a, x, w, LK_NO_VAR, "c", &y), LK_ESHAPE,
                 "w is f32[1,12,21], where this rank has");
    a.conv.act = LK_ACT_GELU;
    ASSERT_OK(lk_constant_data(
        tape, LK_F32, LK_SHAPE(1, 12, lk_feature_range(s, lk_comm_rank(comm), 20).n), zeros, &w));
    ASSERT_FAILS(lk_dist_feature_conv(s, &a, x, w, LK_NO_VAR, "c", &y), LK_EINVAL,
                 "feature_conv with activation number 4");
    a.sum = LK_FEATURE_SCATTERED;
    ASSERT_FAILS(lk_dist_feature_conv(s, &a, x, w, LK_NO_VAR, "c", &y), LK_EINVAL,
                 "the sum is number 1");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}
