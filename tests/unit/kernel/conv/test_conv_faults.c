/* Convolution with bad operands, shapes an algorithm does not have, and without memory: an error, no
 * crash, no leak. */
#include "conv_cases.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

#include <fenv.h>

/* Of 3x3 taps over images of 5x5, with `out` positions along each axis. */
#define SMALL(CHANNELS, OUT, STRIDE, ...)                                                     \
    {                                                                                         \
        .dtype = LK_F32, .window.ndim = 2, .batch = 2, .in_channels = 3,                      \
        .out_channels = (CHANNELS), .in = {5, 5}, .out = {OUT, OUT}, .window.kernel = {3, 3}, \
        .window.stride = {STRIDE, STRIDE}, .window.pad_lo = {1, 1}, __VA_ARGS__               \
    }

static const lk_conv_shape small = SMALL(4, 3, 2, .groups = 1);
enum { NX = 2 * 25 * 3, NY = 2 * 9 * 4, NW = 9 * 3 * 4 };

static lk_conv_plan *small_plan(void)
{
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&small, &plan));
    return plan;
}

static void expect(lk_status st, lk_status want, const char *message)
{
    if (st != want || !strstr(lk_error_message(), message))
        TEST_FAIL("wanted %s: %s\ngot %s: %s", lk_status_text(want), message, lk_status_text(st),
                  lk_error_message());
    lk_error_clear();
}

/* Each way of computing: in general, one channel in each group, and Winograd's. */
enum { DIRECT, DEPTHWISE, WINOGRAD, N_SHAPES };
enum { ROOM = 256 }; /* elements of the largest operand, at least */

static const lk_conv_shape shapes[N_SHAPES] = {
    [DIRECT] = SMALL(4, 3, 2, .groups = 1),
    [DEPTHWISE] = SMALL(3, 3, 2, .groups = 3),
    [WINOGRAD] = SMALL(4, 5, 1, .algorithm = LK_CONV_WINOGRAD),
};

static void refuse(const lk_conv_shape *s, lk_status want, const char *message)
{
    lk_conv_plan *plan;
    expect(lk_conv_plan_new(s, &plan), want, message);
    ASSERT_TRUE(plan == NULL);
}

TEST(shapes_that_winograd_cannot_have_are_refused)
{
    lk_conv_shape s = shapes[WINOGRAD];
    s.window.kernel[1] = 5;
    refuse(&s, LK_ESHAPE, "kernel[1] is 5, but algorithm winograd needs 3: use direct");
    s = shapes[WINOGRAD];
    s.window.stride[0] = 2;
    refuse(&s, LK_ESHAPE, "stride[0] is 2, but algorithm winograd needs 1: use direct");
    s = shapes[WINOGRAD];
    s.window.dilation[1] = 3;
    refuse(&s, LK_ESHAPE, "dilation[1] is 3, but algorithm winograd needs 1: use direct");
    s = shapes[WINOGRAD];
    s.groups = s.in_channels = s.out_channels = 3;
    refuse(&s, LK_ESHAPE, "groups is 3, but algorithm winograd needs 1: use direct");
    s = shapes[WINOGRAD];
    s.window.ndim = 1;
    refuse(&s, LK_ESHAPE, "ndim is 1, but algorithm winograd needs 2: use direct");
    s.window.ndim = 3;
    s.in[2] = s.out[2] = 1;
    s.window.kernel[2] = 1;
    refuse(&s, LK_ESHAPE, "ndim is 3, but algorithm winograd needs 2: use direct");
    s = shapes[WINOGRAD];
    s.algorithm = LK_N_CONV_ALGORITHMS;
    refuse(&s, LK_EINVAL, "algorithm is 2; must be direct (0) or winograd (1)");
}

TEST(missing_operands_are_named)
{
    lk_conv_plan *p = small_plan();
    float x[NX] = {0}, w[NW] = {0}, y[NY] = {0};
    expect(lk_conv_forward(NULL, x, w, NULL, LK_ACT_NONE, y), LK_EINVAL, "plan is NULL");
    expect(lk_conv_forward(p, NULL, w, NULL, LK_ACT_NONE, y), LK_EINVAL, "x is NULL");
    expect(lk_conv_forward(p, x, NULL, NULL, LK_ACT_NONE, y), LK_EINVAL, "w is NULL");
    expect(lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, NULL), LK_EINVAL, "y is NULL");
    expect(lk_conv_backward_data(NULL, y, w, NULL, false, x), LK_EINVAL, "plan is NULL");
    expect(lk_conv_backward_data(p, NULL, w, NULL, false, x), LK_EINVAL, "dy is NULL");
    expect(lk_conv_backward_data(p, y, NULL, NULL, false, x), LK_EINVAL, "w is NULL");
    expect(lk_conv_backward_data(p, y, w, NULL, false, NULL), LK_EINVAL, "dx is NULL");
    lk_conv_plan_free(p);
}

TEST(overlapping_operands_are_named_with_their_sizes)
{
    lk_conv_plan *p = small_plan();
    float buf[NX + NY + NW] = {0}, apart[NX] = {0};
    expect(lk_conv_forward(p, buf, apart, NULL, LK_ACT_NONE, buf + NX - 1), LK_EOVERLAP,
           "y (288 bytes at");
    expect(lk_conv_forward(p, apart, buf, NULL, LK_ACT_NONE, buf), LK_EOVERLAP,
           "overlaps w (432 bytes at");
    expect(lk_conv_forward(p, apart, buf, buf + NX + 3, LK_ACT_NONE, buf + NX), LK_EOVERLAP,
           "overlaps bias (16 bytes at");
    expect(lk_conv_backward_data(p, buf, apart, NULL, false, buf), LK_EOVERLAP, "dx (600 bytes at");
    expect(lk_conv_backward_data(p, apart, buf, NULL, false, buf), LK_EOVERLAP,
           "overlaps w (432 bytes at");
    lk_conv_plan_free(p);
}

TEST(impossible_requests_are_refused)
{
    lk_conv_plan *p = small_plan();
    float x[NX] = {0}, w[NW] = {0}, y[NY] = {0}, bias[4] = {0};
    expect(lk_conv_forward(p, x, w, bias, LK_N_ACTS, y), LK_EINVAL, "act is 5, must be below 5");
    expect(lk_conv_backward_data(p, y, w, bias, true, x), LK_EINVAL,
           "a bias and accumulate exclude each other");
    fesetround(FE_UPWARD);
    lk_status forward = lk_conv_forward(p, x, w, bias, LK_ACT_NONE, y);
    lk_status data = lk_conv_backward_data(p, y, w, NULL, false, x);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(forward, LK_EFPENV);
    ASSERT_EQ(data, LK_EFPENV);
    lk_error_clear();
    lk_conv_plan_free(p);
}

/* Operands, and what both passes give. */
typedef struct life {
    float x[ROOM], w[ROOM], y[ROOM], dx[ROOM];
} life;

static life life_new(void)
{
    life l;
    memset(&l, 0, sizeof l);
    real_fill(LK_F32, l.x, ROOM, 1, false);
    real_fill(LK_F32, l.w, ROOM, 2, false);
    return l;
}

/* Both passes. */
static lk_status passes_run(lk_conv_plan *p, life *l)
{
    LK_TRY(lk_conv_forward(p, l->x, l->w, NULL, LK_ACT_NONE, l->y));
    return LK_TRACE(lk_conv_backward_data(p, l->y, l->w, NULL, false, l->dx));
}

/* Make a plan and run both passes; with room for nothing else. */
static lk_status whole_life(const lk_conv_shape *s, life *l)
{
    lk_conv_plan *p;
    LK_TRY(lk_conv_plan_new(s, &p));
    lk_status st = passes_run(p, l);
    lk_conv_plan_free(p);
    return st;
}

TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    life l = life_new();
    for (int i = 0; i < N_SHAPES; i++) {
        int64_t live = lk_alloc_stats_now().live_blocks, calls = lk_alloc_stats_now().calls;
        ASSERT_OK(whole_life(&shapes[i], &l));
        calls = lk_alloc_stats_now().calls - calls;
        ASSERT_TRUE(calls >= 9);
        for (int64_t n = 1; n <= calls; n++) {
            lk_alloc_fail_at(n);
            ASSERT_EQ(whole_life(&shapes[i], &l), LK_ENOMEM);
            ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
        }
        lk_alloc_fail_at(0);
        lk_error_clear();
    }
}

/* A plan whose n-th allocation fails in each pass gives `want` afterwards; returns whether none failed. */
static bool recovers(const lk_conv_shape *s, int64_t n, const life *want)
{
    life l = life_new();
    lk_conv_plan *p;
    ASSERT_OK(lk_conv_plan_new(s, &p));
    lk_alloc_fail_at(n);
    lk_status forward = lk_conv_forward(p, l.x, l.w, NULL, LK_ACT_NONE, l.y);
    lk_alloc_fail_at(n);
    lk_status data = lk_conv_backward_data(p, want->y, l.w, NULL, false, l.dx);
    lk_alloc_fail_at(0);
    ASSERT_OK(passes_run(p, &l));
    ASSERT_TRUE(memcmp(&l, want, sizeof l) == 0);
    lk_conv_plan_free(p);
    return forward == LK_OK && data == LK_OK;
}

TEST(a_plan_recovers_from_a_failed_allocation)
{
    for (int i = 0; i < N_SHAPES; i++) {
        life want = life_new();
        ASSERT_OK(whole_life(&shapes[i], &want));
        int64_t n = 1;
        while (!recovers(&shapes[i], n, &want))
            n++;
        ASSERT_TRUE(n > 1);
    }
    lk_error_clear();
}

TEST(later_calls_do_not_allocate)
{
    life l = life_new();
    for (int threads = 1; threads <= 3; threads += 2)
        for (int i = 0; i < N_SHAPES; i++) {
            int64_t calls[3];
            lk_conv_plan *p;
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_OK(lk_conv_plan_new(&shapes[i], &p));
            for (int k = 0; k < 3; k++) {
                ASSERT_OK(passes_run(p, &l));
                calls[k] = lk_alloc_stats_now().calls;
            }
            ASSERT_EQ(calls[1], calls[0]);
            ASSERT_EQ(calls[2], calls[0]);
            lk_conv_plan_free(p);
        }
}
