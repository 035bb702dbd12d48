/* What callers rely on in the weight gradient: batches and images that are split, windows, empty
 * operands, error bounds, bad input, failing allocations. */
#include "conv_gradient.h"
#include "faults.h"

#include <lockstep/extra/conv.h>
#include <lockstep/extra/reduce.h>

#include <float.h>

static const lk_conv_shape layer = {.window.ndim = 2,
                                    .batch = 8,
                                    .in_channels = 10,
                                    .out_channels = 20,
                                    .in = {12, 10},
                                    .window.kernel = {3, 3},
                                    .window.pad_lo = {1, 1}};

static void gradient(const lk_conv_shape *s, const void *x, const void *dy, void *dw)
{
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(s, &plan));
    ASSERT_OK(lk_conv_backward_weights(plan, x, dy, false, dw));
    lk_conv_plan_free(plan);
}

TEST(two_halves_of_a_batch_add_up_to_the_whole)
{
    struct gradient_case c;
    gradient_case_new(&c, &layer, LK_F32, false);
    float *whole = c.dw.data;
    float *first = malloc(c.dw_bytes), *second = malloc(c.dw_bytes);
    ASSERT_TRUE(first && second);
    gradient(&c.shape, c.x.data, c.dy.data, whole);
    lk_conv_shape half = c.shape;
    half.batch /= 2;
    gradient(&half, c.x.data, c.dy.data, first);
    gradient(&half, (float *)c.x.data + c.s.x_extent / 2, (float *)c.dy.data + c.s.y_extent / 2,
             second);
    for (int64_t i = 0; i < c.s.w_extent; i++)
        first[i] = first[i] + second[i];
    ASSERT_SAME_BITS(first, whole, c.dw_bytes);
    free(first);
    free(second);
    gradient_case_free(&c);
}

TEST(pieces_may_be_joined_by_the_tree_of_reduce)
{
    struct gradient_case c;
    lk_conv_shape s = layer;
    s.batch = 7;
    gradient_case_new(&c, &s, LK_F64, false);
    double *one = malloc(c.dw_bytes);
    lk_tree *tree;
    ASSERT_TRUE(one);
    ASSERT_OK(lk_tree_new(LK_F64, c.s.w_extent, &tree));
    lk_conv_shape sample = c.shape;
    sample.batch = 1;
    for (int64_t n = 0; n < s.batch; n++) {
        gradient(&sample, (double *)c.x.data + n * c.s.x_sample,
                 (double *)c.dy.data + n * c.s.y_sample, one);
        ASSERT_OK(lk_tree_push(tree, one));
    }
    ASSERT_OK(lk_tree_finish(tree, one));
    gradient(&c.shape, c.x.data, c.dy.data, c.dw.data);
    ASSERT_SAME_BITS(one, c.dw.data, c.dw_bytes);
    lk_tree_free(tree);
    free(one);
    gradient_case_free(&c);
}

/* Output rows and columns [lo, hi) of an image, and the input they reach. */
struct window {
    int64_t out_lo[2], out_hi[2], in_lo[2], in_hi[2];
};

static lk_conv_shape window_shape(const struct gradient_case *c, const struct window *w)
{
    lk_conv_shape s = c->shape;
    for (int d = 0; d < 2; d++) {
        s.in[d] = w->in_hi[d] - w->in_lo[d];
        s.out[d] = w->out_hi[d] - w->out_lo[d];
        s.window.pad_lo[d] = c->s.window.pad_lo[d + 1] - w->out_lo[d] * c->s.window.stride[d + 1] +
                             w->in_lo[d];
    }
    return s;
}

/* A dense copy of rows and columns [lo, hi). */
static float *cut_out(const float *from, int64_t sample, const int64_t *step, int64_t channels,
                      int64_t batch, const int64_t *lo, const int64_t *hi)
{
    int64_t row = (hi[1] - lo[1]) * channels;
    float *all = malloc((size_t)(batch * (hi[0] - lo[0]) * row) * sizeof *all), *to = all;
    ASSERT_TRUE(all);
    for (int64_t n = 0; n < batch; n++)
        for (int64_t h = lo[0]; h < hi[0]; h++, to += row)
            memcpy(to, from + n * sample + h * step[0] + lo[1] * step[1], (size_t)row * sizeof *to);
    return all;
}

static void check_window(const struct gradient_case *c, const struct window *w)
{
    const float *x = c->x.data, *dy = c->dy.data;
    const int64_t *xs = &c->s.x_step[1], *ys = &c->s.y_step[1];
    float *from_copy = malloc(c->dw_bytes);
    ASSERT_TRUE(from_copy);
    lk_conv_shape dense = window_shape(c, w), s = dense;
    float *x_copy = cut_out(x, c->s.x_sample, xs, s.in_channels, s.batch, w->in_lo, w->in_hi);
    float *y_copy = cut_out(dy, c->s.y_sample, ys, s.out_channels, s.batch, w->out_lo, w->out_hi);
    gradient(&dense, x_copy, y_copy, from_copy);
    s.x_sample = c->s.x_sample;
    s.y_sample = c->s.y_sample;
    for (int d = 0; d < 2; d++) {
        s.x_step[d] = xs[d];
        s.y_step[d] = ys[d];
    }
    gradient(&s, x + w->in_lo[0] * xs[0] + w->in_lo[1] * xs[1],
             dy + w->out_lo[0] * ys[0] + w->out_lo[1] * ys[1], c->dw.data);
    ASSERT_SAME_BITS(from_copy, c->dw.data, c->dw_bytes);
    lk__ref_conv_backward_weights(&dense, x_copy, y_copy, false, c->dw.data, NULL);
    ASSERT_SAME_BITS(from_copy, c->dw.data, c->dw_bytes);
    free(x_copy);
    free(y_copy);
    free(from_copy);
}

TEST(a_tile_in_its_image_equals_the_tile_cut_out)
{
    static const int64_t channels[][2] = {{10, 20}, {3, 16}, {40, 8}};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        struct gradient_case c;
        lk_conv_shape s = layer;
        s.batch = 2;
        s.in_channels = channels[i][0];
        s.out_channels = channels[i][1];
        gradient_case_new(&c, &s, LK_F32, false);
        /* Four tiles with their halos, which end at the image's border. */
        for (int tile = 0; tile < 4; tile++) {
            struct window w;
            for (int d = 0; d < 2; d++) {
                bool second = tile >> d & 1;
                int64_t middle = c.s.out[d + 1] / 2;
                w.out_lo[d] = second ? middle : 0;
                w.out_hi[d] = second ? c.s.out[d + 1] : middle;
                w.in_lo[d] = second ? middle - 1 : 0;
                w.in_hi[d] = second ? c.s.in[d + 1] : middle + 1;
            }
            check_window(&c, &w);
        }
        gradient_case_free(&c);
    }
}

TEST(channels_of_a_wider_tensor_can_be_read)
{
    struct gradient_case c;
    lk_conv_shape s = layer;
    s.batch = 3;
    s.x_step[1] = s.in_channels + 3;
    s.y_step[1] = s.out_channels + 1;
    gradient_case_new(&c, &s, LK_F64, false);
    double *want = malloc(c.dw_bytes);
    ASSERT_TRUE(want);
    lk__ref_conv_backward_weights(&c.shape, c.x.data, c.dy.data, false, want, NULL);
    gradient(&c.shape, c.x.data, c.dy.data, c.dw.data);
    ASSERT_SAME_BITS(want, c.dw.data, c.dw_bytes);
    free(want);
    gradient_case_free(&c);
}

TEST(an_infinity_beside_the_padding_makes_no_nan)
{
    struct gradient_case c;
    lk_conv_shape s = layer;
    s.batch = 1;
    gradient_case_new(&c, &s, LK_F32, false);
    for (int64_t i = 0; i < c.s.y_extent; i++)
        ((float *)c.dy.data)[i] = i < c.s.y_step[1] ? INFINITY : 1; /* the first output row */
    for (int64_t i = 0; i < c.s.x_extent; i++)
        ((float *)c.x.data)[i] = 1;
    gradient(&c.shape, c.x.data, c.dy.data, c.dw.data);
    const float *dw = c.dw.data;
    int64_t row = c.s.w_extent / 3;
    for (int64_t i = 0; i < c.s.w_extent; i++)
        ASSERT_TRUE(i < row ? isfinite(dw[i]) : isinf(dw[i]));
    gradient_case_free(&c);
}

/* |error| <= (chain + levels of the tree) u sum |x dy|, a little more for products of (1 + u). */
TEST(errors_stay_within_the_bound_of_the_chain)
{
    struct gradient_case c;
    gradient_case_new(&c, &layer, LK_F32, false);
    gradient(&c.shape, c.x.data, c.dy.data, c.dw.data);
    const float *x = c.x.data, *dy = c.dy.data, *dw = c.dw.data;
    double steps = (double)(c.s.out[1] * c.s.out[2] + 3);
    for (int64_t i = 0; i < c.s.w_extent; i += 7) {
        int64_t oc = i % 20, ic = i / 20 % 10, kw = i / 200 % 3, kh = i / 600;
        double sum = 0, size = 0;
        for (int64_t p = 0; p < 8 * c.s.out[1] * c.s.out[2]; p++) {
            int64_t h = p / 10 % 12 + kh - 1, w = p % 10 + kw - 1;
            if (h < 0 || h >= 12 || w < 0 || w >= 10)
                continue;
            double term = (double)x[((p / 120 * 12 + h) * 10 + w) * 10 + ic] *
                          (double)dy[p * 20 + oc];
            sum += term;
            size += fabs(term);
        }
        ASSERT_NEAR(dw[i], sum, 1.01 * steps * 0x1p-24 * size);
    }
    gradient_case_free(&c);
}

static void check_empty(lk_conv_shape s, bool accumulate)
{
    enum { N = 9 * 10 * 20 };
    static float dw[N], want[N];
    float some[4] = {0};
    lk_conv_plan *plan;
    for (int i = 0; i < N; i++) {
        dw[i] = (float)i;
        want[i] = accumulate ? dw[i] : 0;
    }
    s.dtype = LK_F32;
    ASSERT_OK(lk_conv_plan_new(&s, &plan));
    ASSERT_OK(lk_conv_backward_weights(plan, some, some, accumulate, dw));
    ASSERT_OK(lk_conv_backward_weights(plan, s.in[0] == 0 || s.batch == 0 ? NULL : some,
                                       s.out[0] == 0 || s.batch == 0 ? NULL : some, true, dw));
    if (s.in_channels > 0)
        ASSERT_SAME_BITS(dw, want, sizeof dw);
    lk_conv_plan_free(plan);
}

TEST(nothing_to_sum_gives_zeros_or_leaves_what_there_was)
{
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        lk_conv_shape s = layer;
        s.out[0] = s.out[1] = 1;
        s.in[0] = s.in[1] = 1;
        s.batch = 0;
        check_empty(s, accumulate);
        s.batch = 2;
        s.out[0] = 0;
        check_empty(s, accumulate);
        s.out[0] = 3;
        s.in[0] = 0;
        check_empty(s, accumulate);
        s.in[0] = 1;
        s.in_channels = 0;
        check_empty(s, accumulate);
    }
}

TEST(wrong_operands_are_named)
{
    struct gradient_case c;
    lk_conv_plan *plan;
    gradient_case_new(&c, &layer, LK_F32, false);
    void *x = c.x.data, *dy = c.dy.data, *dw = c.dw.data;
    ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
    ASSERT_FAILS(lk_conv_backward_weights(NULL, x, dy, false, dw), LK_EINVAL, "plan");
    ASSERT_FAILS(lk_conv_backward_weights(plan, NULL, dy, false, dw), LK_EINVAL, "x is NULL");
    ASSERT_FAILS(lk_conv_backward_weights(plan, x, NULL, false, dw), LK_EINVAL, "dy is NULL");
    ASSERT_FAILS(lk_conv_backward_weights(plan, x, dy, false, NULL), LK_EINVAL, "dw is NULL");
    ASSERT_FAILS(lk_conv_backward_weights(plan, x, dy, false, x), LK_EOVERLAP, "dw");
    ASSERT_FAILS(lk_conv_backward_weights(plan, x, dw, false, dw), LK_EOVERLAP, "dy");
    lk_conv_plan_free(plan);
    gradient_case_free(&c);
}

static struct gradient_case fault_case;

static lk_status make_and_run(void)
{
    lk_conv_plan *plan = NULL;
    lk_status st = lk_conv_plan_new(&fault_case.shape, &plan);
    for (int i = 0; st == LK_OK && i < 2; i++)
        st = lk_conv_backward_weights(plan, fault_case.x.data, fault_case.dy.data, false,
                                      fault_case.dw.data);
    lk_conv_plan_free(plan);
    return st;
}

TEST(a_failing_allocation_leaves_nothing_behind)
{
    static const int64_t groups[] = {1, 10};
    for (int i = 0; i < 2; i++) {
        lk_conv_shape s = layer;
        s.groups = groups[i];
        gradient_case_new(&fault_case, &s, LK_F32, false);
        ASSERT_TRUE(test_every_allocation_fails(make_and_run) > 3);
        gradient_case_free(&fault_case);
    }
}

TEST(the_second_call_allocates_nothing)
{
    struct gradient_case c;
    lk_conv_plan *plan;
    gradient_case_new(&c, &layer, LK_F32, false);
    ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
    ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, false, c.dw.data));
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, false, c.dw.data));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    lk_conv_plan_free(plan);
    gradient_case_free(&c);
}

TEST(a_piece_beyond_the_batch_is_all_of_it)
{
    lk_conv_shape s = layer;
    struct gradient_case c;
    lk_conv_plan *plan;
    s.piece = s.batch;
    gradient_case_new(&c, &s, LK_F32, false);
    for (int i = 0; i < 2; i++) {
        c.shape.piece = i == 0 ? s.batch : INT64_MAX;
        ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
        ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, i == 1, c.dw.data));
        lk_conv_plan_free(plan);
    }
    /* The second one added the same to the first, which is exact. */
    const float *dw = c.dw.data;
    ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
    float twice = dw[0];
    ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, false, c.dw.data));
    ASSERT_TRUE(twice == 2 * dw[0]);
    lk_conv_plan_free(plan);
    gradient_case_free(&c);
}
