/* Winograd's algorithm for shapes it does not compute and without memory: an error, no crash, no
 * leak. */
#include "winograd_cases.h"

#include <lockstep/alloc.h>
#include <lockstep/thread.h>

static const lk_conv_shape small = {
    WINO,         .dtype = LK_F32, .batch = 2,   .in_channels = 3, .out_channels = 20,
    .in = {5, 5}, .out = {5, 5},   .pad = {1, 1}};
enum { NX = 2 * 25 * 3, NY = 2 * 25 * 20, NW = 9 * 3 * 20 };

static void refuse(lk_conv_shape s, lk_status want, const char *message)
{
    lk_conv_plan *plan;
    lk_status st = lk_conv_plan_new(&s, &plan);
    if (st != want || !strstr(lk_error_message(), message))
        TEST_FAIL("wanted %s: %s\ngot %s: %s", lk_status_text(want), message, lk_status_text(st),
                  lk_error_message());
    ASSERT_TRUE(plan == NULL);
    lk_error_clear();
}

static void other_shapes_are_refused_with_the_field_and_the_way_out(void)
{
    lk_conv_shape s = small;
    s.kernel[1] = 5;
    refuse(s, LK_ESHAPE, "kernel[1] is 5, but algorithm winograd needs 3: use direct");
    s = small;
    s.stride[0] = 2;
    refuse(s, LK_ESHAPE, "stride[0] is 2, but algorithm winograd needs 1: use direct");
    s = small;
    s.dilation[1] = 3;
    refuse(s, LK_ESHAPE, "dilation[1] is 3, but algorithm winograd needs 1: use direct");
    s = small;
    s.groups = s.in_channels = s.out_channels = 3;
    refuse(s, LK_ESHAPE, "groups is 3, but algorithm winograd needs 1: use direct");
    s = small;
    s.ndim = 1;
    refuse(s, LK_ESHAPE, "ndim is 1, but algorithm winograd needs 2: use direct");
    s.ndim = 3;
    s.in[2] = s.out[2] = 1;
    s.kernel[2] = 1;
    refuse(s, LK_ESHAPE, "ndim is 3, but algorithm winograd needs 2: use direct");
    s = small;
    s.algorithm = LK_N_CONV_ALGORITHMS;
    refuse(s, LK_EINVAL, "algorithm is 2; must be direct (0) or winograd (1)");
}

/* Make a plan and run both passes; with room for nothing else. */
static lk_status whole_life(const float *x, const float *w, float *y, float *dx)
{
    lk_conv_plan *p;
    LK_TRY(lk_conv_plan_new(&small, &p));
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y));
    LK_TRY_TO(done, lk_conv_backward_data(p, y, w, NULL, false, dx));
done:
    lk_conv_plan_free(p);
    return st;
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void)
{
    static float x[NX], w[NW], y[NY], dx[NX];
    values_fill(LK_F32, x, NX, 1, false);
    values_fill(LK_F32, w, NW, 2, false);
    int64_t live = lk_alloc_stats_get().live_blocks, calls = lk_alloc_stats_get().calls;
    ASSERT_OK(whole_life(x, w, y, dx));
    calls = lk_alloc_stats_get().calls - calls;
    ASSERT_TRUE(calls >= 9);
    for (int64_t n = 1; n <= calls; n++) {
        lk_alloc_fail_at(n);
        ASSERT_EQ(whole_life(x, w, y, dx), LK_ENOMEM);
        ASSERT_EQ(lk_alloc_stats_get().live_blocks, live);
    }
    lk_alloc_fail_at(0);
    lk_error_clear();
}

static void a_plan_recovers_from_a_failed_allocation(void)
{
    static float x[NX], w[NW], y[NY], dx[NX], want_y[NY], want_dx[NX];
    values_fill(LK_F32, x, NX, 1, false);
    values_fill(LK_F32, w, NW, 2, false);
    ASSERT_OK(whole_life(x, w, want_y, want_dx));
    for (int64_t n = 1;; n++) {
        lk_conv_plan *p;
        ASSERT_OK(lk_conv_plan_new(&small, &p));
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
    static float x[NX], w[NW], y[NY], dx[NX];
    int64_t calls[3];
    lk_conv_plan *p;
    ASSERT_OK(lk_threads_set(3));
    ASSERT_OK(lk_conv_plan_new(&small, &p));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_conv_forward(p, x, w, NULL, LK_ACT_NONE, y));
        ASSERT_OK(lk_conv_backward_data(p, y, w, NULL, false, dx));
        calls[i] = lk_alloc_stats_get().calls;
    }
    ASSERT_EQ(calls[1], calls[0]);
    ASSERT_EQ(calls[2], calls[0]);
    lk_conv_plan_free(p);
}

TEST_MAIN(TEST(other_shapes_are_refused_with_the_field_and_the_way_out),
          TEST(every_failed_allocation_is_reported_and_leaks_nothing),
          TEST(a_plan_recovers_from_a_failed_allocation), TEST(later_calls_do_not_allocate))
