/* Convolution with bad operands and without memory: an error, no crash, no leak. */
#include "conv_cases.h"

#include <lockstep/alloc.h>

#include <fenv.h>

static const lk_conv_shape small = {.dtype = LK_F32,
                                    .ndim = 2,
                                    .batch = 2,
                                    .in_channels = 3,
                                    .out_channels = 4,
                                    .in = {5, 5},
                                    .out = {3, 3},
                                    .kernel = {3, 3},
                                    .stride = {2, 2},
                                    .pad = {1, 1}};
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

static void missing_operands_are_named(void)
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

static void overlapping_operands_are_named_with_their_sizes(void)
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

static void impossible_requests_are_refused(void)
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

/* Make a plan and run both passes; with room for nothing else. */
static lk_status whole_life(const lk_conv_shape *s, const float *x, const float *w, float *y,
                            float *dx)
{
    lk_conv_plan *p;
    LK_TRY(lk_conv_plan_new(s, &p));
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y));
    LK_TRY_TO(done, lk_conv_backward_data(p, y, w, NULL, false, dx));
done:
    lk_conv_plan_free(p);
    return st;
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void)
{
    lk_conv_shape shapes[2] = {small, small};
    shapes[1].in_channels = shapes[1].out_channels = shapes[1].groups = 3;
    float x[NX], w[NW], y[NY], dx[NX], want_y[NY] = {0}, want_dx[NX] = {0};
    values_fill(LK_F32, x, NX, 1, false);
    values_fill(LK_F32, w, NW, 2, false);
    for (int i = 0; i < 2; i++) {
        int64_t live = lk_alloc_stats_get().live_blocks, calls = lk_alloc_stats_get().calls;
        ASSERT_OK(whole_life(&shapes[i], x, w, want_y, want_dx));
        calls = lk_alloc_stats_get().calls - calls;
        ASSERT_TRUE(calls > 10);
        for (int64_t n = 1; n <= calls; n++) {
            lk_alloc_fail_at(n);
            ASSERT_EQ(whole_life(&shapes[i], x, w, y, dx), LK_ENOMEM);
            ASSERT_EQ(lk_alloc_stats_get().live_blocks, live);
        }
        lk_alloc_fail_at(0);
        lk_error_clear();
    }
}

static void a_plan_recovers_from_a_failed_allocation(void)
{
    float x[NX], w[NW], y[NY], dx[NX], want_y[NY], want_dx[NX];
    values_fill(LK_F32, x, NX, 1, false);
    values_fill(LK_F32, w, NW, 2, false);
    ASSERT_OK(whole_life(&small, x, w, want_y, want_dx));
    for (int64_t n = 1;; n++) {
        lk_conv_plan *p = small_plan();
        lk_alloc_fail_at(n);
        lk_status forward = lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y);
        lk_alloc_fail_at(n);
        lk_status data = lk_conv_backward_data(p, want_y, w, NULL, false, dx);
        lk_alloc_fail_at(0);
        ASSERT_OK(lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y));
        ASSERT_OK(lk_conv_backward_data(p, y, w, NULL, false, dx));
        ASSERT_TRUE(memcmp(y, want_y, sizeof y) == 0);
        ASSERT_TRUE(memcmp(dx, want_dx, sizeof dx) == 0);
        lk_conv_plan_free(p);
        if (forward == LK_OK && data == LK_OK)
            break;
    }
    lk_error_clear();
}

static void later_calls_do_not_allocate(void)
{
    lk_conv_plan *p = small_plan();
    float x[NX] = {0}, w[NW] = {0}, y[NY], dx[NX];
    int64_t calls[3];
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y));
        ASSERT_OK(lk_conv_backward_data(p, y, w, NULL, false, dx));
        calls[i] = lk_alloc_stats_get().calls;
    }
    ASSERT_EQ(calls[1], calls[0]);
    ASSERT_EQ(calls[2], calls[0]);
    lk_conv_plan_free(p);
    lk_conv_plan_free(NULL);
}

TEST_MAIN(TEST(missing_operands_are_named), TEST(overlapping_operands_are_named_with_their_sizes),
          TEST(impossible_requests_are_refused),
          TEST(every_failed_allocation_is_reported_and_leaks_nothing),
          TEST(a_plan_recovers_from_a_failed_allocation), TEST(later_calls_do_not_allocate))
