/* Every allocation of a tape fails in turn: an error, no leak, and the tape can be freed. */
#include "faults.h"
#include "tape_fixture.h"

static lk_tensor *x, *g;

/* Enough nodes for a second page, a recorded pass, and a second one. */
static lk_status record_and_pass(lk_tape *tape)
{
    lk_var v, y, dy;
    LK_TRY(lk_leaf(tape, x, g, &v));
    y = v;
    for (int i = 0; i < 70; i++)
        LK_TRY(i % 2 ? lk_mul(y, v, &y) : lk_add(y, v, &y));
    LK_TRY(lk_sum_to(y, LK_SCALAR, &y));
    LK_TRY(lk_grad(tape, &y, NULL, 1, &v, 1, LK_RECORD, &dy));
    LK_TRY(lk_sum_to(dy, LK_SCALAR, &dy));
    return LK_TRACE(lk_backward(tape, (lk_seed[]){{.of = y}, {.of = dy}}, 2, 0));
}

static lk_status whole_life(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, record_and_pass(tape));
done:
    lk_tape_free(tape);
    return st;
}

static lk_status segment(lk_tape *tape, void *arg, lk_var *out)
{
    lk_var v = *(lk_var *)arg;
    (void)tape;
    LK_TRY(lk_mul(v, v, &v));
    for (int i = 0; i < 70; i++)
        LK_TRY(lk_mul(v, *(lk_var *)arg, &v));
    out[0] = v;
    return LK_OK;
}

static lk_status with_a_segment(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_var v, y;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_leaf(tape, x, g, &v));
    LK_TRY_TO(done, lk_recompute(tape, segment, &v, 1, &y));
    LK_TRY_TO(done, lk_sum_to(y, LK_SCALAR, &y));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
done:
    lk_tape_free(tape);
    return st;
}

TEST(every_allocation_may_fail)
{
    x = test_filled(LK_SHAPE(1000), 0.5, 0);
    g = test_filled(LK_SHAPE(1000), 0, 0);
    ASSERT_TRUE(test_every_allocation_fails(whole_life) > 5);
    ASSERT_TRUE(test_every_allocation_fails(with_a_segment) > 5);
    lk_tensor_free(x);
    lk_tensor_free(g);
}

TEST(a_failed_pass_leaves_a_tape_that_works)
{
    x = test_filled(LK_SHAPE(1000), 1, 0);
    g = test_filled(LK_SHAPE(1000), 0, 0);
    for (int n = 1; n < 12; n++) {
        lk_tape *tape;
        ASSERT_OK(lk_tape_new(&tape));
        lk_alloc_fail_at(n);
        lk_status st = record_and_pass(tape);
        lk_alloc_fail_at(0);
        ASSERT_TRUE(st == LK_ENOMEM || st == LK_OK);
        lk_error_clear();
        lk_tape_reset(tape);
        ASSERT_OK(lk_tensor_fill_f64(g, 0));
        ASSERT_OK(record_and_pass(tape));
        double whole = test_at(g, 7);
        lk_tape_reset(tape);
        ASSERT_OK(lk_tensor_fill_f64(g, 0));
        ASSERT_OK(record_and_pass(tape));
        ASSERT_TRUE(test_at(g, 7) == whole && whole > 1);
        lk_tape_free(tape);
    }
    lk_tensor_free(x);
    lk_tensor_free(g);
}
