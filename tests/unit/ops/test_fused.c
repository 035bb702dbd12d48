/* Ops that do the work of two, and gradients that go straight to a leaf: the bits of the long way. */
#include "tensors.h"

#include <lockstep/lockstep.h>

#include <math.h>

enum { MAX = 3 };

/* Random numbers, zeros of both signs among them. */
static lk_tensor *random_new(lk_dtype dtype, lk_shape shape, int number)
{
    lk_tensor *t, *flat;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(lk_tensor_count(t)), &flat));
    for (int64_t e = 0; e < lk_tensor_count(t); e++) {
        double u;
        ASSERT_OK(
            lk_rng_uniform_f64(lk_rng_start(7, "fused", "test"), (lk_rng_at){number, 0, e}, 1, &u));
        double v = u < 0.1 ? -0.0 : u < 0.2 ? 0.0 : 2 * u - 1.2;
        ASSERT_OK(lk_tensor_set_f64(flat, LK_AT(e), v));
    }
    lk_tensor_free(flat);
    return t;
}

/* A computation of leaves. */
typedef lk_status program(const lk_var *in, lk_var *out);

/* What a program gives: its value, and the gradients of its leaves after two passes. */
struct result {
    lk_tensor *value, *grad[MAX];
};

/* How gradients get there: by hand, by backward, by backward into what is not set. */
enum way { BY_HAND, DIRECT, UNSET };

static struct result run(program *p, int n, lk_tensor *const *in, int64_t piece, enum way way)
{
    struct result r = {.value = NULL};
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, piece));
    for (int i = 0; i < n; i++) {
        ASSERT_OK(lk_tensor_new(lk_tensor_dtype(in[i]), lk_tensor_shape(in[i]), &r.grad[i]));
        ASSERT_OK(lk_tensor_fill_f64(r.grad[i], way == UNSET ? (double)NAN : 0));
    }
    for (int pass = 0; pass < 2; pass++) {
        lk_var x[MAX], y, g[MAX];
        const lk_tensor *value;
        lk_tape_reset(tape);
        for (int i = 0; i < n; i++)
            ASSERT_OK(way == UNSET && pass == 0 ? lk_leaf_overwrite(tape, in[i], r.grad[i], &x[i])
                                                : lk_leaf(tape, in[i], r.grad[i], &x[i]));
        ASSERT_OK(p(x, &y));
        ASSERT_OK(lk_value(y, &value));
        if (pass == 0)
            ASSERT_OK(lk_tensor_clone(value, lk_tensor_dtype(value), &r.value));
        lk_tensor *seed = random_new(lk_tensor_dtype(value), lk_tensor_shape(value), 9 + pass);
        lk_var s;
        ASSERT_OK(lk_constant(tape, seed, &s));
        if (way != BY_HAND) {
            ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
        } else {
            ASSERT_OK(lk_grad(tape, &y, &s, 1, x, n, 0, g));
            for (int i = 0; i < n; i++) {
                lk_var old, sum;
                ASSERT_OK(lk_constant(tape, r.grad[i], &old));
                ASSERT_OK(lk_add(old, g[i], &sum));
                ASSERT_OK(lk_value(sum, &value));
                ASSERT_OK(lk_tensor_copy(value, r.grad[i]));
            }
        }
        lk_tape_reset(tape);
        lk_tensor_free(seed);
    }
    lk_tape_free(tape);
    return r;
}

static void result_free(struct result *r)
{
    lk_tensor_free(r->value);
    for (int i = 0; i < MAX; i++)
        lk_tensor_free(r->grad[i]);
}

/* Both programs give the same bits, in place or not, for f32 and f64, with and without pieces. */
static void check_same(program *one, program *two, int n, const lk_shape *shape)
{
    for (int k = 0; k < 4; k++) {
        lk_tensor *in[MAX];
        for (int i = 0; i < n; i++)
            in[i] = random_new(k % 2 ? LK_F64 : LK_F32, shape[i], i);
        struct result a = run(one, n, in, k / 2 * 2, BY_HAND);
        for (enum way way = DIRECT; way <= UNSET; way++) {
            struct result b = run(two, n, in, k / 2 * 2, way);
            ASSERT_TRUE(lk_tensor_is_equal(a.value, b.value));
            for (int i = 0; i < n; i++)
                ASSERT_TRUE(lk_tensor_is_equal(a.grad[i], b.grad[i]));
            result_free(&b);
        }
        result_free(&a);
        for (int i = 0; i < n; i++)
            lk_tensor_free(in[i]);
    }
}

static lk_status linear(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_linear(in[0], in[1], in[2], out));
}

static lk_status linear_then_relu(const lk_var *in, lk_var *out)
{
    LK_TRY(lk_linear(in[0], in[1], in[2], out));
    return LK_TRACE(lk_relu(*out, out));
}

static lk_status linear_relu(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_linear_relu(in[0], in[1], in[2], out));
}

/* The weights are used twice: their gradients meet before they reach the leaf. */
static lk_status linear_twice(const lk_var *in, lk_var *out)
{
    LK_TRY(lk_linear(in[0], in[1], in[2], out));
    return LK_TRACE(lk_linear(*out, in[1], in[2], out));
}

/* One leaf is both inputs. */
static lk_status linear_of_itself(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_linear(in[0], in[0], LK_NO_VAR, out));
}

static lk_conv_attr conv_attr = {.window = {.pad_lo = {1, 0}, .pad_hi = {1, 1}}};

static lk_status conv(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_conv(in[0], in[1], in[2], &conv_attr, out));
}

static lk_status conv_then_relu(const lk_var *in, lk_var *out)
{
    LK_TRY(lk_conv(in[0], in[1], in[2], &conv_attr, out));
    return LK_TRACE(lk_relu(*out, out));
}

static lk_status conv_relu(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_conv_relu(in[0], in[1], in[2], &conv_attr, out));
}

TEST(gradients_reach_leaves_in_place)
{
    const lk_shape wide[] = {LK_DIMS(5, 17), LK_DIMS(17, 9), LK_DIMS(9)};
    const lk_shape square[] = {LK_DIMS(4, 3), LK_DIMS(3, 3), LK_DIMS(3)};
    const lk_shape image[] = {LK_DIMS(3, 6, 5, 2), LK_DIMS(3, 2, 2, 9), LK_DIMS(9)};
    check_same(linear, linear, 3, wide);
    check_same(linear_twice, linear_twice, 3, square);
    check_same(linear_of_itself, linear_of_itself, 1, &square[1]);
    check_same(conv, conv, 3, image);
}

/* What was told of: which gradients, in which order, and an element of each then. */
struct told {
    int n;
    const void *grad[8];
    double first[8];
};

static lk_status note(void *arg, const lk_tensor *grad)
{
    struct told *t = arg;
    ASSERT_TRUE(t->n < 8);
    t->grad[t->n] = lk_tensor_data(grad);
    t->first[t->n++] = lk_tensor_dtype(grad) == LK_F32
                           ? (double)*(const float *)lk_tensor_data(grad)
                           : *(const double *)lk_tensor_data(grad);
    return LK_OK;
}

/* Two linear layers: each leaf is told once, when its gradient is complete, the last layer's first. */
TEST(each_leaf_is_told_once)
{
    const lk_shape shape[] = {LK_DIMS(5, 4), LK_DIMS(4, 4), LK_DIMS(4), LK_DIMS(4, 4), LK_DIMS(4)};
    lk_tape *tape;
    lk_tensor *value[5], *grad[5];
    lk_var v[5], y;
    struct told told = {.n = 0};
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 5; i++) {
        value[i] = random_new(LK_F64, shape[i], i);
        ASSERT_OK(lk_tensor_new(LK_F64, shape[i], &grad[i]));
        ASSERT_OK(lk_leaf_overwrite(tape, value[i], grad[i], &v[i]));
    }
    ASSERT_OK(lk_linear(v[0], v[1], v[2], &y));
    ASSERT_OK(lk_linear(y, v[3], v[4], &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    lk_tape_set_grad_hook(tape, note, &told);
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_EQ(told.n, 5);
    for (int i = 0; i < 5; i++) {
        int times = 0;
        for (int k = 0; k < told.n; k++)
            if (told.grad[k] == lk_tensor_data(grad[i])) {
                times++;
                ASSERT_TRUE(k >= 2 || i >= 3);
                ASSERT_TRUE(told.first[k] == *(const double *)lk_tensor_data(grad[i]));
            }
        ASSERT_EQ(times, 1);
    }
    lk_tape_free(tape);
    for (int i = 0; i < 5; i++) {
        lk_tensor_free(value[i]);
        lk_tensor_free(grad[i]);
    }
}

TEST(relu_is_one_with_linear_and_conv)
{
    const lk_shape wide[] = {LK_DIMS(5, 17), LK_DIMS(17, 9), LK_DIMS(9)};
    const lk_shape image[] = {LK_DIMS(3, 6, 5, 2), LK_DIMS(3, 2, 2, 9), LK_DIMS(9)};
    check_same(linear_then_relu, linear_relu, 3, wide);
    check_same(conv_then_relu, conv_relu, 3, image);
}

TEST(relu_is_one_with_conv_by_winograd)
{
    const lk_shape image[] = {LK_DIMS(3, 6, 9, 2), LK_DIMS(3, 3, 2, 9), LK_DIMS(9)};
    conv_attr.algorithm = LK_CONV_WINOGRAD;
    check_same(conv, conv, 3, image);
    check_same(conv_then_relu, conv_relu, 3, image);
    conv_attr.algorithm = LK_CONV_DIRECT;
}

/* Windows apart, with a rest that none covers, and overlapping. */
static const lk_pool_attr windows[] = {
    {.window = {.kernel = {2, 2}, .stride = {2, 2}}},
    {.window = {.kernel = {2, 3}, .stride = {3, 3}, .pad_lo = {1, 0}}},
    {.window = {.kernel = {3, 2}, .stride = {1, 2}, .pad_hi = {1, 1}}},
};
static int window;

static lk_status relu_then_pool(const lk_var *in, lk_var *out)
{
    LK_TRY(lk_relu(in[0], out));
    return LK_TRACE(lk_max_pool(*out, &windows[window], out, NULL));
}

static lk_status relu_pool(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_relu_max_pool(in[0], &windows[window], out));
}

TEST(relu_is_one_with_pooling)
{
    const lk_shape shape[] = {LK_DIMS(2, 6, 8, 1), LK_DIMS(2, 7, 5, 45)};
    for (window = 0; window < LK_COUNT(windows); window++)
        for (int s = 0; s < 2; s++)
            check_same(relu_then_pool, relu_pool, 1, &shape[s]);
}

TEST(relu_of_pooling_keeps_not_a_number)
{
    lk_tape *tape;
    lk_tensor *x = random_new(LK_F32, LK_SHAPE(1, 2, 2, 1), 0);
    lk_var v, out;
    double value;
    ASSERT_OK(lk_tensor_set_f64(x, LK_AT(0, 1, 0, 0), (double)NAN));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &v));
    ASSERT_OK(lk_relu_max_pool(v, &windows[0], &out));
    ASSERT_OK(lk_item(out, &value));
    ASSERT_TRUE(isnan(value));
    lk_tape_free(tape);
    lk_tensor_free(x);
}

/* Some elements of each sample, most of them, and hardly any. */
static const lk_dropout_attr drops[] = {
    {.keep = 0.3, .step = 2, .first = 5}, {.keep = 1}, {.keep = 1e-11}};
static int drop;

static lk_status dropout_then_add(const lk_var *in, lk_var *out)
{
    LK_TRY(lk_dropout(in[0], &drops[drop], out));
    return LK_TRACE(lk_add(*out, in[1], out));
}

static lk_status dropout_add(const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_dropout_add(in[0], &drops[drop], in[1], out));
}

TEST(dropout_is_one_with_the_sum_behind_it)
{
    const lk_shape shape[] = {LK_DIMS(5, 7, 33), LK_DIMS(5, 7, 33)};
    for (drop = 0; drop < LK_COUNT(drops); drop++)
        check_same(dropout_then_add, dropout_add, 2, shape);
}

TEST(what_is_added_to_dropout_has_its_shape)
{
    lk_tape *tape;
    lk_tensor *x = random_new(LK_F32, LK_SHAPE(2, 3), 0), *s = random_new(LK_F32, LK_SHAPE(3), 1),
              *other = random_new(LK_F64, LK_SHAPE(2, 3), 1);
    lk_var vx, vs, vo, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &vx));
    ASSERT_OK(lk_constant(tape, s, &vs));
    ASSERT_OK(lk_constant(tape, other, &vo));
    ASSERT_FAILS(lk_dropout_add(vx, &drops[0], vs, &y), LK_ESHAPE,
                 "dropout of f32[2,3], added to f32[3], which must have its shape");
    ASSERT_FAILS(lk_dropout_add(vx, &drops[0], vo, &y), LK_EDTYPE,
                 "dropout of f32[2,3], added to f64[2,3]: lk_cast() one of them");
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_tensor_free(s);
    lk_tensor_free(other);
}
