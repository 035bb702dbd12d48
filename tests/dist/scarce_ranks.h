/* Two ranks on threads, whichever of them asks for the n-th block of memory gets none: both return, and
 * nothing is left. */
#ifndef LK_TEST_SCARCE_RANKS_H
#define LK_TEST_SCARCE_RANKS_H

#include "ranks.h"

/* `run` twice without a fault, then with one in each block of a run; under a sanitizer in some of them. */
static inline void expect_scarce_memory_is_told(lk_rank_fn *run)
{
    int64_t step = TEST_SLOWNESS > 1 ? 11 : 1;
    ASSERT_OK(lk_run_local(2, run, NULL));
    int64_t before = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_run_local(2, run, NULL));
    int64_t calls = lk_alloc_stats_now().calls - before;
    for (int64_t n = 1; n <= calls; n += step) {
        lk_alloc_fail_at(n);
        lk_status st = lk_run_local(2, run, NULL);
        lk_alloc_fail_at(0);
        if (st != LK_OK && st != LK_ENOMEM && st != LK_ECOMM && st != LK_ESTALL)
            TEST_FAIL("block %lld of %lld: %s", (long long)n, (long long)calls, lk_error_message());
        lk_error_clear();
    }
}

#endif /* LK_TEST_SCARCE_RANKS_H */
