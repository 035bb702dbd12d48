/* Arenas: what they hand out is zero, aligned, apart, and gone at once. */
#include "faults.h"

#include <lockstep/option.h>

#include <stdint.h>

TEST(memory_is_zero_aligned_and_apart)
{
    int64_t live = lk_alloc_stats_now().live_blocks;
    lk_arena *a;
    ASSERT_OK(lk_arena_new(&a));
    char *block[200];
    for (int i = 0; i < 200; i++) {
        int64_t n = i * 37 % 101;
        ASSERT_OK(lk_arena_alloc(a, &block[i], n, 3));
        ASSERT_EQ((uintptr_t)block[i] % 16, 0);
        for (int64_t j = 0; j < 3 * n; j++)
            ASSERT_EQ(block[i][j], 0);
        memset(block[i], i + 1, (size_t)(3 * n));
    }
    for (int i = 0; i < 200; i++)
        for (int j = 0; j < 3 * (i * 37 % 101); j++)
            ASSERT_EQ((unsigned char)block[i][j], i + 1);
    ASSERT_TRUE(lk_alloc_stats_now().live_blocks - live < 20);
    lk_arena_free(a);
    lk_arena_free(NULL);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
}

TEST(more_than_a_block_fits)
{
    lk_arena *a;
    double *large;
    char *small;
    ASSERT_OK(lk_arena_new(&a));
    ASSERT_OK(lk_arena_alloc(a, &large, 100000, sizeof *large));
    ASSERT_OK(lk_arena_alloc(a, &small, 1, 1));
    large[99999] = 1;
    ASSERT_EQ(*small, 0);
    lk_arena_free(a);
}

TEST(texts_are_copied_and_terminated)
{
    lk_arena *a;
    char text[] = "filters=32";
    const char *copy;
    ASSERT_OK(lk_arena_new(&a));
    ASSERT_OK(lk_arena_text(a, text, 7, &copy));
    text[0] = 'x';
    ASSERT_TRUE(strcmp(copy, "filters") == 0);
    lk_arena_free(a);
}

TEST(absurd_sizes_are_refused)
{
    lk_arena *a;
    void *p = &a;
    ASSERT_OK(lk_arena_new(&a));
    ASSERT_FAILS(lk_arena_alloc(a, &p, -1, 8), LK_EINVAL, "-1 elements");
    ASSERT_TRUE(p == NULL);
    ASSERT_FAILS(lk_arena_alloc(a, &p, INT64_MAX / 4, 8), LK_EOVERFLOW, "");
    ASSERT_FAILS(lk_arena_alloc(a, &p, INT64_MAX, 1), LK_EOVERFLOW, "");
    lk_arena_free(a);
}

static lk_status fill(void)
{
    lk_arena *a;
    lk_status st = LK_OK;
    const char *text;
    LK_TRY(lk_arena_new(&a));
    for (int i = 0; i < 2000; i++)
        LK_TRY_TO(done, lk_arena_text(a, "abc", 3, &text));
done:
    lk_arena_free(a);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(fill) >= 4);
}
