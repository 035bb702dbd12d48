/* All element-wise ops alike: the same bits everywhere, any strides, and third derivatives. */
#include "unit/ops/elementwise.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>

static const struct elementwise {
    const char *name;
    int n_in;
    double lo, hi; /* of the inputs */
    union {
        lk_affine_attr affine;
        lk_pow_scalar_attr pow_scalar;
        lk_leaky_relu_attr leaky_relu;
        lk_elu_attr elu;
        lk_clip_attr clip;
    } attr;
} ops[] = {
    {.name = "abs", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "add", .n_in = 2, .lo = -2, .hi = 2},
    {.name = "affine", .n_in = 1, .lo = -2, .hi = 2, .attr.affine = {0.3, 0.7}},
    {.name = "clip", .n_in = 1, .lo = -2, .hi = 2, .attr.clip = {-0.3, 0.7}},
    {.name = "cos", .n_in = 1, .lo = -9, .hi = 9},
    {.name = "div", .n_in = 2, .lo = 0.2, .hi = 2},
    {.name = "elu", .n_in = 1, .lo = -2, .hi = 2, .attr.elu = {0.3}},
    {.name = "erf", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "exp", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "gelu", .n_in = 1, .lo = -5, .hi = 5},
    {.name = "leaky_relu", .n_in = 1, .lo = -2, .hi = 2, .attr.leaky_relu = {0.3}},
    {.name = "log", .n_in = 1, .lo = 0.2, .hi = 5},
    {.name = "maximum", .n_in = 2, .lo = -2, .hi = 2},
    {.name = "minimum", .n_in = 2, .lo = -2, .hi = 2},
    {.name = "mul", .n_in = 2, .lo = -2, .hi = 2},
    {.name = "neg", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "pow", .n_in = 2, .lo = 0.2, .hi = 3},
    {.name = "pow_scalar", .n_in = 1, .lo = 0.2, .hi = 3, .attr.pow_scalar = {1.3}},
    {.name = "relu", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "sigmoid", .n_in = 1, .lo = -5, .hi = 5},
    {.name = "sin", .n_in = 1, .lo = -9, .hi = 9},
    {.name = "softplus", .n_in = 1, .lo = -5, .hi = 5},
    {.name = "sqrt", .n_in = 1, .lo = 0.2, .hi = 5},
    {.name = "square", .n_in = 1, .lo = -2, .hi = 2},
    {.name = "sub", .n_in = 2, .lo = -2, .hi = 2},
    {.name = "tanh", .n_in = 1, .lo = -5, .hi = 5},
    {.name = "where", .n_in = 3, .lo = -2, .hi = 2},
};

enum { N_OPS = sizeof ops / sizeof ops[0], MAX_IN = 3 };

/* A condition has zeros, too. */
static double draw(const struct elementwise *e, int input, uint64_t *state)
{
    double unit = (double)real_random(state) * 0x1p-31;
    if (strcmp(e->name, "where") == 0 && input == 0)
        return unit < 0.5 ? 0 : 1;
    return e->lo + (e->hi - e->lo) * unit;
}

static lk_tensor *draw_tensor(lk_dtype t, const struct elementwise *e, int input, lk_shape shape)
{
    lk_tensor *x = NULL;
    void *data = NULL;
    uint64_t state = 1000 + (uint64_t)input;
    ASSERT_OK(lk_tensor_new(t, shape, &x));
    ASSERT_OK(lk_tensor_writable_data(x, &data));
    for (int64_t i = 0; i < lk_tensor_count(x); i++)
        real_set(t, data, i, draw(e, input, &state));
    return x;
}

/* Apply an op: gelu has its slope as a second output. */
static lk_status first_output(lk_tape *tape, const lk_op *op, const lk_var *in, int n_in,
                              const void *attr, lk_var *out)
{
    lk_var y[LK_MAX_OUT];
    LK_TRY(lk_apply(tape, op, in, n_in, attr, y));
    *out = y[0];
    return LK_OK;
}

/* The hash of an op's value, gradients and gradients of these, on inputs of these shapes. */
static uint64_t hash_of(const struct elementwise *e, lk_dtype t, const lk_shape *shape)
{
    const lk_op *op = NULL;
    lk_tape *tape;
    lk_tensor *x[MAX_IN];
    lk_var v[MAX_IN], y, one, d[MAX_IN], dd[MAX_IN];
    lk_hash hash = lk_hash_start();
    ASSERT_OK(lk_op_find(e->name, &op));
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < e->n_in; i++) {
        x[i] = draw_tensor(t, e, i, shape[i]);
        ASSERT_OK(lk_leaf(tape, x[i], NULL, &v[i]));
    }
    ASSERT_OK(first_output(tape, op, v, e->n_in, &e->attr, &y));
    ASSERT_OK(lk_exp(y, &y)); /* so that the gradient depends on x even where the op is linear */
    ASSERT_OK(lk_full(tape, t, lk_shape_of(y), 0.7, &one));
    ASSERT_OK(lk_grad(tape, &y, &one, 1, v, e->n_in, LK_RECORD, d));
    int last = e->n_in - 1;
    ASSERT_OK(lk_full(tape, t, shape[last], 0.7, &one));
    ASSERT_OK(lk_grad(tape, &d[last], &one, 1, v, e->n_in, LK_RECORD, dd));
    const lk_tensor *value = NULL;
    ASSERT_OK(lk_value(y, &value));
    lk_tensor_hash(value, "y", &hash);
    for (int i = 0; i < e->n_in; i++) {
        ASSERT_OK(lk_value(d[i], &value));
        lk_tensor_hash(value, "d", &hash);
        ASSERT_OK(lk_value(dd[i], &value));
        lk_tensor_hash(value, "dd", &hash);
        lk_tensor_free(x[i]);
    }
    lk_tape_free(tape);
    return lk_hash_value(&hash);
}

/* Large and even; broadcast. */
static const lk_shape big[][MAX_IN] = {
    {LK_DIMS(20011), LK_DIMS(20011), LK_DIMS(20011)},
    {LK_DIMS(3, 1, 2503), LK_DIMS(5, 1), LK_DIMS(2503)},
};

TEST(every_op_gives_the_same_bits_everywhere)
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int k = 0; k < N_OPS; k++)
        for (int c = 0; c < 4; c++) {
            lk_dtype t = c % 2 ? LK_F64 : LK_F32;
            ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
            ASSERT_OK(lk_threads_set(1));
            uint64_t want = hash_of(&ops[k], t, big[c / 2]);
            for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++) {
                if (!lk_isa_is_available((lk_isa)isa))
                    continue;
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                if (hash_of(&ops[k], t, big[c / 2]) != want)
                    TEST_FAIL("%s %s: other bits with instruction set %s", lk_dtype_name(t),
                              ops[k].name, lk_isa_name((lk_isa)isa));
            }
            ASSERT_OK(lk_isa_set(best));
            for (int threads = 2; threads <= 4; threads += 2) {
                ASSERT_OK(lk_threads_set(threads));
                if (hash_of(&ops[k], t, big[c / 2]) != want)
                    TEST_FAIL("%s %s: other bits on %d threads", lk_dtype_name(t), ops[k].name,
                              threads);
            }
        }
    ASSERT_OK(lk_threads_set(0));
}

/* ---- strides ---- */

/* x as the columns of another tensor, transposed. */
static lk_tensor *scattered(const lk_tensor *x, lk_tensor **owner)
{
    lk_tensor *wide, *columns, *turned;
    lk_shape s = lk_tensor_shape(x);
    ASSERT_EQ(s.ndim, 2);
    ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(x), LK_SHAPE(s.dim[1], 3 * s.dim[0]), &wide));
    ASSERT_OK(lk_tensor_slice(wide, 1, 1, 3 * s.dim[0], 3, &columns));
    ASSERT_OK(lk_tensor_transpose(columns, 0, 1, &turned));
    ASSERT_OK(lk_tensor_copy(x, turned));
    lk_tensor_free(columns);
    *owner = wide;
    return turned;
}

TEST(strides_do_not_matter)
{
    for (int k = 0; k < N_OPS; k++)
        for (int big_one = 0; big_one < 2; big_one++) {
            const lk_shape shape = big_one ? LK_SHAPE(41, 53) : LK_SHAPE(5, 3);
            const lk_op *op = NULL;
            lk_tape *tape;
            lk_tensor *x[MAX_IN], *wide[MAX_IN], *turned[MAX_IN];
            lk_var dense[MAX_IN], loose[MAX_IN], y, z;
            ASSERT_OK(lk_op_find(ops[k].name, &op));
            ASSERT_OK(lk_tape_new(&tape));
            for (int i = 0; i < ops[k].n_in; i++) {
                x[i] = draw_tensor(LK_F32, &ops[k], i, shape);
                turned[i] = scattered(x[i], &wide[i]);
                ASSERT_OK(lk_constant(tape, x[i], &dense[i]));
                ASSERT_OK(lk_constant(tape, turned[i], &loose[i]));
            }
            ASSERT_OK(first_output(tape, op, dense, ops[k].n_in, &ops[k].attr, &y));
            ASSERT_OK(first_output(tape, op, loose, ops[k].n_in, &ops[k].attr, &z));
            const lk_tensor *a = NULL, *b = NULL;
            ASSERT_OK(lk_value(y, &a));
            ASSERT_OK(lk_value(z, &b));
            if (!lk_tensor_is_equal(a, b))
                TEST_FAIL("%s: other bits with strides", ops[k].name);
            lk_tape_free(tape);
            for (int i = 0; i < ops[k].n_in; i++) {
                lk_tensor_free(x[i]);
                lk_tensor_free(wide[i]);
                lk_tensor_free(turned[i]);
            }
        }
}

/* ---- derivatives of derivatives of derivatives ---- */

enum { N = 7 };

/* The second derivatives of op at x, and the third unless NULL, of one input with the others held. */
static void bends(const struct elementwise *e, lk_tensor *const *x, int input, double *second,
                  double *third)
{
    const lk_op *op = NULL;
    lk_tape *tape;
    lk_var v[MAX_IN], y, dy, one;
    ASSERT_OK(lk_op_find(e->name, &op));
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < e->n_in; i++)
        ASSERT_OK(lk_leaf(tape, x[i], NULL, &v[i]));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(N), 1, &one));
    ASSERT_OK(first_output(tape, op, v, e->n_in, &e->attr, &y));
    ASSERT_OK(lk_square(y, &y));
    for (int order = 1; order <= 3; order++) {
        ASSERT_OK(lk_grad(tape, &y, &one, 1, &v[input], 1, LK_RECORD, &dy));
        y = dy;
        for (int i = 0; i < N && order == 2; i++)
            second[i] = lk_needs_grad(y) ? var_at(y, i) : 0;
        if (!lk_needs_grad(y))
            break; /* constant: 0 from here on */
        for (int i = 0; i < N && order == 3 && third; i++)
            third[i] = var_at(y, i);
    }
    lk_tape_free(tape);
}

TEST(third_derivatives_agree_with_differences)
{
    for (int k = 0; k < N_OPS; k++)
        for (int input = 0; input < ops[k].n_in; input++) {
            const double h = 0x1p-14;
            lk_tensor *x[MAX_IN];
            double third[N] = {0}, below[N], above[N];
            void *data = NULL;
            if (strcmp(ops[k].name, "where") == 0 && input == 0)
                continue;
            for (int i = 0; i < ops[k].n_in; i++)
                x[i] = draw_tensor(LK_F64, &ops[k], i, LK_SHAPE(N));
            ASSERT_OK(lk_tensor_writable_data(x[input], &data));
            bends(&ops[k], x, input, below, third);
            for (int i = 0; i < N; i++)
                ((double *)data)[i] -= h;
            bends(&ops[k], x, input, below, NULL);
            for (int i = 0; i < N; i++)
                ((double *)data)[i] += 2 * h;
            bends(&ops[k], x, input, above, NULL);
            for (int i = 0; i < N; i++) {
                double numeric = (above[i] - below[i]) / (2 * h);
                if (!(fabs(numeric - third[i]) <= 1e-5 * fmax(1, fabs(third[i]))))
                    TEST_FAIL("%s, input %d: third derivative %.9g, %.9g by differences",
                              ops[k].name, input, third[i], numeric);
            }
            for (int i = 0; i < ops[k].n_in; i++)
                lk_tensor_free(x[i]);
        }
}

/* ---- memory ---- */

TEST(a_loop_with_every_op_allocates_nothing_after_its_first_step)
{
    lk_tape *tape;
    lk_tensor *x[MAX_IN] = {NULL}, *dx;
    int64_t calls = 0;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < MAX_IN; i++)
        x[i] = draw_tensor(LK_F32, &ops[N_OPS - 1], i, LK_SHAPE(100));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(100), &dx));
    for (int step = 0; step < 3; step++) {
        lk_var v[MAX_IN], sum, y;
        for (int i = 0; i < MAX_IN; i++)
            ASSERT_OK(lk_leaf(tape, x[i], i ? NULL : dx, &v[i]));
        sum = v[0];
        for (int k = 0; k < N_OPS; k++) {
            const lk_op *op = NULL;
            ASSERT_OK(lk_op_find(ops[k].name, &op));
            ASSERT_OK(first_output(tape, op, v, ops[k].n_in, &ops[k].attr, &y));
            ASSERT_OK(lk_add(sum, y, &sum));
        }
        ASSERT_OK(lk_sum_to(sum, LK_SCALAR, &sum));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
        lk_tape_reset(tape);
        if (step == 0)
            calls = lk_alloc_stats_now().calls;
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    lk_tape_free(tape);
    lk_tensor_free(dx);
    for (int i = 0; i < MAX_IN; i++)
        lk_tensor_free(x[i]);
}
