/* Check of lk_log_softmax_rows(). */
#include "selfcheck/check_softmax.h"

static lk_status softmax_run(const check_case *c, int way, void *const *out)
{
    return LK_TRACE(check_softmax_run(c, way, lk_log_softmax_rows, out));
}

static lk_status softmax_expect(const check_case *c, check_truth *truth)
{
    return LK_TRACE(check_softmax_expect(c, true, truth));
}

const lk__check lk__check_log_softmax = {
    .name = "log_softmax",
    .summary = "logarithm of softmax by rows, with logits that must not overflow",
    .n_cases = CHECK_SOFTMAX_CASES,
    .ways = {"whole", "in parts", "in place"},
    .setup = check_softmax_setup,
    .run = softmax_run,
    .expect = softmax_expect,
};
