/* The weight gradient of a convolution against its definition, bit for bit: all instruction sets,
 * thread counts and ways to cut the work.  All operands end at a page that must not be touched. */
#include "conv_gradient.h"
#include "kernel/conv/plan.h"
#include "kernel/conv/weights.h"
#include "kernel/conv/weights_plan.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

#define FAR ((int64_t)1 << 57)

/* The window (ndim, kernel, stride, dilation, pad_lo), batch, channels in and out, groups, in, out.  An
 * `out` of 0 becomes what lk_conv_out() says with the same pad on both sides. */
static const lk_conv_shape shapes[] = {
    /* One of everything. */
    {0, {1, {1}, {1}, {1}, {0}, .grid = 1}, 1, 1, 1, 1, {1}, {0}, .piece = 1},
    /* The usual layers, small. */
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 3, 3, 32, 1, {9, 8}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 2, 16, 16, 1, {6, 7}, {0}, .piece = 1},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 4, 64, 20, 1, {5, 5}, {0}, .piece = 1},
    {0, {2, {5, 5}, {1, 1}, {1, 1}, {0}, .grid = 1}, 2, 13, 50, 1, {7, 5}, {0}, .piece = 1},
    {0, {2, {5, 5}, {1, 1}, {1, 1}, {0}, .grid = 1}, 5, 1, 20, 1, {12, 11}, {0}, .piece = 1},
    /* Primes. */
    {0, {2, {3, 5}, {2, 3}, {1, 1}, {1, 2}, .grid = 1}, 7, 11, 13, 1, {11, 13}, {0}, .piece = 1},
    {0, {2, {2, 3}, {1, 1}, {1, 1}, {0, 1}, .grid = 1}, 2, 37, 41, 1, {5, 3}, {0}, .piece = 1},
    {0, {1, {5}, {3}, {1}, {4}, .grid = 1}, 3, 7, 17, 1, {31}, {0}, .piece = 1},
    /* Strides: beyond the kernel, and with few channels. */
    {0, {2, {2, 2}, {4, 5}, {1, 1}, {0}, .grid = 1}, 2, 9, 10, 1, {13, 14}, {0}, .piece = 1},
    {0, {2, {7, 7}, {2, 2}, {1, 1}, {3, 3}, .grid = 1}, 2, 3, 8, 1, {15, 15}, {0}, .piece = 1},
    {0, {2, {3, 3}, {2, 2}, {1, 1}, {1, 1}, .grid = 1}, 2, 24, 33, 1, {9, 9}, {0}, .piece = 1},
    {0, {2, {2, 2}, {3, 4}, {1, 1}, {0}, .grid = 1}, 1, 2, 5, 1, {9, 9}, {0}, .piece = 1},
    /* Even kernels, pads larger than the kernel or below zero, kernels larger than the image. */
    {0, {2, {4, 2}, {1, 1}, {1, 1}, {2, 1}, .grid = 1}, 2, 8, 8, 1, {6, 6}, {0}, .piece = 1},
    {0, {2, {2, 2}, {1, 1}, {1, 1}, {5, 3}, .grid = 1}, 2, 3, 4, 1, {4, 4}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {-2, -3}, .grid = 1}, 2, 4, 9, 1, {9, 10}, {4, 5}, .piece = 1},
    {0,
     {2, {3, 2}, {1, 1}, {1, 1}, {-2, -3}, .grid = 1},
     2,
     10,
     9,
     1,
     {9, 10},
     {12, 14},
     .piece = 1},
    {0, {2, {7, 9}, {1, 1}, {1, 1}, {4, 5}, .grid = 1}, 2, 3, 6, 1, {2, 3}, {0}, .piece = 1},
    {0, {2, {6, 7}, {1, 1}, {1, 1}, {4, 4}, .grid = 1}, 3, 12, 6, 1, {2, 2}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {20, -20}, .grid = 1}, 2, 9, 6, 1, {3, 3}, {2, 2}, .piece = 1},
    /* Dilation. */
    {0, {2, {3, 3}, {1, 1}, {2, 3}, {2, 3}, .grid = 1}, 2, 10, 18, 1, {11, 12}, {0}, .piece = 1},
    {0, {2, {3, 3}, {2, 2}, {3, 2}, {3, 2}, .grid = 1}, 2, 3, 16, 1, {11, 9}, {0}, .piece = 1},
    /* Groups, down to one channel each. */
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 2, 24, 36, 2, {6, 5}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 2, 12, 8, 4, {6, 5}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 3, 19, 19, 19, {7, 6}, {0}, .piece = 1},
    {0, {2, {3, 3}, {2, 2}, {1, 1}, {1, 1}, .grid = 1}, 3, 5, 15, 5, {7, 6}, {0}, .piece = 1},
    {0, {2, {2, 9}, {1, 2}, {1, 2}, {1, 7}, .grid = 1}, 2, 21, 21, 21, {5, 20}, {0}, .piece = 1},
    {0,
     {3, {2, 3, 3}, {1, 1, 1}, {1, 2, 1}, {0, 2, 1}, .grid = 1},
     2,
     35,
     35,
     35,
     {3, 4, 5},
     {0},
     .piece = 1},
    /* One and three dimensions. */
    {0, {1, {16}, {4}, {1}, {6}, .grid = 1}, 6, 1, 16, 1, {70}, {0}, .piece = 1},
    {0, {1, {3}, {1}, {1}, {1}, .grid = 1}, 2, 40, 24, 1, {23}, {0}, .piece = 1},
    {0,
     {3, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, .grid = 1},
     2,
     9,
     12,
     1,
     {4, 5, 6},
     {0},
     .piece = 1},
    {0,
     {3, {2, 3, 3}, {2, 1, 2}, {1, 1, 1}, {1, 0, 1}, .grid = 1},
     2,
     2,
     7,
     1,
     {5, 4, 7},
     {0},
     .piece = 1},
    /* Pieces of several samples, also uneven, and of all. */
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 7, 10, 16, 1, {4, 4}, {0}, .piece = 2},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 11, 3, 5, 1, {4, 4}, {0}, .piece = 3},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 5, 9, 7, 1, {4, 4}, {0}, .piece = 5},
    {0, {2, {2, 2}, {1, 1}, {1, 1}, {0}, .grid = 1}, 6, 8, 7, 1, {3, 4}, {0}, .piece = 100},
    {0, {2, {2, 2}, {1, 1}, {1, 1}, {0}, .grid = 1}, 6, 6, 6, 6, {3, 4}, {0}, .piece = 4},
    {0, {2, {5, 5}, {1, 1}, {1, 1}, {0}, .grid = 1}, 13, 10, 18, 1, {12, 12}, {0}, .piece = 6},
    /* One tap: products of matrices, or nearly, with pixels further apart, or rows, or samples. */
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 7, 21, 37, 1, {7, 6}, {0}, .piece = 3},
    {0,
     {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1},
     5,
     9,
     20,
     1,
     {4, 3},
     {0},
     .x_step = {33, 11},
     .x_sample = 132,
     .y_step = {0, 24},
     .piece = 1},
    {0,
     {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1},
     5,
     9,
     20,
     1,
     {4, 3},
     {0},
     .x_step = {34, 11},
     .y_step = {0, 24},
     .piece = 1},
    {0,
     {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1},
     5,
     9,
     20,
     1,
     {4, 3},
     {0},
     .y_sample = 241,
     .piece = 1},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {1, 0}, .grid = 1}, 5, 9, 20, 1, {4, 3}, {4, 3}, .piece = 1},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 5, 9, 20, 1, {4, 3}, {3, 4}, .piece = 1},
    /* Numbers as large as they may be: one position or one tap is within the image. */
    {0, {2, {2, 2}, {FAR, FAR}, {1, 1}, {0}, .grid = 1}, 2, 9, 5, 1, {4, 5}, {2, 3}, .piece = 1},
    {0, {2, {2, 2}, {FAR, FAR}, {1, 1}, {0}, .grid = 1}, 2, 3, 5, 1, {4, 5}, {2, 3}, .piece = 1},
    {0,
     {2, {3, 3}, {1, 1}, {FAR, FAR}, {FAR, FAR}, .grid = 1},
     2,
     9,
     5,
     1,
     {4, 5},
     {4, 5},
     .piece = 1},
    {0,
     {2, {3, 3}, {1, 1}, {FAR, FAR}, {FAR, FAR}, .grid = 1},
     2,
     9,
     9,
     9,
     {4, 5},
     {4, 5},
     .piece = 1},
    {0, {2, {2, 2}, {FAR, FAR}, {1, 1}, {0}, .grid = 1}, 2, 9, 18, 9, {4, 5}, {2, 3}, .piece = 1},
    /* Strides that leave the image, where kernel columns have different valid positions. */
    {0, {1, {3}, {2}, {1}, {2}, .grid = 1}, 1, 1, 1, 1, {1}, {2}, .piece = 1},
    {0, {1, {7}, {3}, {1}, {4}, .grid = 1}, 2, 3, 9, 1, {2}, {3}, .piece = 1},
    {0, {2, {3, 3}, {3, 3}, {1, 1}, {2, 2}, .grid = 1}, 2, 2, 9, 1, {2, 2}, {0}, .piece = 1},
    {0, {2, {4, 5}, {3, 3}, {1, 1}, {2, 4}, .grid = 1}, 2, 9, 9, 9, {3, 2}, {2, 3}, .piece = 1},
    {0, {2, {4, 5}, {5, 5}, {2, 2}, {2, 8}, .grid = 1}, 2, 3, 6, 3, {3, 4}, {2, 3}, .piece = 1},
    /* Images of several strips and chunks. */
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 2, 10, 17, 1, {21, 20}, {0}, .piece = 1},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 2, 50, 24, 1, {17, 13}, {0}, .piece = 1},
    {0, {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, .grid = 1}, 2, 3, 24, 1, {23, 17}, {0}, .piece = 1},
    {0, {2, {1, 1}, {1, 1}, {1, 1}, {0}, .grid = 1}, 33, 4, 3, 1, {2, 2}, {0}, .piece = 1},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    ASSERT_TRUE(to);
    memcpy(to, from, bytes);
    return to;
}

static void check_same(const struct gradient_case *c, const void *want, const char *what)
{
    int64_t i = real_differ(c->s.dtype, want, c->dw.data, c->s.w_extent);
    if (i < c->s.w_extent)
        TEST_FAIL("%s: %s, batch %d, channels %d-%d: dw[%d] is %a, not %a", what,
                  lk_dtype_name(c->s.dtype), (int)c->s.batch, (int)c->s.in_channels,
                  (int)c->s.out_channels, (int)i, real_get(c->s.dtype, c->dw.data, i),
                  real_get(c->s.dtype, want, i));
}

/* With a part cut by `aims`, or as the plan chooses if they are NULL, without and with accumulation. */
static void check_cut(struct gradient_case *c, const void *grad, const lk__weights_aims *aims,
                      const char *what)
{
    void *old = copy_of(c->dw.data, c->dw_bytes), *sum = copy_of(c->dw.data, c->dw_bytes);
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&c->shape, &plan));
    if (aims)
        ASSERT_OK(lk__conv_weights_new_cut(&c->s, aims, &plan->weights));
    for (int64_t i = 0; i < c->s.w_extent; i++)
        real_set(c->s.dtype, sum, i,
                 real_add(c->s.dtype, real_get(c->s.dtype, sum, i), real_get(c->s.dtype, grad, i)));
    ASSERT_OK(lk_conv_backward_weights(plan, c->x.data, c->dy.data, true, c->dw.data));
    check_same(c, sum, what);
    ASSERT_OK(lk_conv_backward_weights(plan, c->x.data, c->dy.data, false, c->dw.data));
    check_same(c, grad, what);
    lk_conv_plan_free(plan);
    memcpy(c->dw.data, old, c->dw_bytes);
    free(old);
    free(sum);
}

/* The smallest parts there are: rows, and stretches of one piece. */
static const lk__weights_aims one_row = {
    1, 1, 1, 1, 1, 1, 1, 1 << 20, LK_WEIGHTS_CHOOSE, LK_WEIGHTS_CHOOSE, LK_WEIGHTS_CHOOSE};

static lk__weights_choice wish(int bit)
{
    return bit ? LK_WEIGHTS_YES : LK_WEIGHTS_NO;
}

static void check_cuts(struct gradient_case *c, const void *grad)
{
    lk__weights_aims aims = lk__weights_default;
    check_cut(c, grad, NULL, "the plan's choice");
    check_cut(c, grad, &aims, "default");
    check_cut(c, grad, &one_row, "one row at a time");
    aims.strip_bytes = 1;
    for (int i = 0; i < 8; i++) {
        aims.swapped = wish(i & 1);
        aims.pack_rows = wish(i & 2);
        aims.pack_cols = wish(i & 4);
        check_cut(c, grad, &aims, i & 1 ? "swapped" : "not swapped");
    }
}

static void check_shapes(lk_dtype dtype, bool odd)
{
    const int step = TEST_SLOWNESS > 1 ? 2 : 1;
    for (int i = 0; i < N_SHAPES; i += step) {
        struct gradient_case c;
        gradient_case_new(&c, &shapes[i], dtype, odd);
        void *grad = copy_of(c.dw.data, c.dw_bytes);
        lk__ref_conv_backward_weights(&c.shape, c.x.data, c.dy.data, false, grad, NULL);
        for (int isa = 0; isa < LK_N_ISAS; isa++)
            if (lk_isa_is_available((lk_isa)isa)) {
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                check_cuts(&c, grad);
            }
        free(grad);
        gradient_case_free(&c);
    }
}

TEST(f32_is_its_definition_however_it_is_cut)
{
    check_shapes(LK_F32, false);
}

TEST(f64_is_its_definition_however_it_is_cut)
{
    check_shapes(LK_F64, false);
}

TEST(zeros_denormals_and_infinities_are_no_exception)
{
    check_shapes(LK_F32, true);
    if (TEST_SLOWNESS == 1)
        check_shapes(LK_F64, true);
}

TEST(the_number_of_threads_changes_no_bit)
{
    for (int i = 0; i < N_SHAPES; i++) {
        struct gradient_case c;
        lk_conv_plan *plan;
        gradient_case_new(&c, &shapes[i], LK_F32, false);
        void *grad = copy_of(c.dw.data, c.dw_bytes);
        lk__ref_conv_backward_weights(&c.shape, c.x.data, c.dy.data, false, grad, NULL);
        ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
        for (int threads = 1; threads <= 4; threads++) {
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, false, c.dw.data));
            check_same(&c, grad, "a plan for all numbers of threads");
            check_cut(&c, grad, &one_row, "short stretches");
        }
        lk_conv_plan_free(plan);
        free(grad);
        gradient_case_free(&c);
    }
    ASSERT_OK(lk_threads_set(0));
}

TEST(a_plan_follows_the_instruction_set)
{
    struct gradient_case c;
    lk_conv_plan *plan;
    void *grad = NULL;
    gradient_case_new(&c, &shapes[6], LK_F64, false);
    ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        if (lk_isa_is_available((lk_isa)isa)) {
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            ASSERT_OK(lk_conv_backward_weights(plan, c.x.data, c.dy.data, false, c.dw.data));
            if (!grad)
                grad = copy_of(c.dw.data, c.dw_bytes);
            ASSERT_SAME_BITS(grad, c.dw.data, c.dw_bytes);
        }
    free(grad);
    lk_conv_plan_free(plan);
    gradient_case_free(&c);
}

/* A volume of 256^3 positions, k^3 taps. */
static lk_conv_shape volume(int64_t k, int64_t in_channels, int64_t out_channels)
{
    lk_conv_shape s = {.window.ndim = 3, .batch = 1, .piece = 1};
    s.in_channels = in_channels;
    s.out_channels = out_channels;
    for (int d = 0; d < 3; d++) {
        s.in[d] = s.out[d] = 256;
        s.window.kernel[d] = k;
        s.window.pad_lo[d] = k / 2;
    }
    return s;
}

/* Neither the volume's size nor how few channels it has is to be seen in the room. */
TEST(rooms_are_a_few_mib_for_each_thread)
{
    const lk_conv_shape of[] = {volume(1, 8, 2),  volume(1, 2, 8),  volume(1, 32, 1),
                                volume(3, 8, 8),  volume(3, 16, 8), volume(3, 1, 8),
                                volume(3, 2, 32), volume(2, 16, 8)};
    for (int i = 0; i < (int)(sizeof of / sizeof of[0]); i++)
        for (int threads = 1; threads <= 8; threads *= 2) {
            lk_conv_plan *plan;
            int64_t bytes;
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_OK(lk_conv_plan_new(&of[i], &plan));
            ASSERT_OK(lk__conv_weights_room(plan, &bytes));
            if (bytes > (3 << 20) + ((int64_t)threads << 20))
                TEST_FAIL("shape %d: %lld bytes with %d threads", i, (long long)bytes, threads);
            lk_conv_plan_free(plan);
        }
    ASSERT_OK(lk_threads_set(0));
}

/* The same bits, nothing is allocated, and not a byte before or behind the memory is written. */
TEST(plans_compute_in_memory_of_the_callers)
{
    enum { FENCE = 4096 };
    for (int i = 0; i < N_SHAPES; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct gradient_case c;
            lk_conv_plan *plan;
            int64_t bytes, live;
            char *memory;
            ASSERT_OK(lk_threads_set(threads));
            gradient_case_new(&c, &shapes[i], LK_F32, false);
            void *grad = copy_of(c.dw.data, c.dw_bytes);
            lk__ref_conv_backward_weights(&c.shape, c.x.data, c.dy.data, false, grad, NULL);
            ASSERT_OK(lk_conv_plan_new(&c.shape, &plan));
            ASSERT_OK(lk__conv_weights_room(plan, &bytes));
            ASSERT_OK(lk_alloc(&memory, FENCE + bytes + FENCE, 1));
            memset(memory, 0xff, (size_t)(FENCE + bytes + FENCE));
            live = lk_alloc_stats_now().live_bytes;
            ASSERT_OK(lk__conv_weights_in(plan, memory + FENCE, bytes, c.x.data, c.dy.data, false,
                                          c.dw.data));
            check_same(&c, grad, "in memory of the caller's");
            ASSERT_EQ(lk_alloc_stats_now().live_bytes, live);
            for (int k = 0; k < FENCE; k++)
                ASSERT_TRUE(memory[k] == (char)0xff && memory[bytes + FENCE + k] == (char)0xff);
            if (bytes > 0) { /* too little: the plan has its own */
                ASSERT_OK(lk__conv_weights_in(plan, NULL, bytes - 1, c.x.data, c.dy.data, false,
                                              c.dw.data));
                check_same(&c, grad, "in too little memory");
                ASSERT_EQ(lk_alloc_stats_now().live_bytes, live + bytes);
            }
            lk_free(memory);
            lk_conv_plan_free(plan);
            free(grad);
            gradient_case_free(&c);
        }
    ASSERT_OK(lk_threads_set(0));
}
