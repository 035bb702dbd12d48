/* Where two configurations of `lockstep verify` differ: planted differences are found by step, layer, tensor
 * and element. */
#include "data_files.h"
#include "harness.h"
#include "verify_compare.h"

#include <lockstep/io.h>

enum { STEPS = 5 };

static uint64_t state[2][STEPS];
static double loss[2][STEPS];

static verify_trace trace(int which)
{
    for (int i = 0; i < STEPS; i++) {
        state[which][i] = 100 + (uint64_t)i;
        loss[which][i] = 1.0 / (1 + i);
    }
    return (verify_trace){STEPS, state[which], loss[which], .score = 7};
}

static void equal_traces_have_no_difference(void)
{
    verify_trace a = trace(0), b = trace(1);
    verify_difference d = verify_compare(&a, &b);
    ASSERT_TRUE(!d.found && d.state_step == 0);
}

static void the_first_step_whose_state_differs_is_found(void)
{
    for (int at = 0; at < STEPS; at++) {
        verify_trace a = trace(0), b = trace(1);
        for (int i = at; i < STEPS; i++)
            b.state[i]++;
        verify_difference d = verify_compare(&a, &b);
        ASSERT_TRUE(d.found && d.step == at + 1 && d.state_step == at + 1 && !*d.text);
    }
}

static void a_loss_that_differs_before_the_state_does_not_hide_it(void)
{
    verify_trace a = trace(0), b = trace(1);
    b.loss[1] = 0.75;
    b.loss[2] = 0.125;
    b.state[3]++;
    verify_difference d = verify_compare(&a, &b);
    ASSERT_TRUE(d.found && d.step == 2 && d.state_step == 4);
    ASSERT_TRUE(strcmp(d.text, "the loss is 0.5 and 0.75") == 0);
    b = trace(1);
    a.loss[4] = 0.0;
    b.loss[4] = -0.0;
    d = verify_compare(&a, &b);
    ASSERT_TRUE(d.found && d.step == 5 && d.state_step == 0);
}

static void a_score_that_differs_is_told_when_nothing_else_does(void)
{
    verify_trace a = trace(0), b = trace(1);
    b.score++;
    verify_difference d = verify_compare(&a, &b);
    ASSERT_TRUE(d.found && d.step == STEPS && d.state_step == 0);
    ASSERT_TRUE(strstr(d.text, "evaluation"));
}

/* ---- snapshots ---- */

static const char *const names[] = {
    "res1.conv1.weight", "state/res1.conv1.mean", "optimizer/m/res1.conv1.weight",
    "head.bias",         "optimizer/m/head.bias", "optimizer/scale"};

enum { TENSORS = sizeof names / sizeof names[0], ELEMENTS = 6 };

/* Write a snapshot in which tensors `first` and on have another element `at`; the first `n` tensors. */
static void snapshot_write(const char *file, int first, int at, int n)
{
    lk_named_tensor named[TENSORS];
    for (int t = 0; t < n; t++) {
        lk_tensor *x = NULL;
        ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &x));
        for (int i = 0; i < ELEMENTS; i++)
            ((float *)lk_tensor_data(x))[i] = (float)(t + i);
        if (t >= first)
            ((float *)lk_tensor_data(x))[at] = -0.5F;
        named[t] = (lk_named_tensor){names[t], x};
    }
    ASSERT_OK(lk_safetensors_write(test_path(file), named, n, NULL, 0));
    for (int t = 0; t < n; t++)
        lk_tensor_free(named[t].tensor);
}

static void the_first_tensor_that_differs_is_named_by_its_layer(void)
{
    static const char *const said[TENSORS] = {
        "layer res1.conv1, parameter weight, element 4 of 6: 4 (0x1p+2) and -0.5 (-0x1p-1); 5 "
        "other tensors differ",
        "layer res1.conv1, state mean, element 4 of 6: 5 (0x1.4p+2) and -0.5 (-0x1p-1); 4 other "
        "tensors differ",
        "layer res1.conv1, the optimizer's m of weight, element 4 of 6: 6 (0x1.8p+2) and -0.5 "
        "(-0x1p-1); 3 other tensors differ",
        "layer head, parameter bias, element 4 of 6: 7 (0x1.cp+2) and -0.5 (-0x1p-1); 2 other "
        "tensors differ",
        "layer head, the optimizer's m of bias, element 4 of 6: 8 (0x1p+3) and -0.5 (-0x1p-1); 1 "
        "other tensor differs",
        "the optimizer's number scale, element 4 of 6: 9 (0x1.2p+3) and -0.5 (-0x1p-1)"};
    char text[VERIFY_TEXT];
    snapshot_write("a", TENSORS, 0, TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        snapshot_write("b", t, 4, TENSORS);
        ASSERT_OK(verify_explain(test_path("a"), test_path("b"), text));
        if (strcmp(text, said[t]) != 0)
            TEST_FAIL("\"%s\" instead of \"%s\"", text, said[t]);
    }
    snapshot_write("b", TENSORS, 0, TENSORS);
    ASSERT_OK(verify_explain(test_path("a"), test_path("b"), text));
    ASSERT_TRUE(strcmp(text, "no tensor, when both are run again") == 0);
}

static void snapshots_of_other_tensors_are_an_error(void)
{
    char text[VERIFY_TEXT];
    snapshot_write("a", TENSORS, 0, TENSORS);
    snapshot_write("b", TENSORS, 0, TENSORS - 1);
    ASSERT_FAILS(verify_explain(test_path("a"), test_path("b"), text), LK_ESTATE,
                 "6 tensors and 5 do not match");
}

TEST_MAIN(TEST(equal_traces_have_no_difference), TEST(the_first_step_whose_state_differs_is_found),
          TEST(a_loss_that_differs_before_the_state_does_not_hide_it),
          TEST(a_score_that_differs_is_told_when_nothing_else_does),
          TEST(the_first_tensor_that_differs_is_named_by_its_layer),
          TEST(snapshots_of_other_tensors_are_an_error))
