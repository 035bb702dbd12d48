/* Shapes of convolutions: sizes, defaults, and errors that name the field and both values. */
#include "harness.h"
#include "kernel/conv/shape.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static lk_conv_shape plain(void)
{
    return (lk_conv_shape){.dtype = LK_F32,
                           .window.ndim = 2,
                           .batch = 2,
                           .in_channels = 6,
                           .out_channels = 4,
                           .in = {7, 5},
                           .out = {7, 5},
                           .window.kernel = {3, 3},
                           .window.pad_lo = {1, 1}};
}

static void expect_error(const lk_conv_shape *s, lk_status want, const char *message)
{
    lk_conv_plan *plan;
    lk_status st = lk_conv_plan_new(s, &plan);
    if (st != want || plan || !strstr(lk_error_message(), message))
        TEST_FAIL("wanted %s: %s\ngot %s: %s", lk_status_text(want), message, lk_status_text(st),
                  lk_error_message());
    lk_error_clear();
}

TEST(defaults_are_filled_in_behind_leading_axes)
{
    lk_conv_shape c = plain();
    lk__conv_shape s;
    ASSERT_OK(lk__conv_shape_make(&c, &s));
    const int64_t in[3] = {1, 7, 5}, one[3] = {1, 1, 1}, pad[3] = {0, 1, 1};
    ASSERT_TRUE(memcmp(s.in, in, sizeof in) == 0);
    ASSERT_TRUE(memcmp(s.window.stride, one, sizeof one) == 0);
    ASSERT_TRUE(memcmp(s.window.dilation, one, sizeof one) == 0);
    ASSERT_TRUE(memcmp(s.window.pad_lo, pad, sizeof pad) == 0);
    ASSERT_EQ(s.groups, 1);
    ASSERT_EQ(s.piece, 1);
    ASSERT_EQ(s.taps, 9);
    ASSERT_EQ(s.x_step[2], 6);
    ASSERT_EQ(s.x_step[1], 30);
    ASSERT_EQ(s.x_sample, 210);
    ASSERT_EQ(s.x_extent, 420);
    ASSERT_EQ(s.y_sample, 140);
    ASSERT_EQ(s.w_extent, 9 * 6 * 4);
}

TEST(a_window_extends_to_its_last_element)
{
    lk_conv_shape c = plain();
    c.x_step[1] = 8;
    c.x_step[0] = 100;
    lk__conv_shape s;
    ASSERT_OK(lk__conv_shape_make(&c, &s));
    ASSERT_EQ(s.x_sample, 700);
    ASSERT_EQ(s.x_extent, 700 + 6 * 100 + 4 * 8 + 6);
}

TEST(empty_axes_are_valid)
{
    lk_conv_shape c[6];
    for (int i = 0; i < 6; i++)
        c[i] = plain();
    c[0].batch = 0;
    c[1].in[0] = 0;
    c[2].out[1] = 0;
    c[3].in_channels = 0;
    c[4].out_channels = 0;
    c[5].in[0] = 0;
    c[5].x_step[1] = INT64_MAX / 8;
    for (int i = 0; i < 6; i++) {
        lk_conv_plan *plan;
        ASSERT_OK(lk_conv_plan_new(&c[i], &plan));
        lk_conv_plan_free(plan);
    }
}

TEST(wrong_fields_are_named_with_their_values)
{
    struct {
        lk_conv_shape s;
        lk_status want;
        const char *message;
    } bad[20];
    int n = 0;
#define BAD(change, st, text)         \
    do {                              \
        bad[n].s = plain();           \
        lk_conv_shape *s = &bad[n].s; \
        change;                       \
        bad[n].want = (st);           \
        bad[n++].message = (text);    \
    } while (0)
    BAD(s->dtype = LK_I32, LK_EDTYPE, "dtype is i32; must be f32 or f64");
    BAD(s->window.ndim = 4, LK_EINVAL, "ndim is 4; must be 1 to 3");
    BAD(s->window.ndim = 0, LK_EINVAL, "ndim is 0; must be 1 to 3");
    BAD(s->batch = -1, LK_EINVAL, "batch is -1; must be at least 0");
    BAD(s->in[1] = -5, LK_EINVAL, "in[1] is -5; must be at least 0");
    BAD(s->window.kernel[0] = 0, LK_EINVAL, "kernel[0] is 0; must be at least 1");
    BAD(s->window.stride[1] = -2, LK_EINVAL, "stride[1] is -2; must be at least 0");
    BAD(s->window.dilation[0] = -2, LK_EINVAL, "dilation[0] is -2; must be at least 0");
    BAD(s->groups = 4, LK_ESHAPE, "groups 4 does not divide in_channels 6");
    BAD(s->groups = 3, LK_ESHAPE, "groups 3 does not divide out_channels 4");
    BAD(s->x_step[1] = 5, LK_ESHAPE, "x_step[1] is 5, but what lies within one step takes 6");
    BAD(s->y_step[0] = 19, LK_ESHAPE, "y_step[0] is 19, but what lies within one step takes 20");
    BAD(s->x_sample = 209, LK_ESHAPE, "x_sample is 209, but one sample takes 210");
    BAD(s->window.pad_lo[0] = INT64_MIN, LK_EINVAL, "pad_lo[0] is -9223372036854775808");
    BAD(s->window.pad_lo[0] = INT64_MAX, LK_EOVERFLOW, "pad_lo[0] is 9223372036854775807");
    BAD(s->window.stride[0] = INT64_MAX / 8, LK_EOVERFLOW,
        "out[0] * stride[0] is 7 * 11529215046068469");
    BAD(s->window.kernel[0] = s->window.kernel[1] = INT64_C(1) << 40, LK_EOVERFLOW,
        "w has 1 x 1099511627776 x 1099511627776 taps, 6 x 4 channels");
    BAD(s->in[0] = s->in[1] = INT64_C(1) << 31, LK_EOVERFLOW,
        "x has 2147483648 positions along in[0], 12884901888 elements apart");
    BAD(s->batch = INT64_C(1) << 60, LK_EOVERFLOW,
        "x has 1152921504606846976 samples of 210 elements, 210 apart");
#undef BAD
    for (int i = 0; i < n; i++)
        expect_error(&bad[i].s, bad[i].want, bad[i].message);
    expect_error(NULL, LK_EINVAL, "shape is NULL");
}

TEST(the_usual_output_size_is_floored)
{
    int64_t out;
    ASSERT_OK(lk_conv_out(32, 3, 1, 1, 1, 1, &out));
    ASSERT_EQ(out, 32);
    ASSERT_OK(lk_conv_out(56, 3, 2, 1, 1, 1, &out));
    ASSERT_EQ(out, 28);
    ASSERT_OK(lk_conv_out(7, 2, 3, 2, 0, 1, &out));
    ASSERT_EQ(out, 2);
    ASSERT_OK(lk_conv_out(2, 3, 1, 1, 0, 0, &out));
    ASSERT_EQ(out, 0);
    ASSERT_OK(lk_conv_out(5, 3, 1, 1, -1, -1, &out));
    ASSERT_EQ(out, 1);
    ASSERT_EQ(lk_conv_out(5, 0, 1, 1, 0, 0, &out), LK_EINVAL);
    ASSERT_EQ(lk_conv_out(INT64_MAX, 3, 1, 1, 1, 1, &out), LK_EOVERFLOW);
    lk_error_clear();
}

TEST(channel_slices_of_one_tensor_are_apart)
{
    /* x is channels 0..5 and y channels 6..9 of a tensor with 10. */
    lk_conv_shape c = plain();
    c.x_step[1] = c.y_step[1] = 10;
    lk__conv_shape s;
    ASSERT_OK(lk__conv_shape_make(&c, &s));
    float data[1000];
    lk__conv_operand apart[2] = {lk__conv_operand_y(&s, "y", data + 6),
                                 lk__conv_operand_x(&s, "x", data)};
    ASSERT_OK(lk__conv_operands_check(apart, 2));
    for (int shift = -3; shift < 14; shift++) {
        lk__conv_operand op[2] = {lk__conv_operand_y(&s, "y", data + 100 + shift),
                                  lk__conv_operand_x(&s, "x", data + 100)};
        ASSERT_EQ(lk__conv_operands_check(op, 2), shift == 6 ? LK_OK : LK_EOVERLAP);
    }
    ASSERT_TRUE(strstr(lk_error_message(), "overlaps x (2784 bytes at"));
    lk_error_clear();
}

TEST(operands_side_by_side_are_apart)
{
    lk_conv_shape c = plain();
    lk__conv_shape s;
    ASSERT_OK(lk__conv_shape_make(&c, &s));
    float data[1000];
    lk__conv_operand op[3] = {lk__conv_operand_y(&s, "y", data + 420),
                              lk__conv_operand_x(&s, "x", data),
                              lk__conv_operand_w(&s, "w", data + 700)};
    ASSERT_OK(lk__conv_operands_check(op, 3));
    op[0].data = data + 419;
    ASSERT_EQ(lk__conv_operands_check(op, 3), LK_EOVERLAP);
    op[0].data = data + 421;
    ASSERT_EQ(lk__conv_operands_check(op, 3), LK_EOVERLAP);
    op[0].data = NULL;
    ASSERT_EQ(lk__conv_operands_check(op, 3), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "y is NULL"));
    lk_error_clear();
}
