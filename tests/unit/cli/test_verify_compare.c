/* When two configurations of `lockstep verify` differ: planted differences are found by step. */
#include "harness.h"
#include "verify/compare.h"

#include <string.h>

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

TEST(equal_traces_have_no_difference)
{
    verify_trace a = trace(0), b = trace(1);
    verify_difference d = verify_compare(&a, &b);
    ASSERT_TRUE(!d.found && d.state_step == 0);
}

TEST(the_first_step_whose_state_differs_is_found)
{
    for (int at = 0; at < STEPS; at++) {
        verify_trace a = trace(0), b = trace(1);
        for (int i = at; i < STEPS; i++)
            b.state[i]++;
        verify_difference d = verify_compare(&a, &b);
        ASSERT_TRUE(d.found && d.step == at + 1 && d.state_step == at + 1 && !*d.text);
    }
}

TEST(a_loss_that_differs_before_the_state_does_not_hide_it)
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

TEST(a_score_that_differs_is_told_when_nothing_else_does)
{
    verify_trace a = trace(0), b = trace(1);
    b.score++;
    verify_difference d = verify_compare(&a, &b);
    ASSERT_TRUE(d.found && d.step == STEPS && d.state_step == 0);
    ASSERT_TRUE(strstr(d.text, "evaluation"));
}
