/* Fail every allocation of a scenario in turn: it must fail with LK_ENOMEM, and leave nothing. */
#ifndef LK_TEST_FAULTS_H
#define LK_TEST_FAULTS_H

#include "harness.h"

#include <lockstep/extra/alloc.h>

/* Does something and releases all of it, whether it worked or not. */
typedef lk_status test_scenario(void);

/* As below, of a scenario that can do without some memory, such as what ranks share for speed: up to
 * `spared` failures do no harm.  Which number that memory has differs from run to run. */
static inline int64_t test_allocations_fail_but(test_scenario *scenario, int spared)
{
    int64_t live = lk_alloc_stats_now().live_blocks;
    for (int64_t n = 1;; n++) {
        int64_t calls = lk_alloc_stats_now().calls;
        lk_alloc_fail_at(n);
        lk_status st = scenario();
        lk_alloc_fail_at(0);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
        if (lk_alloc_stats_now().calls - calls < n) { /* it made fewer than n, so none failed */
            ASSERT_OK(st);
            return n - 1;
        }
        if (st == LK_OK && spared-- > 0)
            continue;
        ASSERT_EQ(st, LK_ENOMEM);
        lk_error_clear();
    }
}

/* Returns how many allocations the scenario makes. */
static inline int64_t test_every_allocation_fails(test_scenario *scenario)
{
    return test_allocations_fail_but(scenario, 0);
}

#endif /* LK_TEST_FAULTS_H */
