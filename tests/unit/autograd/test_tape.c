/* The tape: values, backward, memory, and what it refuses. */
#include "odd_op.h"
#include "tape_fixture.h"

#include <lockstep/extra/alloc.h>

TEST(backward_adds_the_product_rule_to_the_leaves)
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

/* Gradients in the order in which they were told of, with what they held then. */
struct told {
    int n;
    const lk_tensor *grad[4];
    double first[4];
};

static lk_status note_leaf(void *arg, const lk_tensor *grad)
{
    struct told *t = arg;
    t->first[t->n] = test_at(grad, 0);
    t->grad[t->n++] = grad;
    return LK_OK;
}

static lk_status refuse_leaf(void *arg, const lk_tensor *grad)
{
    (void)arg;
    (void)grad;
    return LK_RAISE(LK_EIO, "not now");
}

/* ((a * b) * c): c is complete first, and each is told once, with all of its gradient. */
TEST(leaves_are_told_of_when_they_are_complete)
{
    struct fixture f = fixture_new();
    struct told told = {.n = 0};
    lk_var v[3], y;
    for (int i = 0; i < 3; i++)
        v[i] = fixture_leaf(&f, LK_SHAPE(1), 2 + i, 1);
    lk_tape_set_grad_hook(f.tape, note_leaf, &told);
    ASSERT_OK(lk_mul(v[0], v[1], &y));
    ASSERT_OK(lk_mul(y, v[2], &y));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, NULL}, 1, LK_RETAIN_GRAPH));
    ASSERT_EQ(told.n, 3);
    ASSERT_TRUE(told.grad[0] == f.grad[2] && told.first[0] == 6);
    ASSERT_TRUE(told.first[1] + told.first[2] == 12 + 8);
    lk_tape_set_grad_hook(f.tape, refuse_leaf, NULL);
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){y, NULL}, 1, LK_RETAIN_GRAPH), LK_EIO, "not now");
    lk_tape_set_grad_hook(f.tape, NULL, NULL);
    fixture_free(&f);
}

TEST(several_losses_are_several_seeds)
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

TEST(a_retained_tape_can_be_passed_again)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y;
    ASSERT_OK(lk_mul(v, v, &y));
    fixture_backward(&f, y, LK_RETAIN_GRAPH);
    fixture_backward(&f, y, LK_RETAIN_GRAPH);
    ASSERT_EQ(test_at(f.grad[0], 1), 8);
    fixture_free(&f);
}

TEST(a_gradient_can_be_differentiated_again)
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

TEST(grad_gives_zeros_where_nothing_depends)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), w = fixture_leaf(&f, LK_SHAPE(3), 2, 1), y,
           g[3];
    lk_var wrt[3] = {v, w, v};
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, wrt, 3, LK_RETAIN_GRAPH, g));
    ASSERT_EQ(test_value_at(g[0], 1), 6);
    ASSERT_EQ(test_value_at(g[2], 1), 6);
    const lk_tensor *zeros;
    ASSERT_OK(lk_value(g[1], &zeros));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(zeros), LK_SHAPE(3)));
    double item = 1;
    ASSERT_OK(lk_tensor_get_f64(zeros, LK_AT(2), &item));
    ASSERT_TRUE(item == 0);
    ASSERT_EQ(test_at(f.grad[0], 0), 0); /* lk_grad() leaves the leaves alone */
    fixture_free(&f);
}

TEST(grad_may_write_over_its_arguments)
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

TEST(only_what_lies_between_is_differentiated)
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

TEST(without_recording_ops_only_compute)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 2, 1), y;
    ASSERT_TRUE(lk_tape_is_recording(f.tape) && lk_tape_set_recording(f.tape, false));
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_TRUE(!lk_tape_is_recording(f.tape) && !lk_tape_set_recording(f.tape, true));
    ASSERT_TRUE(!lk_needs_grad(y) && lk_needs_grad(v));
    ASSERT_EQ(lk_tape_stats_of(f.tape).nodes, 0);
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

TEST(a_fixed_loop_allocates_nothing_after_its_first_step)
{
    struct fixture f = fixture_new();
    lk_tensor *x = test_filled(LK_SHAPE(1000), 0, 0), *g = test_filled(LK_SHAPE(1000), 0, 0);
    step(&f, x, g);
    int64_t calls = lk_alloc_stats_now().calls;
    for (int i = 0; i < 5; i++)
        step(&f, x, g);
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    lk_tensor_free(x);
    lk_tensor_free(g);
    fixture_free(&f);
}

TEST(backward_releases_what_it_has_passed)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(1000), 1, 0), y[10], s;
    y[0] = v;
    for (int i = 1; i < 10; i++)
        ASSERT_OK(lk_mul(y[i - 1], y[i - 1], &y[i]));
    ASSERT_OK(lk_sum_to(y[9], LK_SCALAR, &s));
    ASSERT_OK(lk_retain_value(y[4]));
    int64_t before = lk_tape_stats_of(f.tape).live_bytes;
    ASSERT_TRUE(before >= 9 * 8000);
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    lk_tape_stats after = lk_tape_stats_of(f.tape);
    ASSERT_TRUE(after.live_bytes < 2 * 8000);          /* y[4] and s */
    ASSERT_TRUE(after.peak_bytes < before + 4 * 9000); /* gradients take the places of values */
    ASSERT_EQ(test_value_at(y[4], 3), 1);
    ASSERT_EQ(test_value_at(s, 0), 1000);
    const lk_tensor *t;
    ASSERT_FAILS(lk_value(y[5], &t), LK_ESTATE, "released when backward passed");
    fixture_free(&f);
}

TEST(a_view_of_a_value_outlives_the_tape)
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

TEST(a_variable_is_gone_after_the_reset)
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

TEST(backward_twice_needs_retain)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y, z, s;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &s));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE, "LK_RETAIN_GRAPH");
    ASSERT_FAILS(lk_add(y, v, &z), LK_ESTATE, "released");
    ASSERT_EQ(test_at(f.grad[0], 1), 4); /* the refused pass added nothing */
    fixture_free(&f);
}

TEST(a_shared_part_is_passed_once)
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

TEST(an_in_place_change_of_a_saved_value_is_found)
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

TEST(a_change_of_another_slice_of_the_slab_does_no_harm)
{
    struct fixture f = fixture_new();
    lk_slab_layout *layout;
    lk_slab *slab;
    lk_tensor *a, *b;
    lk_var v, s;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "a", LK_F64, LK_SHAPE(2)));
    ASSERT_OK(lk_slab_layout_add(layout, "b", LK_F64, LK_SHAPE(2)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_OK(lk_slab_find(slab, "a", &a));
    ASSERT_OK(lk_slab_find(slab, "b", &b));
    ASSERT_OK(lk_leaf(f.tape, a, NULL, &v));
    ASSERT_OK(lk_mul(v, v, &s));
    ASSERT_OK(lk_sum_to(s, LK_SCALAR, &s));
    ASSERT_OK(lk_tensor_fill_f64(b, 3));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, LK_RETAIN_GRAPH));
    lk_slab_zero(slab);
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE, "changed in place");
    lk_tensor_free(a);
    lk_tensor_free(b);
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
    fixture_free(&f);
}

TEST(seeds_must_fit)
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

TEST(a_value_of_the_tape_cannot_be_written)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(4), 1, 1), y;
    const lk_tensor *t;
    lk_tensor *view;
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_value(y, &t));
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 2, 1, &view));
    ASSERT_FAILS(lk_tensor_fill_f64(view, 100), LK_EINVAL, "read-only");
    lk_tensor_free(view);
    fixture_free(&f);
}

TEST(a_seed_may_be_the_gradient_of_a_leaf)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1), 1, 0), z = fixture_leaf(&f, LK_SHAPE(1), 1, 0), y;
    ASSERT_OK(lk_tensor_fill_f64(f.grad[0], 1));
    ASSERT_OK(lk_tensor_fill_f64(f.grad[1], 1));
    ASSERT_OK(lk_sub(x, z, &y));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, f.grad[0]}, 1, 0));
    ASSERT_EQ(test_at(f.grad[0], 0), 2);
    ASSERT_EQ(test_at(f.grad[1], 0), 0);
    fixture_free(&f);
}

/* A seed that is copied is given back when the value that it is for is passed. */
TEST(a_seed_lives_no_longer_than_it_is_needed)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1000), 1, 0), y;
    lk_tensor *seed = test_filled(LK_SHAPE(1000), 2, 0);
    ASSERT_OK(lk_square(x, &y));
    int64_t live = lk_tape_stats_of(f.tape).live_bytes, values = lk_tape_stats_of(f.tape).values;
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, seed}, 1, 0));
    ASSERT_EQ(test_at(f.grad[0], 7), 4);
    ASSERT_EQ(lk_tape_stats_of(f.tape).live_bytes, live); /* y, which stays */
    ASSERT_EQ(lk_tape_stats_of(f.tape).values, values);
    lk_tensor_free(seed);
    fixture_free(&f);
}

TEST(a_gradient_that_is_not_set_is_set_by_backward)
{
    struct fixture f = fixture_new();
    lk_tensor *both = test_filled(LK_SHAPE(2, 3), 1, 1), *value, *grad, *wide, *column;
    lk_tensor *other = test_filled(LK_SHAPE(3), 7, 0);
    lk_var v, w, unused, s;
    ASSERT_OK(lk_tensor_slice(both, 0, 0, 1, 1, &value));
    ASSERT_OK(lk_tensor_slice(both, 0, 1, 2, 1, &grad));
    wide = test_filled(LK_SHAPE(3, 2), 1, 1);
    ASSERT_OK(lk_tensor_slice(wide, 1, 1, 2, 1, &column));
    lk_tensor *three = test_filled(LK_SHAPE(3, 1), 3, 0);
    ASSERT_OK(lk_leaf_overwrite(f.tape, value, grad, &v));
    ASSERT_OK(lk_leaf_overwrite(f.tape, three, column, &w));
    ASSERT_OK(
        lk_leaf_overwrite(f.tape, f.value[0] = test_filled(LK_SHAPE(3), 0, 0), other, &unused));
    ASSERT_OK(lk_matmul(v, w, &s));
    fixture_backward(&f, s, LK_RETAIN_GRAPH);
    ASSERT_EQ(test_at(both, 3), 3);
    ASSERT_EQ(test_at(wide, 1), 1);
    ASSERT_EQ(test_at(wide, 5), 3);
    ASSERT_EQ(test_at(wide, 4), 5); /* beside the gradient */
    ASSERT_EQ(test_at(other, 2), 0);
    fixture_backward(&f, s, LK_RETAIN_GRAPH);
    ASSERT_EQ(test_at(both, 3), 6);
    ASSERT_EQ(test_at(wide, 5), 6);
    ASSERT_FAILS(lk_leaf_overwrite(f.tape, value, value, &v), LK_EOVERLAP, "share elements");
    lk_tensor *const all[] = {value, grad, both, wide, column, three, other, f.value[0]};
    for (int i = 0; i < LK_COUNT(all); i++)
        lk_tensor_free(all[i]);
    fixture_free(&f);
}

TEST(a_gradient_and_its_value_may_be_parts_of_one_tensor)
{
    struct fixture f = fixture_new();
    lk_tensor *both = test_filled(LK_SHAPE(2, 3), 1, 1), *value, *grad;
    lk_var v, s;
    ASSERT_OK(lk_tensor_slice(both, 0, 0, 1, 1, &value));
    ASSERT_OK(lk_tensor_slice(both, 0, 1, 2, 1, &grad));
    ASSERT_OK(lk_leaf(f.tape, value, grad, &v));
    ASSERT_OK(lk_mul(v, v, &s));
    fixture_backward(&f, s, LK_RETAIN_GRAPH);
    fixture_backward(&f, s, LK_RETAIN_GRAPH);
    ASSERT_EQ(test_at(both, 5), 6 + 2 * 2 * 3);
    ASSERT_FAILS(lk_leaf(f.tape, value, value, &v), LK_EOVERLAP, "share elements");
    lk_tensor_free(value);
    lk_tensor_free(grad);
    lk_tensor_free(both);
    fixture_free(&f);
}

TEST(a_recorded_value_may_be_a_gradient)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1), 3, 0), y, in[2] = {x}, h, q, g;
    ASSERT_OK(lk_square(x, &in[1])); /* 9 */
    ASSERT_OK(lk_apply(f.tape, &odd_op, in, 2, NULL, &y));
    for (int i = 0; i < 5; i++) /* takes places that are free too early */
        ASSERT_OK(lk_mul(y, y, &q));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_EQ(test_at(f.grad[0], 0), 9);
    lk_tape_reset(f.tape);
    x = fixture_leaf(&f, LK_SHAPE(1), 3, 0);
    ASSERT_OK(lk_square(x, &h));
    ASSERT_OK(lk_add(h, x, &y));
    ASSERT_OK(lk_grad(f.tape, &y, &h, 1, &x, 1, 0, &g)); /* h (2 x + 1) */
    ASSERT_EQ(test_value_at(g, 0), 63);
    fixture_free(&f);
}

TEST(grad_stops_at_what_is_wanted)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1), 3, 0), h, y, g;
    ASSERT_OK(lk_square(x, &h));
    ASSERT_OK(lk_square(h, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &h, 1, 0, &g)); /* does not pass the first square */
    ASSERT_EQ(test_value_at(g, 0), 18);
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = h}, 1, 0));
    ASSERT_EQ(test_at(f.grad[0], 0), 6);
    fixture_free(&f);
}

TEST(outputs_may_be_written_over_inputs)
{
    struct fixture f = fixture_new();
    const lk_op *square;
    lk_var v = fixture_leaf(&f, LK_SHAPE(1), 3, 0);
    ASSERT_OK(lk_op_find("square", &square));
    ASSERT_OK(lk_apply(f.tape, square, &v, 1, NULL, &v));
    ASSERT_EQ(test_value_at(v, 0), 9);
    fixture_free(&f);
}

TEST(a_pass_costs_what_it_passes)
{
    struct fixture f = fixture_new();
    lk_tensor *x = test_filled(LK_SHAPE(1), 1, 0), *g = test_filled(LK_SHAPE(1), 0, 0);
    enum {
        STEPS = TEST_SLOWNESS > 1 ? 3000 : 30000
    }; /* without a reset; a pass over all of it each time would take minutes */
    for (int i = 0; i < STEPS; i++) {
        lk_var v, s;
        ASSERT_OK(lk_leaf(f.tape, x, g, &v));
        ASSERT_OK(lk_square(v, &s));
        ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0));
    }
    ASSERT_EQ(test_at(g, 0), 2 * STEPS);
    lk_tensor_free(x);
    lk_tensor_free(g);
    fixture_free(&f);
}

TEST(the_piece_is_that_of_forward)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(6, 2), 1, 1), gamma = fixture_leaf(&f, LK_SHAPE(2), 1, 0),
           beta = fixture_leaf(&f, LK_SHAPE(2), 0, 0), y, z;
    ASSERT_OK(lk_batch_norm(x, gamma, beta, NULL, &y, NULL, NULL));
    ASSERT_OK(lk_mul(y, x, &z));
    ASSERT_OK(lk_tape_set_shard_size(f.tape, 1));
    fixture_backward(&f, z, LK_RETAIN_GRAPH);
    double with = test_at(f.grad[0], 5);
    ASSERT_OK(lk_tensor_fill_f64(f.grad[0], 0));
    ASSERT_OK(lk_tape_set_shard_size(f.tape, 0));
    fixture_backward(&f, z, LK_RETAIN_GRAPH);
    ASSERT_TRUE(with == test_at(f.grad[0], 5));
    fixture_free(&f);
}

TEST(misuse_does_not_crash)
{
    struct fixture f = fixture_new(), other = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(1), 3, 0), w = fixture_leaf(&other, LK_SHAPE(1), 3, 0), y,
           g;
    double item;
    ASSERT_FAILS(lk_leaf(f.tape, f.value[0], NULL, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_value(v, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_item(v, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_item(LK_NO_VAR, &item), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(lk_tape_new(NULL), LK_EINVAL, "out is NULL");
    lk_tape_reset(NULL);
    ASSERT_TRUE(!lk_tape_set_recording(NULL, true));
    ASSERT_EQ(lk_tape_stats_of(NULL).nodes, 0);
    ASSERT_OK(lk_square(v, &y));
    ASSERT_FAILS(lk_grad(f.tape, &y, &w, 1, &v, 1, 0, &g), LK_EINVAL, "another tape");
    fixture_free(&f);
    fixture_free(&other);
}
