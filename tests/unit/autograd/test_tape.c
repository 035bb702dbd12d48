/* The tape: values, backward, memory, and what it refuses. */
#include "tape_fixture.h"

static void backward_adds_the_product_rule_to_the_leaves(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y;
    ASSERT_OK(lk_tensor_fill_f64(f.grad[0], 100));
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_mul(y, v, &y));
    fixture_backward(&f, y, 0);
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(test_at(f.grad[0], i), 100 + 3 * (i + 1) * (i + 1));
    fixture_free(&f);
}

static void several_losses_are_several_seeds(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y, z;
    lk_tensor *seed = test_filled(LK_SHAPE(2), 10, 1);
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_add(v, v, &z));
    lk_seed seeds[] = {{y, seed}, {z, seed}};
    ASSERT_OK(lk_backward(f.tape, seeds, 2, 0));
    ASSERT_EQ(test_at(f.grad[0], 0), 10 * 2 + 10 * 2);
    ASSERT_EQ(test_at(f.grad[0], 1), 11 * 4 + 11 * 2);
    lk_tensor_free(seed);
    fixture_free(&f);
}

static void a_retained_tape_can_be_passed_again(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y;
    ASSERT_OK(lk_mul(v, v, &y));
    fixture_backward(&f, y, LK_RETAIN);
    fixture_backward(&f, y, LK_RETAIN);
    ASSERT_EQ(test_at(f.grad[0], 1), 8);
    fixture_free(&f);
}

static void a_gradient_can_be_differentiated_again(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), y, dy, ddy, one;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_mul(y, v, &y)); /* x^3 */
    ASSERT_OK(lk_full(f.tape, LK_F64, LK_SHAPE(2), 1, &one));
    ASSERT_OK(lk_grad(f.tape, &y, &one, 1, &v, 1, LK_RECORD, &dy));
    ASSERT_OK(lk_grad(f.tape, &dy, &one, 1, &v, 1, LK_RECORD, &ddy));
    ASSERT_EQ(test_value_at(dy, 1), 27);
    ASSERT_EQ(test_value_at(ddy, 0), 12);
    ASSERT_EQ(test_value_at(ddy, 1), 18);
    fixture_backward(&f, ddy, 0); /* 6 */
    ASSERT_EQ(test_at(f.grad[0], 0), 6);
    fixture_free(&f);
}

static void grad_gives_zeros_where_nothing_depends(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), w = fixture_leaf(&f, LK_SHAPE(3), 2, 1), y,
           g[3];
    lk_var wrt[3] = {v, w, v};
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, wrt, 3, LK_RETAIN, g));
    ASSERT_EQ(test_value_at(g[0], 1), 6);
    ASSERT_EQ(test_value_at(g[2], 1), 6);
    const lk_tensor *zeros;
    ASSERT_OK(lk_value(g[1], &zeros));
    ASSERT_TRUE(lk_shape_equal(lk_tensor_shape(zeros), LK_SHAPE(3)));
    double item = 1;
    ASSERT_OK(lk_tensor_get_f64(zeros, LK_AT(2), &item));
    ASSERT_TRUE(item == 0);
    ASSERT_EQ(test_at(f.grad[0], 0), 0); /* lk_grad() leaves the leaves alone */
    fixture_free(&f);
}

static void grad_may_write_over_its_arguments(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(1), 3, 0), y;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &v, 1, LK_RECORD, &y));
    ASSERT_EQ(test_value_at(y, 0), 6);
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &v, 1, 0, &v));
    ASSERT_EQ(test_value_at(v, 0), 2);
    fixture_free(&f);
}

static void only_what_lies_between_is_differentiated(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), w = fixture_leaf(&f, LK_SHAPE(2), 2, 1), y, z,
           g;
    ASSERT_OK(lk_mul(w, w, &y));
    fixture_backward(&f, y, 0); /* consumes this part */
    ASSERT_OK(lk_add(v, w, &z));
    ASSERT_OK(lk_sum_to(z, LK_SCALAR, &z));
    ASSERT_OK(lk_grad(f.tape, &z, NULL, 1, &v, 1, 0, &g));
    double one = 0;
    const lk_tensor *value;
    ASSERT_OK(lk_value(g, &value));
    ASSERT_OK(lk_tensor_get_f64(value, LK_AT(1), &one));
    ASSERT_TRUE(one == 1);
    fixture_free(&f);
}

static void without_recording_ops_only_compute(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), y;
    ASSERT_TRUE(lk_tape_records(f.tape) && lk_tape_record(f.tape, false));
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_TRUE(!lk_tape_records(f.tape) && !lk_tape_record(f.tape, true));
    ASSERT_TRUE(!lk_needs_grad(y) && lk_needs_grad(v));
    ASSERT_EQ(lk_tape_stats_get(f.tape).nodes, 0);
    ASSERT_EQ(test_value_at(y, 1), 9);
    fixture_free(&f);
}

/* ---- memory ---- */

static void step(struct fixture *f, lk_tensor *x, lk_tensor *g)
{
    lk_var v, y;
    ASSERT_OK(lk_leaf(f->tape, x, g, &v));
    y = v;
    for (int i = 0; i < 200; i++)
        ASSERT_OK(i % 2 ? lk_mul(y, v, &y) : lk_add(y, v, &y));
    fixture_backward(f, y, 0);
    lk_tape_reset(f->tape);
}

static void a_fixed_loop_allocates_nothing_after_its_first_step(void)
{
    struct fixture f = fixture_new();
    lk_tensor *x = test_filled(LK_SHAPE(1000), 0, 0), *g = test_filled(LK_SHAPE(1000), 0, 0);
    step(&f, x, g);
    int64_t calls = lk_alloc_stats_get().calls;
    for (int i = 0; i < 5; i++)
        step(&f, x, g);
    ASSERT_EQ(lk_alloc_stats_get().calls, calls);
    lk_tensor_free(x);
    lk_tensor_free(g);
    fixture_free(&f);
}

static void backward_releases_what_it_has_passed(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(1000), 1, 0), y[10], s;
    y[0] = v;
    for (int i = 1; i < 10; i++)
        ASSERT_OK(lk_mul(y[i - 1], y[i - 1], &y[i]));
    ASSERT_OK(lk_sum_to(y[9], LK_SCALAR, &s));
    ASSERT_OK(lk_keep(y[4]));
    int64_t before = lk_tape_stats_get(f.tape).live_bytes;
    ASSERT_TRUE(before >= 9 * 8000);
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    lk_tape_stats after = lk_tape_stats_get(f.tape);
    ASSERT_TRUE(after.live_bytes < 2 * 8000);          /* y[4] and s */
    ASSERT_TRUE(after.peak_bytes < before + 4 * 9000); /* gradients take the places of values */
    ASSERT_EQ(test_value_at(y[4], 3), 1);
    ASSERT_EQ(test_value_at(s, 0), 1000);
    const lk_tensor *t;
    ASSERT_FAILS(lk_value(y[5], &t), LK_ESTATE, "released when backward passed");
    fixture_free(&f);
}

static void a_view_of_a_value_outlives_the_tape(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(4), 1, 1), y;
    const lk_tensor *t;
    lk_tensor *view;
    ASSERT_OK(lk_add(v, v, &y));
    ASSERT_OK(lk_value(y, &t));
    ASSERT_OK(lk_tensor_slice(t, 0, 2, 4, 1, &view));
    lk_tape_reset(f.tape);
    v = fixture_leaf(&f, LK_SHAPE(4), 7, 0);
    ASSERT_OK(lk_add(v, v, &y));
    fixture_free(&f);
    ASSERT_EQ(test_at(view, 1), 8);
    lk_tensor_free(view);
}

/* ---- misuse ---- */

static void a_variable_is_gone_after_the_reset(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y;
    lk_tape_reset(f.tape);
    ASSERT_FAILS(lk_add(v, v, &y), LK_ESTATE, "after lk_tape_reset()");
    ASSERT_TRUE(!lk_is_var(y) && !lk_needs_grad(v));
    lk_var w = fixture_leaf(&f, LK_SHAPE(2), 1, 1); /* takes the same place */
    ASSERT_FAILS(lk_add(w, v, &y), LK_ESTATE, "after lk_tape_reset()");
    fixture_free(&f);
}

static void backward_twice_needs_retain(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y, z, s;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &s));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE, "LK_RETAIN");
    ASSERT_FAILS(lk_add(y, v, &z), LK_ESTATE, "released");
    ASSERT_EQ(test_at(f.grad[0], 1), 4); /* the refused pass added nothing */
    fixture_free(&f);
}

static void a_shared_part_is_passed_once(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y, a, b;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &a));
    ASSERT_OK(lk_add(a, a, &b));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = a}, 1, 0));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = b}, 1, 0), LK_ESTATE,
                 "already passed sum_to #1");
    fixture_free(&f);
}

static void an_in_place_change_of_a_saved_value_is_found(void)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), s;
    ASSERT_OK(lk_mul(v, v, &s));
    ASSERT_OK(lk_sum_to(s, LK_SCALAR, &s));
    ASSERT_OK(lk_tensor_fill_f64(f.value[0], 3));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE,
                 "input 0 of mul #0, a tensor f64[2], was changed in place");
    lk_tape_reset(f.tape);
    v = fixture_leaf(&f, LK_SHAPE(2), 1, 1);
    ASSERT_OK(lk_add(v, v, &s)); /* saves nothing: a change does no harm */
    ASSERT_OK(lk_sum_to(s, LK_SCALAR, &s));
    ASSERT_OK(lk_tensor_fill_f64(f.value[1], 3));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    fixture_free(&f);
}

static void a_change_of_another_slice_of_the_slab_does_no_harm(void)
{
    struct fixture f = fixture_new();
    lk_layout *layout;
    lk_slab *slab;
    lk_tensor *a, *b;
    lk_var v, s;
    ASSERT_OK(lk_layout_new(&layout));
    ASSERT_OK(lk_layout_add(layout, "a", LK_F64, LK_SHAPE(2)));
    ASSERT_OK(lk_layout_add(layout, "b", LK_F64, LK_SHAPE(2)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_OK(lk_slab_find(slab, "a", &a));
    ASSERT_OK(lk_slab_find(slab, "b", &b));
    ASSERT_OK(lk_leaf(f.tape, a, NULL, &v));
    ASSERT_OK(lk_mul(v, v, &s));
    ASSERT_OK(lk_sum_to(s, LK_SCALAR, &s));
    ASSERT_OK(lk_tensor_fill_f64(b, 3));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, LK_RETAIN));
    lk_slab_zero(slab);
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE, "changed in place");
    lk_tensor_free(a);
    lk_tensor_free(b);
    lk_slab_free(slab);
    lk_layout_free(layout);
    fixture_free(&f);
}

static void seeds_must_fit(void)
{
    struct fixture f = fixture_new(), other = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), w = fixture_leaf(&other, LK_SHAPE(1), 1, 1),
           y, c;
    lk_tensor *wrong = test_filled(LK_SHAPE(3, 2), 1, 0);
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 0), LK_ESHAPE,
                 "a value f64[2,3], which is not a scalar");
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){y, wrong}, 1, 0), LK_ESHAPE,
                 "a seed f64[3,2] for a value f64[2,3]");
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = w}, 1, 0), LK_EINVAL, "another tape");
    ASSERT_OK(lk_full(f.tape, LK_F64, LK_SCALAR, 1, &c));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = c}, 1, 0), LK_EINVAL, "depends on no leaf");
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 8), LK_EINVAL, "flags");
    ASSERT_FAILS(lk_add(v, w, &y), LK_EINVAL, "input 1 of add is a value of another tape");
    ASSERT_FAILS(lk_add(LK_NO_VAR, w, &y), LK_EINVAL, "LK_NO_VAR");
    lk_tensor_free(wrong);
    fixture_free(&f);
    fixture_free(&other);
}

TEST_MAIN(TEST(backward_adds_the_product_rule_to_the_leaves),
          TEST(several_losses_are_several_seeds), TEST(a_retained_tape_can_be_passed_again),
          TEST(a_gradient_can_be_differentiated_again),
          TEST(grad_gives_zeros_where_nothing_depends), TEST(grad_may_write_over_its_arguments),
          TEST(only_what_lies_between_is_differentiated), TEST(without_recording_ops_only_compute),
          TEST(a_fixed_loop_allocates_nothing_after_its_first_step),
          TEST(backward_releases_what_it_has_passed), TEST(a_view_of_a_value_outlives_the_tape),
          TEST(a_variable_is_gone_after_the_reset), TEST(backward_twice_needs_retain),
          TEST(a_shared_part_is_passed_once), TEST(an_in_place_change_of_a_saved_value_is_found),
          TEST(a_change_of_another_slice_of_the_slab_does_no_harm), TEST(seeds_must_fit))
