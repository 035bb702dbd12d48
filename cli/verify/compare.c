/* Comparing the traces of two configurations, bit by bit: see compare.h. */
#include "verify/compare.h"

#include <stdio.h>

verify_difference verify_compare(const verify_trace *a, const verify_trace *b)
{
    verify_difference d = {.found = false};
    for (int64_t i = 0; i < a->steps && d.state_step == 0; i++) {
        bool loss = !bits_are_equal(a->loss[i], b->loss[i]);
        if (a->state[i] != b->state[i])
            d.state_step = i + 1;
        if (d.found || !(loss || d.state_step))
            continue;
        d.found = true;
        d.step = i + 1;
        if (loss)
            snprintf(d.text, sizeof d.text, "the loss is %.17g and %.17g", a->loss[i], b->loss[i]);
    }
    if (d.found || a->score == b->score)
        return d;
    d.found = true;
    d.step = a->steps;
    snprintf(d.text, sizeof d.text, "loss or metrics of the evaluation differ");
    return d;
}
