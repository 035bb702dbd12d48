/* Shapes, indices and reductions when memory runs out: every allocation fails in turn. */
#include "faults.h"

#include <lockstep/lockstep.h>

/* Values large enough that the tape's memory grows on the way. */
static lk_status pass(lk_tape *tape, lk_tensor *value, lk_tensor *grad, lk_tensor *index)
{
    lk_var x, i, y, part[40];
    LK_TRY(lk_leaf(tape, value, grad, &x));
    LK_TRY(lk_constant(tape, index, &i));
    LK_TRY(lk_transpose(x, 0, 1, &y));
    LK_TRY(lk_reshape(y, LK_SHAPE(60, 50), &y));
    LK_TRY(lk_gather_index(y, 0, i, &y));
    LK_TRY(lk_pad(y, &(lk_pad_attr){{1, 0}, {0, 1}, 2}, &y));
    for (int k = 0; k < 40; k++)
        LK_TRY(lk_slice(y, 0, k % 2, k % 2 + 2, 1, &part[k]));
    LK_TRY(lk_concat(part, 40, 0, &y));
    LK_TRY(lk_stack((lk_var[]){y, y}, 2, 1, &y));
    LK_TRY(lk_scatter_index(y, 1, i, 70, &y));
    LK_TRY(lk_cast(y, LK_F32, &y));
    LK_TRY(lk_max(y, LK_AXES(0), &y));
    LK_TRY(lk_norm(y, LK_AXES(1), &y));
    LK_TRY(lk_prod(y, NULL, &y));
    LK_TRY(lk_mean(y, NULL, &y));
    LK_TRY(lk_sum(y, NULL, &y));
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
}

static lk_status scenario(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_tensor *value = NULL, *grad = NULL, *index = NULL;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_tensor_zeros(LK_F64, LK_SHAPE(50, 60), &value));
    LK_TRY_TO(done, lk_tensor_zeros(LK_F64, LK_SHAPE(50, 60), &grad));
    LK_TRY_TO(done, lk_tensor_zeros(LK_I32, LK_SHAPE(2), &index));
    LK_TRY_TO(done, pass(tape, value, grad, index));
done:
    lk_tape_free(tape);
    lk_tensor_free(value);
    lk_tensor_free(grad);
    lk_tensor_free(index);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_OK(lk_threads_set(1));
    ASSERT_TRUE(test_every_allocation_fails(scenario) > 10);
}
