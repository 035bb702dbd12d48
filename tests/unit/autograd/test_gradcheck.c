/* The gradient check finds what it is there for: planted faults, in ops that the program brings. */
#include "harness.h"

#include <lockstep/extra/map.h>
#include <lockstep/lockstep.h>

/* z = x * y, with a backward that a test can spoil. */
static enum fault { RIGHT, WRONG_SIGN, MISSING_TERM, SWAPPED, WRONG_SECOND, NOT_A_NUMBER } fault;

static lk_status product_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    return LK_OK;
}

static lk_status product_forward(lk_call *c)
{
    void *y;
    LK_TRY(lk_tensor_writable_data(c->y[0], &y));
    return LK_TRACE(lk_map2(LK_F64, LK_MAP2_MUL, 0, lk_tensor_count(c->y[0]),
                            lk_tensor_data(c->x[0]), lk_tensor_data(c->x[1]), y));
}

static lk_status product_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var minus_one, other = c->in[fault == SWAPPED ? 0 : 1];
    if (fault == WRONG_SECOND) { /* right, but the dependence on y is cut */
        const lk_tensor *value;
        lk_tensor *copy;
        LK_TRY(lk_value(c->in[1], &value));
        LK_TRY(lk_tensor_clone(value, LK_F64, &copy));
        lk_status st = lk_constant(c->tape, copy, &other);
        lk_tensor_free(copy);
        LK_TRY(st);
    }
    LK_TRY(lk_mul(dout[0], other, &din[0]));
    if (fault == WRONG_SIGN) {
        LK_TRY(lk_full(c->tape, LK_F64, LK_SCALAR, -1, &minus_one));
        LK_TRY(lk_mul(din[0], minus_one, &din[0]));
    }
    if (fault == NOT_A_NUMBER) { /* in one element of many */
        lk_var mask;
        lk_tensor *t;
        LK_TRY(lk_tensor_zeros(LK_F64, LK_SHAPE(2, 3), &t));
        LK_TRY(lk_tensor_set_f64(t, LK_AT(0, 0), (double)NAN));
        lk_status st = lk_constant(c->tape, t, &mask);
        lk_tensor_free(t);
        LK_TRY(st);
        LK_TRY(lk_add(din[0], mask, &din[0]));
    }
    if (fault != MISSING_TERM)
        LK_TRY(lk_mul(dout[0], c->in[0], &din[1]));
    return LK_OK;
}

static const lk_op_sample samples[] = {{.n_in = 2, .in = {LK_IN(2, 3), LK_IN(2, 3)}}, {0}};

static const lk_op product = {.name = "product",
                              .summary = "x * y",
                              .min_in = 2,
                              .max_in = 2,
                              .n_out = 1,
                              .saves_in = 3,
                              .infer = product_infer,
                              .forward = product_forward,
                              .backward = product_backward,
                              .samples = samples};

static lk_gradcheck_result checked(enum fault f)
{
    lk_gradcheck_result r;
    fault = f;
    ASSERT_OK(lk_gradcheck(&product, 1, 1e-6, &r));
    return r;
}

TEST(a_right_backward_passes)
{
    lk_gradcheck_result r = checked(RIGHT);
    ASSERT_TRUE(r.pass && r.first < 1e-9 && r.second < 1e-9);
    ASSERT_EQ(r.samples, 1);
    ASSERT_EQ(r.numbers, 12 + 18);
    ASSERT_TRUE(r.adjoint == -1);
}

TEST(a_wrong_sign_a_missing_term_and_a_swap_are_found)
{
    ASSERT_TRUE(!checked(WRONG_SIGN).pass);
    lk_gradcheck_result r = checked(MISSING_TERM);
    ASSERT_TRUE(!r.pass && r.first > 0.9);
    ASSERT_TRUE(strstr(r.worst, "input 1"));
    ASSERT_TRUE(!checked(SWAPPED).pass);
}

TEST(a_wrong_second_derivative_is_found)
{
    lk_gradcheck_result r = checked(WRONG_SECOND);
    ASSERT_TRUE(!r.pass && r.first < 1e-9 && r.second > 0.1);
}

TEST(a_gradient_that_is_no_number_is_found)
{
    lk_op once = product;
    lk_gradcheck_result r;
    once.flags |= LK_OP_FIRST_ORDER;
    fault = NOT_A_NUMBER;
    ASSERT_OK(lk_gradcheck(&once, 1, 1e-6, &r));
    ASSERT_TRUE(!r.pass && isinf(r.first));
}

TEST(a_false_claim_of_linearity_is_found)
{
    lk_op claims = product;
    lk_gradcheck_result r;
    claims.flags |= LK_OP_LINEAR;
    fault = RIGHT;
    ASSERT_OK(lk_gradcheck(&claims, 1, 1e-6, &r));
    ASSERT_TRUE(!r.pass && r.adjoint > 0.1);
    ASSERT_TRUE(strstr(r.worst, "adjoint"));
}

TEST(an_op_without_samples_cannot_be_checked)
{
    lk_op none = product;
    lk_gradcheck_result r;
    none.samples = NULL;
    ASSERT_FAILS(lk_gradcheck(&none, 1, 1e-6, &r), LK_EINVAL, "op \"product\" has no samples");
    none.backward = NULL;
    ASSERT_FAILS(lk_gradcheck(&none, 1, 1e-6, &r), LK_EINVAL, "no backward");
}
