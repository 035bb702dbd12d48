/* Ops on a thread that does not round to nearest: refused, in forward and in backward, as the bits would be
 * others; and right again when it does. */
#include "harness.h"

#include <lockstep/lockstep.h>

#include <fenv.h>

static const float one[4] = {1, 2, 3, 4};

TEST(ops_need_rounding_to_nearest)
{
    lk_tape *tape;
    lk_tensor *seed;
    lk_var x, y;
    float grad[4] = {0};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, LK_F32, LK_SHAPE(4), (float *)(uintptr_t)one, grad, &x));
    ASSERT_OK(lk_mul(x, x, &y));
    ASSERT_EQ(fesetround(FE_UPWARD), 0);
    lk_status forward = lk_mul(x, x, &y);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(forward, LK_EFPENV);
    lk_error_clear();
    ASSERT_OK(lk_tanh(x, &y)); /* whose backward is element by element */
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(4), &seed));
    ASSERT_EQ(fesetround(FE_DOWNWARD), 0);
    lk_status backward = lk_backward(tape, &(lk_seed){y, seed}, 1, LK_RETAIN_GRAPH);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(backward, LK_EFPENV);
    lk_error_clear();
    lk_tensor_free(seed);
    lk_tape_free(tape);
}

/* What one tape has found says nothing about the next call. */
TEST(each_call_looks_again)
{
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(4), one, &x));
    for (int i = 0; i < 4; i++) {
        fesetround(i % 2 ? FE_TOWARDZERO : FE_TONEAREST);
        lk_status st = lk_tanh(x, &y);
        fesetround(FE_TONEAREST);
        ASSERT_EQ(st, i % 2 ? LK_EFPENV : LK_OK);
        lk_error_clear();
    }
    lk_tape_free(tape);
}
