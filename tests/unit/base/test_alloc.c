/* Counted allocation: sizes, alignment, counts, injected failures. */
#include "faults.h"

#include <lockstep/extra/alloc.h>

#include <pthread.h>

TEST(blocks_are_aligned_and_counted)
{
    lk_alloc_stats before = lk_alloc_stats_now();
    char *p;
    for (int64_t n = 0; n < 200; n++) {
        ASSERT_OK(lk_alloc(&p, n, 3));
        ASSERT_EQ((uintptr_t)p % LK_ALIGN, 0);
        memset(p, 7, (size_t)n * 3);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, before.live_blocks + 1);
        ASSERT_EQ(lk_alloc_stats_now().live_bytes, before.live_bytes + 3 * n);
        lk_free(p);
    }
    lk_alloc_stats after = lk_alloc_stats_now();
    ASSERT_EQ(after.live_blocks, before.live_blocks);
    ASSERT_EQ(after.live_bytes, before.live_bytes);
    ASSERT_EQ(after.calls, before.calls + 200);
}

TEST(the_peak_is_the_largest_sum_of_live_blocks)
{
    char *p, *q;
    int64_t live = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_alloc(&p, 1 << 20, 1));
    ASSERT_OK(lk_alloc(&q, 1 << 20, 2));
    lk_free(p);
    lk_free(q);
    ASSERT_EQ(lk_alloc_stats_now().peak_bytes, live + (3 << 20));
}

TEST(blocks_of_zero_bytes_are_valid_and_distinct)
{
    char *p, *q;
    ASSERT_OK(lk_alloc(&p, 0, 8));
    ASSERT_OK(lk_alloc_zero(&q, 8, 0));
    ASSERT_TRUE(p && q && p != q);
    lk_free(p);
    lk_free(q);
}

TEST(zeroed_blocks_are_zero_after_reuse)
{
    for (int round = 0; round < 3; round++) {
        unsigned char *p, sum = 0;
        ASSERT_OK(lk_alloc_zero(&p, 1000, 1));
        for (int i = 0; i < 1000; i++)
            sum |= p[i];
        ASSERT_EQ(sum, 0);
        memset(p, 0xff, 1000);
        lk_free(p);
    }
}

TEST(bad_counts_are_refused_and_clear_the_pointer)
{
    char there, *p = &there;
    ASSERT_FAILS(lk_alloc(&p, -1, 4), LK_EINVAL, "-1 elements");
    ASSERT_TRUE(!p);
    p = &there;
    ASSERT_FAILS(lk_alloc(&p, INT64_MAX / 2, 4), LK_EOVERFLOW, "elements of 4 bytes");
    ASSERT_TRUE(!p);
    p = &there;
    ASSERT_FAILS(lk_alloc_zero(&p, INT64_MAX, 1), LK_EOVERFLOW, "elements of 1 bytes");
    ASSERT_TRUE(!p);
    ASSERT_FAILS(lk_alloc(&p, 1, SIZE_MAX), LK_EOVERFLOW, "1 elements of");
    lk_free(NULL);
}

TEST(the_chosen_allocation_fails_once)
{
    char *p = NULL, *q = NULL;
    lk_alloc_fail_at(2);
    ASSERT_OK(lk_alloc(&p, 10, 1));
    ASSERT_FAILS(lk_alloc_zero(&q, 10, 2), LK_ENOMEM, "no memory for 20 bytes (10 elements of 2)");
    ASSERT_TRUE(!q);
    ASSERT_OK(lk_alloc(&q, 10, 1));
    lk_free(p);
    lk_free(q);
    lk_alloc_fail_at(1);
    lk_alloc_fail_at(0);
    ASSERT_OK(lk_alloc(&p, 1, 1));
    lk_free(p);
}

static lk_status allocates_three(void)
{
    char *p[3] = {NULL, NULL, NULL};
    lk_status st = LK_OK;
    for (int i = 0; i < 3; i++)
        LK_TRY_TO(done, lk_alloc(&p[i], i, 1));
done:
    for (int i = 0; i < 3; i++)
        lk_free(p[i]);
    return st;
}

TEST(every_allocation_of_a_scenario_can_fail)
{
    ASSERT_EQ(test_every_allocation_fails(allocates_three), 3);
}

enum { THREADS = 4, PER_THREAD = 5000, TOGETHER = THREADS * PER_THREAD };

static void *allocate_and_free(void *failures)
{
    for (int i = 0; i < PER_THREAD; i++) {
        char *p;
        if (lk_alloc(&p, i % 100, 1) != LK_OK)
            ++*(int *)failures;
        lk_free(p);
    }
    return NULL;
}

TEST(threads_share_the_counts_and_one_of_them_fails)
{
    lk_alloc_stats before = lk_alloc_stats_now();
    pthread_t t[THREADS];
    int failures[THREADS] = {0}, sum = 0;
    lk_alloc_fail_at(TOGETHER / 2);
    for (int i = 0; i < THREADS; i++)
        ASSERT_EQ(pthread_create(&t[i], NULL, allocate_and_free, &failures[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        ASSERT_EQ(pthread_join(t[i], NULL), 0);
        sum += failures[i];
    }
    lk_alloc_stats after = lk_alloc_stats_now();
    ASSERT_EQ(sum, 1);
    ASSERT_EQ(after.live_blocks, before.live_blocks);
    ASSERT_EQ(after.live_bytes, before.live_bytes);
    ASSERT_EQ(after.calls, before.calls + TOGETHER);
}
