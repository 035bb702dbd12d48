/* Ops of the program's own: registered, found by name, applied, and refused when incomplete. */
#include "tape_fixture.h"

/* y = 2 x, and its sum: two outputs. */
static lk_status twice_infer(lk_call *c, lk_output_spec *out)
{
    LK_CHECK(lk_tensor_dtype(c->x[0]) == LK_F64, LK_EDTYPE, "twice of %s",
             lk_tensor_text(c->x[0]).s);
    out[0] = (lk_output_spec){.dtype = LK_F64, .shape = lk_tensor_shape(c->x[0])};
    out[1] = (lk_output_spec){.dtype = LK_F64, .shape = LK_SCALAR};
    return LK_OK;
}

static lk_status twice_forward(lk_call *c)
{
    const double factor = *(const double *)c->attr, *x = lk_tensor_data(c->x[0]);
    void *y, *sum, *scratch;
    LK_TRY(lk_tensor_writable_data(c->y[0], &y));
    LK_TRY(lk_tensor_writable_data(c->y[1], &sum));
    LK_TRY(lk_call_scratch(c, 1000, &scratch));
    memset(scratch, 1, 1000);
    *(double *)sum = 0;
    for (int64_t i = 0; i < lk_tensor_count(c->x[0]); i++) {
        ((double *)y)[i] = factor * x[i];
        *(double *)sum += factor * x[i];
    }
    return LK_OK;
}

static lk_status twice_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var factor, g = dout[0], s = dout[1];
    LK_TRY(lk_full(c->tape, LK_F64, LK_SCALAR, *(const double *)c->attr, &factor));
    if (lk_is_var(s))
        LK_TRY(lk_broadcast(s, lk_shape_of(c->in[0]), &s));
    if (lk_is_var(g) && lk_is_var(s))
        LK_TRY(lk_add(g, s, &g));
    return LK_TRACE(lk_mul(lk_is_var(g) ? g : s, factor, &din[0]));
}

static const double two = 2;

static const lk_op twice = {
    .name = "twice",
    .summary = "2 x, and its sum",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(double),
    .infer = twice_infer,
    .forward = twice_forward,
    .backward = twice_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &two}, {0}},
};

static lk_output_spec told; /* what lies_infer() says */

static lk_status lies_infer(lk_call *c, lk_output_spec *out)
{
    (void)c;
    out[0] = told;
    return LK_OK;
}

TEST(what_infer_says_is_checked)
{
    struct fixture f = fixture_new();
    lk_op op = {.name = "lies", .min_in = 0, .max_in = 1, .n_out = 1, .infer = lies_infer};
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), y;
    told = (lk_output_spec){.dtype = LK_F64, .shape = LK_SHAPE(6), .is_view = true, .stride = {1}};
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "must have LK_OP_STRIDED");
    op.flags = LK_OP_STRIDED;
    ASSERT_OK(lk_apply(f.tape, &op, &x, 1, NULL, &y));
    told.offset = 1;
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "a view beyond input 0");
    told.offset = 0;
    told.view_of = 7;
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "a view of input 7");
    told = (lk_output_spec){.dtype = LK_F64, .shape = LK_SHAPE(6)};
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "no forward");
    ASSERT_FAILS(lk_apply(f.tape, &op, NULL, 1, NULL, &y), LK_EINVAL, "in is NULL");
    op.n_out = 5;
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "5 outputs");
    op.n_out = 1;
    op.infer = NULL;
    ASSERT_FAILS(lk_apply(f.tape, &op, &x, 1, NULL, &y), LK_EINVAL, "no infer");
    fixture_free(&f);
}

TEST(an_op_of_the_program_is_found_applied_and_checked)
{
    struct fixture f = fixture_new();
    const lk_op *op;
    lk_var x = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y[2];
    lk_gradcheck_result r;
    ASSERT_OK(lk_op_register(&twice));
    ASSERT_OK(lk_op_find("twice", &op));
    ASSERT_TRUE(op == &twice);
    ASSERT_OK(lk_apply(f.tape, op, &x, 1, &two, y));
    ASSERT_EQ(test_value_at(y[0], 2), 6);
    ASSERT_EQ(test_value_at(y[1], 0), 12);
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = y[1]}, 1, 0));
    ASSERT_EQ(test_at(f.grad[0], 0), 2);
    ASSERT_OK(lk_gradcheck(op, 1, 1e-6, &r));
    ASSERT_TRUE(r.pass && r.adjoint >= 0);
    fixture_free(&f);
}

TEST(strided_inputs_are_made_contiguous)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 1), 1, 1), y[2];
    ASSERT_OK(lk_broadcast(x, LK_SHAPE(2, 3), &x));
    ASSERT_OK(lk_apply(f.tape, &twice, &x, 1, &two, y));
    ASSERT_EQ(test_value_at(y[0], 2), 2);
    ASSERT_EQ(test_value_at(y[0], 3), 4);
    ASSERT_EQ(test_value_at(y[1], 0), 18);
    fixture_free(&f);
}

TEST(names_are_unique_and_descriptors_complete)
{
    lk_op op = twice;
    const lk_op *found;
    ASSERT_FAILS(lk_op_register(&twice), LK_EINVAL, "\"twice\" is registered already");
    op.name = "add";
    ASSERT_FAILS(lk_op_register(&op), LK_EINVAL, "\"add\" is built in");
    op.name = "";
    ASSERT_FAILS(lk_op_register(&op), LK_EINVAL, "without a name");
    op.name = "half";
    op.n_out = 5;
    ASSERT_FAILS(lk_op_register(&op), LK_EINVAL, "has 5 outputs");
    ASSERT_FAILS(lk_op_find("half", &found), LK_EINVAL, "no op \"half\"");
}

TEST(an_application_is_checked)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y[2], in[2] = {x, x};
    ASSERT_FAILS(lk_apply(f.tape, &twice, in, 2, &two, y), LK_EINVAL, "2 inputs, takes 1 to 1");
    ASSERT_FAILS(lk_apply(f.tape, &twice, in, 1, NULL, y), LK_EINVAL, "needs attributes");
    ASSERT_TRUE(!lk_is_var(y[0]) && !lk_is_var(y[1]));
    fixture_free(&f);
}
