/* lockstep bench KIND: speed, side by side with other libraries. */
#include "verb.h"

const lk__verb lk__verb_bench = {
    .name = "bench",
    .summary = "measure speed, side by side with other libraries in one run",
    .operands = "KIND",
    .about = "Measures the speed of one kind of work. A ratio is the other library's time divided "
             "by ours in the same run: above 1, Lockstep is faster.",
    .kinds = lk__bench_kinds,
};
