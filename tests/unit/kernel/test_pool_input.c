/* Pooling refuses bad input with a message that names the argument and what is wrong with it. */
#include "harness.h"

#include <lockstep/extra/pool.h>

#include <fenv.h>
#include <stdint.h>
#include <string.h>

static float x[2 * 6 * 6 * 4], y[2 * 3 * 3 * 4], dy[2 * 3 * 3 * 4], dx[2 * 6 * 6 * 4];
static int64_t index_of[2 * 3 * 3 * 4];

static lk_pool_shape good(void)
{
    return (lk_pool_shape){.dtype = LK_F32,
                           .window.ndim = 2,
                           .batch = 2,
                           .channels = 4,
                           .in = {6, 6},
                           .out = {3, 3},
                           .window.kernel = {2, 2},
                           .window.stride = {2, 2}};
}

/* All six functions refuse the shape. */
static void check_shape_refused(lk_status want, const char *words, const lk_pool_shape *s)
{
    ASSERT_FAILS(lk_pool_max(s, x, y, index_of), want, words);
    ASSERT_FAILS(lk_pool_avg(s, x, y), want, words);
    ASSERT_FAILS(lk_pool_l2(s, x, y), want, words);
    ASSERT_FAILS(lk_pool_max_backward(s, dy, index_of, dx), want, words);
    ASSERT_FAILS(lk_pool_avg_backward(s, dy, dx), want, words);
    ASSERT_FAILS(lk_pool_l2_backward(s, x, y, dy, dx), want, words);
}

TEST(wrong_shapes_are_refused_by_name)
{
    lk_pool_shape s = good();
    ASSERT_OK(lk_pool_max(&s, x, y, index_of));
    check_shape_refused(LK_EINVAL, "shape is NULL", NULL);
    s.dtype = LK_I32;
    check_shape_refused(LK_EDTYPE, "dtype is i32", &s);
    s = good();
    s.window.ndim = 0;
    check_shape_refused(LK_EINVAL, "ndim is 0", &s);
    s.window.ndim = 4;
    check_shape_refused(LK_EINVAL, "ndim is 4", &s);
    s = good();
    s.batch = -1;
    check_shape_refused(LK_EINVAL, "batch is -1", &s);
    s = good();
    s.channels = -5;
    check_shape_refused(LK_EINVAL, "channels is -5", &s);
    s = good();
    s.in[1] = -6;
    check_shape_refused(LK_EINVAL, "in[1] is -6", &s);
    s = good();
    s.out[0] = -3;
    check_shape_refused(LK_EINVAL, "out[0] is -3", &s);
    s = good();
    s.window.kernel[1] = 0;
    check_shape_refused(LK_EINVAL, "kernel[1] is 0", &s);
    s = good();
    s.window.stride[0] = -2;
    check_shape_refused(LK_EINVAL, "stride[0] is -2", &s);
    s = good();
    s.window.dilation[1] = 2;
    check_shape_refused(LK_EINVAL, "dilation[1] is 2; windows of pools have none", &s);
}

TEST(sizes_that_overflow_are_refused)
{
    lk_pool_shape s = good();
    s.in[0] = s.in[1] = (int64_t)1 << 31;
    check_shape_refused(LK_EOVERFLOW, "in 1 x 2147483648 x 2147483648", &s);
    s = good();
    s.batch = (int64_t)1 << 60;
    check_shape_refused(LK_EOVERFLOW, "batch 1152921504606846976", &s);
    s = good();
    s.window.pad_lo[0] = INT64_MAX;
    check_shape_refused(LK_EOVERFLOW, "pad_lo[0] is 9223372036854775807", &s);
    s.window.pad_lo[0] = INT64_MIN;
    check_shape_refused(LK_EINVAL, "pad_lo[0] is -9223372036854775808", &s);
    s = good();
    s.window.stride[1] = INT64_MAX / 8;
    check_shape_refused(LK_EOVERFLOW, "out * stride is 3 * ", &s);
    s = good();
    s.window.kernel[0] = s.window.kernel[1] = (int64_t)1 << 40;
    s.count_padding = true;
    check_shape_refused(LK_EOVERFLOW, "1 x 1099511627776 x 1099511627776 positions", &s);
    s = good();
    s.in[0] = s.window.kernel[0] = (int64_t)1 << 31;
    ASSERT_FAILS(lk_pool_max(&s, x, y, index_of), LK_EOVERFLOW, "spans");
}

TEST(steps_within_which_more_lies_are_refused_by_name)
{
    lk_pool_shape s = good();
    s.x_step[1] = 3;
    check_shape_refused(LK_ESHAPE, "x_step[1] is 3, but what lies within one step takes 4", &s);
    s.x_step[1] = -4;
    check_shape_refused(LK_EINVAL, "x_step[1] is -4; must be at least 0", &s);
    s = good();
    s.y_step[0] = 11;
    check_shape_refused(LK_ESHAPE, "y_step[0] is 11, but what lies within one step takes 12", &s);
    s = good();
    s.x_sample = 143;
    check_shape_refused(LK_ESHAPE, "x_sample is 143, but one sample takes 144", &s);
    s = good();
    s.y_sample = -1;
    check_shape_refused(LK_EINVAL, "y_sample is -1; must be at least 0", &s);
    s.y_sample = 0;
    s.x_sample = -1;
    check_shape_refused(LK_EINVAL, "x_sample is -1; must be at least 0", &s);
    s = good();
    s.x_step[0] = INT64_MAX / 8;
    check_shape_refused(LK_EOVERFLOW, "x has 2 samples of 5764607523034234899 elements", &s);
    s = good();
    s.y_sample = INT64_MAX / 8; /* of an index, 8 bytes each */
    check_shape_refused(LK_EOVERFLOW, "y has 2 samples of 36 elements", &s);
}

/* An axis of size 0 makes all else harmless, however large. */
TEST(an_empty_tensor_needs_no_memory)
{
    lk_pool_shape s = good();
    s.batch = 0;
    ASSERT_OK(lk_pool_max(&s, NULL, NULL, NULL));
    ASSERT_OK(lk_pool_l2_backward(&s, NULL, NULL, NULL, NULL));
    s = good();
    s.channels = 0;
    s.in[0] = s.in[1] = s.window.kernel[0] = s.window.kernel[1] = INT64_MAX / 8;
    ASSERT_OK(lk_pool_max(&s, NULL, NULL, NULL));
    s = good();
    s.in[0] = 0;
    s.in[1] = s.window.kernel[1] = INT64_MAX / 8;
    ASSERT_OK(lk_pool_avg(&s, NULL, y));
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++)
        ASSERT_TRUE(y[i] == 0);
    ASSERT_OK(lk_pool_avg_backward(&s, dy, NULL));
}

TEST(missing_operands_are_refused_by_name)
{
    lk_pool_shape s = good();
    ASSERT_FAILS(lk_pool_max(&s, NULL, y, index_of), LK_EINVAL, "x [2][6][6][4] is NULL");
    ASSERT_FAILS(lk_pool_avg(&s, x, NULL), LK_EINVAL, "y [2][3][3][4] is NULL");
    ASSERT_FAILS(lk_pool_max_backward(&s, dy, NULL, dx), LK_EINVAL, "index [2][3][3][4] is NULL");
    ASSERT_FAILS(lk_pool_avg_backward(&s, dy, NULL), LK_EINVAL, "dx [2][6][6][4] is NULL");
    ASSERT_FAILS(lk_pool_l2_backward(&s, x, NULL, dy, dx), LK_EINVAL, "y [2][3][3][4] is NULL");
}

TEST(overlapping_operands_are_refused_by_name)
{
    lk_pool_shape s = good();
    ASSERT_FAILS(lk_pool_l2(&s, x, x + 287), LK_EOVERLAP, "y [2][3][3][4] overlaps x [2][6][6][4]");
    ASSERT_FAILS(lk_pool_avg(&s, x, x), LK_EOVERLAP, "y [2][3][3][4] overlaps x [2][6][6][4]");
    ASSERT_FAILS(lk_pool_max(&s, x, index_of, index_of), LK_EOVERLAP,
                 "index [2][3][3][4] overlaps y [2][3][3][4]");
    ASSERT_FAILS(lk_pool_avg_backward(&s, dx + 10, dx), LK_EOVERLAP,
                 "dx [2][6][6][4] overlaps dy [2][3][3][4]");
    ASSERT_FAILS(lk_pool_l2_backward(&s, dx, y, dy, dx), LK_EOVERLAP,
                 "dx [2][6][6][4] overlaps x [2][6][6][4]");
    ASSERT_OK(lk_pool_l2_backward(&s, x, y, y, dx)); /* inputs may be the same */
    s.batch = 1;
    s.x_step[0] = 36; /* x ends at 5 * 36 + 24 */
    ASSERT_FAILS(lk_pool_avg(&s, x, x + 203), LK_EOVERLAP,
                 "y [1][3][3][4] overlaps x [1][6][6][4]");
    ASSERT_OK(lk_pool_avg(&s, x, x + 204));
}

TEST(a_thread_that_rounds_otherwise_is_refused)
{
    lk_pool_shape s = good();
    fesetround(FE_TOWARDZERO);
    lk_status forward = lk_pool_avg(&s, x, y), backward = lk_pool_avg_backward(&s, dy, dx);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(forward, LK_EFPENV);
    ASSERT_EQ(backward, LK_EFPENV);
}
