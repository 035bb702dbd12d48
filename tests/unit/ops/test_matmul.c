/* matmul: products of matrices over leading axes, with their gradients. */
#include "op_program.h"

TEST(a_product_of_two_matrices)
{
    struct program p = program_new(LK_F32, true);
    lk_var a = program_leaf(&p, LK_SHAPE(2, 2)), b = program_leaf(&p, LK_SHAPE(2, 1)), c;
    const float va[] = {1, 2, 3, 4}, vb[] = {5, 6};
    void *data;
    ASSERT_OK(lk_tensor_writable_data(p.value[0], &data));
    memcpy(data, va, sizeof va);
    ASSERT_OK(lk_tensor_writable_data(p.value[1], &data));
    memcpy(data, vb, sizeof vb);
    ASSERT_OK(lk_matmul(a, b, &c));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(c), LK_SHAPE(2, 1)));
    ASSERT_EQ(value_at(c, 0), 17);
    ASSERT_EQ(value_at(c, 1), 39);
    lk_tensor *seed = program_tensor(&p, LK_SHAPE(2, 1), 1);
    ASSERT_OK(lk_tensor_set_f64(seed, LK_AT(0, 0), 1));
    ASSERT_OK(lk_tensor_set_f64(seed, LK_AT(1, 0), 10));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){c, seed}, 1, 0));
    const float da[] = {5, 6, 50, 60}, db[] = {31, 42};
    ASSERT_SAME_BITS(lk_tensor_data(p.grad[0]), da, sizeof da);
    ASSERT_SAME_BITS(lk_tensor_data(p.grad[1]), db, sizeof db);
    lk_tensor_free(seed);
    program_free(&p);
}

/* Where element (i, j) of matrix number `at` of the output's leading axes lies in x. */
static int64_t place(const lk_tensor *x, lk_shape y, int64_t at, bool trans, int64_t i, int64_t j)
{
    const int64_t *stride = lk_tensor_strides(x);
    lk_shape s = lk_tensor_shape(x);
    int64_t sum = trans ? j * stride[s.ndim - 2] + i : i * stride[s.ndim - 2] + j;
    for (int d = y.ndim - 3; d >= 0; d--) {
        int own = d - (y.ndim - s.ndim);
        if (own >= 0 && s.dim[own] > 1)
            sum += at % y.dim[d] * stride[own];
        at /= y.dim[d];
    }
    return sum;
}

/* Values and gradients of integers, one product at a time. */
static void expect_reference(const struct program *p, lk_var c, bool ta, bool tb)
{
    const lk_tensor *a = p->value[0], *b = p->value[1];
    lk_shape s = lk_shape_of(c), sa = lk_tensor_shape(a);
    int64_t m = s.dim[s.ndim - 2], n = s.dim[s.ndim - 1], k = sa.dim[sa.ndim - (ta ? 2 : 1)];
    double *da = calloc((size_t)lk_tensor_count(a), sizeof *da),
           *db = calloc((size_t)lk_tensor_count(b), sizeof *db);
    ASSERT_TRUE(da && db);
    for (int64_t e = 0; e < lk_tensor_count(value_of(c)); e++) {
        int64_t at = e / (m * n), i = e / n % m, j = e % n;
        double sum = 0, dc = tensor_at(p->seed, e);
        for (int64_t l = 0; l < k; l++) {
            int64_t pa = place(a, s, at, ta, i, l), pb = place(b, s, at, tb, l, j);
            sum += tensor_at(a, pa) * tensor_at(b, pb);
            da[pa] += dc * tensor_at(b, pb);
            db[pb] += dc * tensor_at(a, pa);
        }
        ASSERT_EQ(value_at(c, e), sum);
    }
    for (int64_t i = 0; i < lk_tensor_count(a); i++)
        ASSERT_EQ(tensor_at(p->grad[0], i), da[i]);
    for (int64_t i = 0; i < lk_tensor_count(b); i++)
        ASSERT_EQ(tensor_at(p->grad[1], i), db[i]);
    free(da);
    free(db);
}

static lk_shape turned(lk_shape s, bool trans)
{
    int64_t last = s.dim[s.ndim - 1];
    if (trans) {
        s.dim[s.ndim - 1] = s.dim[s.ndim - 2];
        s.dim[s.ndim - 2] = last;
    }
    return s;
}

TEST(every_transpose_and_broadcast_agrees_with_the_definition)
{
    const lk_shape pairs[][2] = {
        {LK_DIMS(3, 5), LK_DIMS(5, 4)},
        {LK_DIMS(1, 1), LK_DIMS(1, 1)},
        {LK_DIMS(2, 3, 5), LK_DIMS(5, 4)},
        {LK_DIMS(3, 5), LK_DIMS(2, 5, 4)},
        {LK_DIMS(2, 3, 5), LK_DIMS(2, 5, 4)},
        {LK_DIMS(1, 3, 5), LK_DIMS(2, 5, 4)},
        {LK_DIMS(2, 3, 5), LK_DIMS(1, 5, 4)},
        {LK_DIMS(3, 1, 2, 4), LK_DIMS(2, 4, 3)},
        {LK_DIMS(2, 4, 3), LK_DIMS(5, 2, 3, 2)},
        {LK_DIMS(2, 1, 3, 1, 2, 2), LK_DIMS(3, 1, 2, 2, 1)},
    };
    for (int i = 0; i < LK_COUNT(pairs); i++)
        for (int flags = 0; flags < 4; flags++)
            for (int64_t piece = 0; piece < 3; piece++) {
                bool ta = flags & 1, tb = flags & 2;
                struct program p = program_new(i % 2 ? LK_F32 : LK_F64, true);
                lk_var a = program_leaf(&p, turned(pairs[i][0], ta)),
                       b = program_leaf(&p, turned(pairs[i][1], tb)), c;
                ASSERT_OK(lk_tape_set_shard_size(p.tape, piece));
                ASSERT_OK(lk_matmul_trans(a, b, ta, tb, &c));
                program_backward(&p, c, LK_RETAIN_GRAPH);
                expect_reference(&p, c, ta, tb);
                program_free(&p);
            }
}

/* a' b of samples [first, last) of 8, in pieces of 2. */
static lk_tensor *sum_over_samples(int64_t first, int64_t last)
{
    struct program p = program_new(LK_F32, false);
    lk_tensor *all[2] = {program_tensor(&p, LK_SHAPE(8, 3), 1),
                         program_tensor(&p, LK_SHAPE(8, 4), 2)},
              *part, *sum;
    lk_var v[2], c;
    ASSERT_OK(lk_tape_set_shard_size(p.tape, 2));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_tensor_slice(all[i], 0, first, last, 1, &part));
        v[i] = program_own(&p, part);
        lk_tensor_free(all[i]);
    }
    ASSERT_OK(lk_matmul_trans(v[0], v[1], true, false, &c));
    ASSERT_OK(lk_tensor_clone(value_of(c), LK_F32, &sum));
    program_free(&p);
    return sum;
}

TEST(a_sum_over_the_first_axis_of_both_is_cut_into_pieces)
{
    lk_tensor *whole = sum_over_samples(0, 8), *low = sum_over_samples(0, 4),
              *high = sum_over_samples(4, 8);
    for (int64_t i = 0; i < 12; i++)
        ASSERT_TRUE(real_add(LK_F32, tensor_at(low, i), tensor_at(high, i)) == tensor_at(whole, i));
    lk_tensor_free(whole);
    lk_tensor_free(low);
    lk_tensor_free(high);
}

TEST(empty_axes_give_empty_products_and_zero_sums)
{
    struct program p = program_new(LK_F32, false);
    lk_var none = program_leaf(&p, LK_SHAPE(2, 3, 0)), w = program_leaf(&p, LK_SHAPE(0, 4)),
           batch = program_leaf(&p, LK_SHAPE(0, 3, 4)), v = program_leaf(&p, LK_SHAPE(4, 2)), c;
    ASSERT_OK(lk_matmul(none, w, &c));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(c), LK_SHAPE(2, 3, 4)));
    for (int64_t i = 0; i < 24; i++)
        ASSERT_TRUE(value_at(c, i) == 0 && !signbit(value_at(c, i)));
    program_backward(&p, c, 0);
    ASSERT_OK(lk_matmul(batch, v, &c));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(c), LK_SHAPE(0, 3, 2)));
    ASSERT_OK(lk_tensor_fill_f64(p.grad[3], 7));
    program_backward(&p, c, 0);
    ASSERT_EQ(tensor_at(p.grad[3], 5), 7); /* a sum over no sample adds zero */
    program_free(&p);
}

TEST(shapes_that_do_not_meet_are_refused)
{
    struct program p = program_new(LK_F64, false);
    lk_var a = program_leaf(&p, LK_SHAPE(2, 3)), b = program_leaf(&p, LK_SHAPE(2, 4)),
           vector = program_leaf(&p, LK_SHAPE(3)), many = program_leaf(&p, LK_SHAPE(2, 3, 4)),
           others = program_leaf(&p, LK_SHAPE(3, 4, 2)), single, c;
    ASSERT_FAILS(lk_matmul(a, b, &c), LK_ESHAPE,
                 "matmul of f64[2,3] and f64[2,4]: sums over 3 and 2 elements");
    ASSERT_FAILS(lk_matmul_trans(a, b, true, true, &c), LK_ESHAPE,
                 "f64[2,3] transposed and f64[2,4] transposed: sums over 2 and 4");
    ASSERT_FAILS(lk_matmul(a, vector, &c), LK_ESHAPE, "both need two axes or more");
    ASSERT_FAILS(lk_matmul(many, others, &c), LK_ESHAPE,
                 "matmul of f64[2,3,4] and f64[3,4,2]: leading axes");
    ASSERT_OK(lk_full(p.tape, LK_F32, LK_SHAPE(3, 2), 1, &single));
    ASSERT_FAILS(lk_matmul(a, single, &c), LK_EDTYPE, "matmul of f64[2,3] and f32[3,2]");
    ASSERT_OK(lk_full(p.tape, LK_I64, LK_SHAPE(3, 2), 1, &single));
    ASSERT_FAILS(lk_matmul(single, single, &c), LK_EDTYPE, "i64[3,2]");
    ASSERT_TRUE(!lk_is_var(c));
    program_free(&p);
}

static void large_products(struct program *p, lk_var *y)
{
    lk_var a = program_leaf(p, LK_SHAPE(6, 40, 70)), b = program_leaf(p, LK_SHAPE(70, 130)),
           c = program_leaf(p, LK_SHAPE(6, 50, 130)), d = program_leaf(p, LK_SHAPE(1, 40, 33)), e;
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 2));
    ASSERT_OK(lk_matmul(a, b, &e));                    /* [6,40,130] */
    ASSERT_OK(lk_matmul_trans(e, c, false, true, &e)); /* [6,40,50] */
    ASSERT_OK(lk_matmul_trans(e, d, true, false, y));  /* [6,50,33] */
}

TEST(the_bits_are_the_same_everywhere)
{
    test_same_bits_everywhere(large_products);
}
