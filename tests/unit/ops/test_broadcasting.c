/* Element-wise ops on any shapes and strides that fit, against the definition. */
#include "op_values.h"

enum { MAX_ELEMENTS = 8192 };

static double x_at(int64_t i)
{
    return (double)(i % 1013);
}

static double y_at(int64_t i)
{
    return (double)(i % 17) * 4096;
}

/* Which element of a dense tensor of shape `s` belongs to element `i` of one of shape `to`. */
static int64_t element_of(lk_shape s, lk_shape to, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = to.ndim - 1; d >= 0; d--) {
        int64_t index = i % to.dim[d];
        int own = d - (to.ndim - s.ndim);
        i /= to.dim[d];
        if (own >= 0 && s.dim[own] != 1)
            at += index * stride;
        stride *= own >= 0 ? s.dim[own] : 1;
    }
    return at;
}

/* A value of shape `s` whose elements are f(0), f(1), ... in row-major order; dense, or, where it has
 * two axes at least, with the strides of a transposed tensor. */
static lk_var value_of_shape(lk_tape *tape, lk_dtype dtype, lk_shape s, double (*f)(int64_t),
                             bool strided, lk_tensor **keep)
{
    lk_shape order = s;
    lk_var v;
    lk_tensor *wide;
    int64_t n, rows = 1, cols = 1;
    ASSERT_OK(lk_shape_count(s, &n));
    if (strided && s.ndim >= 2) {
        order.dim[0] = s.dim[s.ndim - 1];
        order.dim[s.ndim - 1] = s.dim[0];
        rows = s.dim[0];
        cols = s.dim[s.ndim - 1];
    }
    ASSERT_OK(lk_tensor_zeros(LK_F64, order, &wide));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / (n / rows), col = i % cols, middle = i / cols % (n / rows / cols);
        int64_t at = strided ? (col * (n / rows / cols) + middle) * rows + row : i;
        ((double *)(uintptr_t)lk_tensor_data(wide))[at] = f(i);
    }
    ASSERT_OK(lk_tensor_clone(wide, dtype, keep));
    lk_tensor_free(wide);
    ASSERT_OK(lk_constant(tape, *keep, &v));
    if (strided && s.ndim >= 2)
        ASSERT_OK(lk_transpose(v, 0, s.ndim - 1, &v));
    return v;
}

static void expect_sum(lk_dtype dtype, lk_shape a, lk_shape b, lk_shape both, unsigned strided)
{
    lk_tape *tape;
    lk_tensor *keep[2];
    lk_var z;
    static double expected[MAX_ELEMENTS];
    int64_t n;
    ASSERT_OK(lk_shape_count(both, &n));
    ASSERT_TRUE(n <= MAX_ELEMENTS);
    ASSERT_OK(lk_tape_new(&tape));
    lk_var x = value_of_shape(tape, dtype, a, x_at, strided & 1, &keep[0]);
    lk_var y = value_of_shape(tape, dtype, b, y_at, strided & 2, &keep[1]);
    for (int64_t i = 0; i < n; i++)
        expected[i] = x_at(element_of(a, both, i)) + y_at(element_of(b, both, i));
    ASSERT_OK(lk_add(x, y, &z));
    expect_value(z, both, expected, n);
    lk_tape_free(tape);
    lk_tensor_free(keep[0]);
    lk_tensor_free(keep[1]);
}

TEST(every_pair_of_shapes_is_added_by_the_definition)
{
    static const struct {
        lk_shape a, b, both;
    } cases[] = {
        {LK_DIMS(3000, 1), LK_DIMS(1, 1), LK_DIMS(3000, 1)},
        {LK_DIMS(1500, 2), LK_DIMS(1, 2), LK_DIMS(1500, 2)},
        {LK_DIMS(1500, 2), LK_DIMS(1500, 1), LK_DIMS(1500, 2)},
        {LK_DIMS(700, 3), LK_DIMS(3), LK_DIMS(700, 3)},
        {LK_DIMS(100, 41), LK_DIMS(100, 1), LK_DIMS(100, 41)},
        {LK_DIMS(9, 700), LK_DIMS(700), LK_DIMS(9, 700)},
        {LK_DIMS(7, 1, 5), LK_DIMS(1, 31, 1), LK_DIMS(7, 31, 5)},
        {LK_DIMS(5, 2, 3, 40), LK_DIMS(5, 1, 1, 40), LK_DIMS(5, 2, 3, 40)},
        {LK_DIMS(3, 1, 7, 1, 9), LK_DIMS(11, 1, 2, 1), LK_DIMS(3, 11, 7, 2, 9)},
        {LK_DIMS(2, 2, 2, 2, 2, 2, 2, 6), LK_DIMS(2, 1, 2, 1, 2, 1, 2, 1),
         LK_DIMS(2, 2, 2, 2, 2, 2, 2, 6)},
        {LK_DIMS(1, 1), LK_DIMS(1), LK_DIMS(1, 1)},
        {LK_DIMS(64, 64), {0, {0}}, LK_DIMS(64, 64)},
    };
    for (int k = 0; k < LK_COUNT(cases); k++)
        for (unsigned strided = 0; strided < 4; strided++)
            for (int swap = 0; swap < 2; swap++) {
                lk_shape a = swap ? cases[k].b : cases[k].a, b = swap ? cases[k].a : cases[k].b;
                expect_sum(LK_F64, a, b, cases[k].both, strided);
                expect_sum(LK_F32, a, b, cases[k].both, strided);
            }
}

/* Conditions have elements of any size. */
TEST(small_elements_are_broadcast_too)
{
    struct fixture f = fixture_new();
    lk_tensor *mask;
    lk_var c, y, x = fixture_leaf(&f, LK_SHAPE(300, 3), 0, 1), zero;
    ASSERT_OK(lk_tensor_zeros(LK_U8, LK_SHAPE(3), &mask));
    ASSERT_OK(lk_tensor_set_f64(mask, LK_AT(1), 1));
    ASSERT_OK(lk_constant(f.tape, mask, &c));
    ASSERT_OK(lk_full(f.tape, LK_F64, LK_SCALAR, -1, &zero));
    ASSERT_OK(lk_where(c, x, zero, &y));
    for (int64_t i = 0; i < 900; i++)
        ASSERT_TRUE(test_value_at(y, i) == (i % 3 == 1 ? (double)i : -1));
    lk_tensor_free(mask);
    fixture_free(&f);
}
