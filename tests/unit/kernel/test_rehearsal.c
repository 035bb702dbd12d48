/* Rehearsals: large blocks are addresses, tasks are left undone, and both only on the thread that rehearses. */
#include "base/memory/rehearsal.h"
#include "faults.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { LARGE = 3 << 20 };

TEST(large_blocks_take_no_memory)
{
    int64_t huge = INT64_C(1) << 38; /* more than can be touched; qemu keeps tables of addresses */
    lk_alloc_stats before = lk_alloc_stats_now();
    char *block = NULL;
    bool outer = lk__rehearsal_set(true);
    ASSERT_OK(lk_alloc(&block, huge, 1));
    (void)lk__rehearsal_set(outer);
    ASSERT_TRUE(lk_alloc_stats_now().live_bytes - before.live_bytes == huge);
    ASSERT_TRUE((uintptr_t)block % LK_ALIGN == 0);
    ASSERT_TRUE(block[0] == 0 && block[huge - 1] == 0);
    block[huge / 2] = 1; /* it can be touched all the same */
    lk_free(block);
    ASSERT_TRUE(lk_alloc_stats_now().live_bytes == before.live_bytes);
    ASSERT_TRUE(lk_alloc_stats_now().live_blocks == before.live_blocks);
}

TEST(zeros_are_zeros)
{
    static const char zeros[4096];
    char *large = NULL, *small = NULL;
    (void)lk__rehearsal_set(true);
    ASSERT_OK(lk_alloc_zero(&large, LARGE, 1));
    ASSERT_OK(lk_alloc_zero(&small, sizeof zeros, 1));
    (void)lk__rehearsal_set(false);
    ASSERT_TRUE(memcmp(large, zeros, sizeof zeros) == 0);
    ASSERT_TRUE(memcmp(large + LARGE - sizeof zeros, zeros, sizeof zeros) == 0);
    ASSERT_TRUE(memcmp(small, zeros, sizeof zeros) == 0);
    lk_free(large);
    lk_free(small);
}

static void task_count(void *arg, int64_t first, int64_t last)
{
    *(int64_t *)arg += last - first;
}

TEST(tasks_are_left_undone)
{
    int64_t n = 0;
    ASSERT_TRUE(!lk__rehearsal_set(true));
    ASSERT_OK(lk__parallel(lk__tasks_long(3), task_count, &n));
    ASSERT_TRUE(n == 0);
    ASSERT_TRUE(lk__rehearsal_set(false));
    ASSERT_OK(lk__parallel(lk__tasks_long(3), task_count, &n));
    ASSERT_TRUE(n == 3);
}
