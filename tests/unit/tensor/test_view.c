/* Views: which elements they hold, what they refuse, and chains of them against plain indexing. */
#include "tensors.h"

TEST(a_slice_takes_every_step_th_index)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(3, 7)), *v;
    ASSERT_OK(lk_tensor_slice(t, 1, 1, 6, 2, &v));
    test_expect_text(v, "i32[3,3]");
    TEST_EXPECT(v, 1, 3, 5, 8, 10, 12, 15, 17, 19);
    ASSERT_EQ(lk_tensor_strides(v)[1], 2);
    ASSERT_TRUE(!lk_tensor_is_contiguous(v) && lk_tensor_is_writable(v));
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_slice(t, 0, 1, 3, 1, &v));
    TEST_EXPECT(v, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20);
    ASSERT_TRUE(lk_tensor_is_contiguous(v));
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_slice(t, 0, 1, 3, INT64_MAX, &v));
    TEST_EXPECT(v, 7, 8, 9, 10, 11, 12, 13);
    lk_tensor_free(v);
    lk_tensor_free(t);
}

TEST(empty_slices_stay_inside_the_memory)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(2, 3)), *a, *b;
    ASSERT_OK(lk_tensor_slice(t, 0, 2, 2, 1, &a));
    test_expect_text(a, "i32[0,3]");
    ASSERT_OK(lk_tensor_slice(a, 1, 3, 3, 5, &b));
    test_expect_text(b, "i32[0,0]");
    ASSERT_TRUE(lk_tensor_data(b) == lk_tensor_data(t));
    ASSERT_TRUE(lk_tensor_is_contiguous(b));
    lk_tensor_free(a);
    lk_tensor_free(b);
    lk_tensor_free(t);
}

TEST(slices_outside_an_axis_are_refused)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 3)), *v;
    ASSERT_FAILS(lk_tensor_slice(t, 1, 0, 4, 1, &v), LK_EINVAL,
                 "slice 0 to 4 of axis 1 of tensor f32[2,3]");
    ASSERT_TRUE(!v);
    ASSERT_FAILS(lk_tensor_slice(t, 1, -1, 2, 1, &v), LK_EINVAL, "slice -1 to 2");
    ASSERT_FAILS(lk_tensor_slice(t, 1, 2, 1, 1, &v), LK_EINVAL, "slice 2 to 1");
    ASSERT_FAILS(lk_tensor_slice(t, 1, 0, 1, 0, &v), LK_EINVAL, "with step 0");
    ASSERT_FAILS(lk_tensor_slice(t, 1, 0, 1, -1, &v), LK_EINVAL, "with step -1");
    ASSERT_FAILS(lk_tensor_slice(t, 2, 0, 1, 1, &v), LK_EINVAL, "axis 2 of tensor f32[2,3]");
    ASSERT_FAILS(lk_tensor_slice(t, -1, 0, 1, 1, &v), LK_EINVAL, "axis -1 of tensor f32[2,3]");
    ASSERT_FAILS(lk_tensor_slice(NULL, 0, 0, 1, 1, &v), LK_EINVAL, "t is NULL");
    lk_tensor_free(t);
}

TEST(a_selection_drops_its_axis)
{
    lk_tensor *t = test_iota(LK_I64, LK_SHAPE(2, 3, 4)), *v, *s;
    ASSERT_OK(lk_tensor_select(t, 1, 2, &v));
    test_expect_text(v, "i64[2,4]");
    TEST_EXPECT(v, 8, 9, 10, 11, 20, 21, 22, 23);
    ASSERT_OK(lk_tensor_select(v, 0, 1, &s));
    TEST_EXPECT(s, 20, 21, 22, 23);
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_select(s, 0, 3, &v));
    test_expect_text(v, "i64[]");
    TEST_EXPECT(v, 23);
    lk_tensor_free(v);
    ASSERT_FAILS(lk_tensor_select(t, 1, 3, &v), LK_EINVAL,
                 "index 3 of axis 1 of tensor i64[2,3,4]");
    ASSERT_FAILS(lk_tensor_select(t, 1, -1, &v), LK_EINVAL, "index -1 of axis 1");
    ASSERT_FAILS(lk_tensor_select(t, 3, 0, &v), LK_EINVAL, "axis 3");
    lk_tensor_free(s);
    lk_tensor_free(t);
}

TEST(axes_are_permuted_and_exchanged)
{
    lk_tensor *t = test_iota(LK_U8, LK_SHAPE(2, 3, 4)), *v;
    ASSERT_OK(lk_tensor_permute(t, (int[]){2, 0, 1}, &v));
    test_expect_text(v, "u8[4,2,3]");
    TEST_EXPECT(v, 0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19,
                23);
    ASSERT_TRUE(!lk_tensor_is_contiguous(v));
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_transpose(t, 0, 2, &v));
    test_expect_text(v, "u8[4,3,2]");
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_transpose(t, 1, 1, &v));
    ASSERT_TRUE(lk_tensor_is_equal(t, v));
    lk_tensor_free(v);
    ASSERT_FAILS(lk_tensor_permute(t, (int[]){0, 1, 0}, &v), LK_EINVAL,
                 "axis 0 of tensor u8[2,3,4] twice");
    ASSERT_FAILS(lk_tensor_permute(t, (int[]){0, 1, 3}, &v), LK_EINVAL, "axis 3");
    ASSERT_FAILS(lk_tensor_permute(t, NULL, &v), LK_EINVAL, "axes is NULL for tensor u8[2,3,4]");
    ASSERT_FAILS(lk_tensor_transpose(t, 0, -1, &v), LK_EINVAL, "axis -1");
    lk_tensor_free(t);
}

TEST(contiguous_tensors_take_any_shape_of_their_count)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(4, 6)), *v;
    static const lk_shape shapes[] = {LK_DIMS(24), LK_DIMS(2, 12), LK_DIMS(1, 3, 1, 8, 1),
                                      LK_DIMS(24, 1), LK_DIMS(2, 2, 2, 3)};
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(lk_tensor_reshape(t, shapes[i], &v));
        ASSERT_TRUE(lk_tensor_data(v) == lk_tensor_data(t) && lk_tensor_is_contiguous(v));
        ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(v), shapes[i]));
        lk_tensor_free(v);
    }
    ASSERT_FAILS(lk_tensor_reshape(t, LK_SHAPE(5, 5), &v), LK_ESHAPE,
                 "tensor i32[4,6] has 24 elements, shape [5,5] has 25");
    ASSERT_FAILS(lk_tensor_reshape(t, LK_SHAPE(-1, 6), &v), LK_EINVAL, "axis 0 of shape [-1,6]");
    ASSERT_FAILS(lk_tensor_reshape(NULL, LK_SHAPE(5), &v), LK_EINVAL, "t is NULL");
    lk_tensor_free(t);
}

TEST(strided_tensors_reshape_where_no_copy_is_needed)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(4, 6)), *s, *v;
    ASSERT_OK(lk_tensor_slice(t, 1, 0, 4, 1, &s)); /* rows of 4 out of 6 */
    ASSERT_OK(lk_tensor_reshape(s, LK_SHAPE(2, 2, 1, 2, 2), &v));
    TEST_EXPECT(v, 0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21);
    lk_tensor_free(v);
    ASSERT_FAILS(lk_tensor_reshape(s, LK_SHAPE(16), &v), LK_ENOTSUP,
                 "tensor i32[4,4], not contiguous, as shape [16] would need a copy");
    ASSERT_FAILS(lk_tensor_reshape(s, LK_SHAPE(8, 2), &v), LK_ENOTSUP, "[8,2]");
    lk_tensor_free(s);
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 3, 1, &v));
    ASSERT_OK(lk_tensor_slice(v, 1, 0, 4, 1, &s));
    lk_tensor_free(v);
    ASSERT_FAILS(lk_tensor_reshape(s, LK_SHAPE(2, 2, 3), &v), LK_ENOTSUP, "i32[3,4]");
    lk_tensor_free(s);
    ASSERT_OK(lk_tensor_slice(t, 1, 1, 6, 2, &s)); /* every second: one axis with a step */
    ASSERT_OK(lk_tensor_reshape(s, LK_SHAPE(3, 4), &v));
    TEST_EXPECT(v, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23);
    lk_tensor_free(v);
    lk_tensor_free(s);
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &s));
    ASSERT_FAILS(lk_tensor_reshape(s, LK_SHAPE(24), &v), LK_ENOTSUP, "need a copy");
    ASSERT_OK(lk_tensor_contiguous(s, &v));
    lk_tensor *flat;
    ASSERT_OK(lk_tensor_reshape(v, LK_SHAPE(24), &flat));
    TEST_EXPECT(flat, 0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11,
                17, 23);
    lk_tensor_free(flat);
    lk_tensor_free(v);
    lk_tensor_free(s);
    lk_tensor_free(t);
}

TEST(scalars_and_empty_tensors_reshape)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(1)), *v, *w;
    ASSERT_OK(lk_tensor_reshape(t, LK_SCALAR, &v));
    test_expect_text(v, "i32[]");
    ASSERT_OK(lk_tensor_reshape(v, LK_SHAPE(1, 1, 1), &w));
    test_expect_text(w, "i32[1,1,1]");
    lk_tensor_free(t);
    lk_tensor_free(v);
    lk_tensor_free(w);
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(3, 0, 2), &t));
    ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(0, 5), &v));
    test_expect_text(v, "f32[0,5]");
    ASSERT_FAILS(lk_tensor_reshape(t, LK_SCALAR, &w), LK_ESHAPE, "shape [] has 1");
    lk_tensor_free(t);
    lk_tensor_free(v);
}

TEST(broadcasting_repeats_and_forbids_writing)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 1)), *v, *w;
    ASSERT_OK(lk_tensor_broadcast(t, LK_SHAPE(2, 2, 3), &v));
    TEST_EXPECT(v, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    ASSERT_TRUE(!lk_tensor_is_writable(v));
    ASSERT_FAILS(lk_tensor_fill_f64(v, 3), LK_EINVAL, "tensor f32[2,2,3] is read-only");
    ASSERT_OK(lk_tensor_select(v, 0, 0, &w));
    ASSERT_FAILS(lk_tensor_set_f64(w, LK_AT(0, 0), 3), LK_EINVAL, "read-only");
    lk_tensor_free(w);
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_broadcast(t, LK_SHAPE(2, 0), &v));
    ASSERT_EQ(lk_tensor_count(v), 0);
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_broadcast(t, LK_SHAPE(INT64_C(1) << 40, 2, INT64_C(1) << 20), &v));
    lk_tensor_free(v);
    ASSERT_FAILS(lk_tensor_broadcast(t, LK_SHAPE(3, 2), &v), LK_ESHAPE,
                 "tensor f32[2,1] cannot be broadcast to shape [3,2]");
    ASSERT_FAILS(lk_tensor_broadcast(t, LK_SHAPE(2), &v), LK_ESHAPE, "to shape [2]");
    ASSERT_FAILS(lk_tensor_broadcast(t, LK_SHAPE(INT64_MAX, 2, 5), &v), LK_EOVERFLOW, "807,2,5]");
    lk_tensor_free(t);
}

/* A view and, next to it, where each of its elements should be found: element number -> value. */
struct model {
    lk_shape shape;
    int64_t value[64];
};

static int64_t number_of(lk_shape shape, lk_shape at)
{
    int64_t n = 0;
    for (int i = 0; i < shape.ndim; i++)
        n = n * shape.dim[i] + at.dim[i];
    return n;
}

/* Fill `to` by asking, for each of its indices, which index of `from` it comes from. */
static void model_map(struct model *m, lk_shape to, void (*origin)(lk_shape *at, const int64_t *p),
                      const int64_t *p)
{
    struct model old = *m;
    int64_t count;
    ASSERT_OK(lk_shape_count(to, &count));
    m->shape = to;
    for (int64_t i = 0; i < count; i++) {
        lk_shape at = to;
        int64_t rest = i;
        for (int k = to.ndim - 1; k >= 0; k--) {
            at.dim[k] = rest % to.dim[k];
            rest /= to.dim[k];
        }
        origin(&at, p);
        m->value[i] = old.value[number_of(old.shape, at)];
    }
}

static void slice_origin(lk_shape *at, const int64_t *p)
{
    at->dim[p[0]] = p[1] + p[2] * at->dim[p[0]];
}

static void select_origin(lk_shape *at, const int64_t *p)
{
    for (int i = at->ndim++; i > p[0]; i--)
        at->dim[i] = at->dim[i - 1];
    at->dim[p[0]] = p[1];
}

static void transpose_origin(lk_shape *at, const int64_t *p)
{
    int64_t swap = at->dim[p[0]];
    at->dim[p[0]] = at->dim[p[1]];
    at->dim[p[1]] = swap;
}

/* One random view of t, done to the model too. */
static lk_tensor *random_step(lk_tensor *t, struct model *m)
{
    lk_shape to = m->shape;
    lk_tensor *v = NULL;
    int axis = (int)test_random(to.ndim), other = (int)test_random(to.ndim);
    int64_t dim = to.dim[axis], start = test_random(dim + 1);
    int64_t stop = start + test_random(dim - start + 1), step = 1 + test_random(3);
    switch (test_random(4)) {
    case 0:
        ASSERT_OK(lk_tensor_slice(t, axis, start, stop, step, &v));
        to.dim[axis] = (stop - start + step - 1) / step;
        model_map(m, to, slice_origin, (int64_t[]){axis, start, step});
        break;
    case 1:
        if (start == dim || to.ndim == 1)
            return t;
        ASSERT_OK(lk_tensor_select(t, axis, start, &v));
        for (int i = axis; i + 1 < to.ndim; i++)
            to.dim[i] = to.dim[i + 1];
        to.ndim--;
        model_map(m, to, select_origin, (int64_t[]){axis, start});
        break;
    case 2:
        ASSERT_OK(lk_tensor_transpose(t, axis, other, &v));
        to.dim[axis] = to.dim[other];
        to.dim[other] = dim;
        model_map(m, to, transpose_origin, (int64_t[]){axis, other});
        break;
    default: /* split or join two axes, if the strides allow it */
        if (axis + 1 < to.ndim) {
            to.dim[axis] *= to.dim[axis + 1];
            for (int i = axis + 1; i + 1 < to.ndim; i++)
                to.dim[i] = to.dim[i + 1];
            to.ndim--;
        } else if (dim % 2 == 0 && to.ndim < LK_MAX_NDIM) {
            to.dim[axis] = dim / 2;
            to.dim[to.ndim++] = 2;
        }
        if (lk_tensor_reshape(t, to, &v) != LK_OK) {
            ASSERT_EQ(lk_error_status(), LK_ENOTSUP);
            return t;
        }
        m->shape = to; /* the order of elements stays */
    }
    lk_tensor_free(t);
    return v;
}

TEST(chains_of_views_hold_what_plain_indexing_says)
{
    for (int round = 0; round < 3000; round++) {
        struct model m = {
            .shape = LK_SHAPE(1 + test_random(4), 1 + test_random(4), 1 + test_random(4))};
        lk_tensor *t = test_iota(LK_I32, m.shape);
        for (int64_t i = 0; i < lk_tensor_count(t); i++)
            m.value[i] = i;
        for (int step = 0; step < 6; step++)
            t = random_step(t, &m);
        ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(t), m.shape));
        test_expect(t, lk_tensor_count(t), m.value);
        lk_tensor *copy;
        ASSERT_OK(lk_tensor_clone(t, LK_F64, &copy));
        test_expect(copy, lk_tensor_count(t), m.value);
        lk_tensor_free(copy);
        lk_tensor_free(t);
    }
}

/* What a reshape says about copies is right: elements of a joined axis really are evenly spaced. */
TEST(a_refused_reshape_has_uneven_elements)
{
    for (int a = 1; a <= 4; a++)
        for (int b = 1; b <= 4; b++)
            for (int step = 1; step <= 3; step++) {
                lk_tensor *t = test_iota(LK_I32, LK_SHAPE(4, 4)), *u, *s, *flat;
                ASSERT_OK(lk_tensor_slice(t, 0, 0, a, 1, &u));
                ASSERT_OK(lk_tensor_slice(u, 1, 0, b, step, &s));
                int64_t n = lk_tensor_count(s), cols = lk_tensor_shape(s).dim[1];
                bool even = a == 1 || cols == 1 || cols * step == 4;
                lk_status st = lk_tensor_reshape(s, LK_SHAPE(n), &flat);
                ASSERT_EQ(st, even ? LK_OK : LK_ENOTSUP);
                lk_tensor_free(flat);
                lk_tensor_free(s);
                lk_tensor_free(u);
                lk_tensor_free(t);
            }
    lk_error_clear();
}
