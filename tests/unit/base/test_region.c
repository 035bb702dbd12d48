/* Regions: memory that grows where it lies, counted as allocations are. */
#include "base/memory/region.h"
#include "faults.h"

static const int64_t MIB = 1 << 20;

TEST(it_grows_where_it_lies)
{
    lk__region *r = NULL;
    int64_t before = lk_alloc_stats_now().live_bytes, own;
    ASSERT_OK(lk__region_new(64 * MIB, 64, &r));
    own = lk_alloc_stats_now().live_bytes; /* addresses are not memory */
    ASSERT_TRUE(own - before < 4096 && r->bytes == 0 && r->room >= 64 * MIB);
    const char *base = r->base;
    for (int64_t n = 1; n <= 64 * MIB; n = n * 3 + 5) {
        int64_t had = r->bytes;
        ASSERT_OK(lk__region_grow(r, n));
        ASSERT_TRUE(r->base == base && r->bytes >= n && r->bytes <= r->room);
        ASSERT_TRUE(r->bytes - n < 2 * MIB);
        ASSERT_EQ(lk_alloc_stats_now().live_bytes - own, r->bytes);
        if (had > 0)
            ASSERT_EQ(r->base[had - 1], 7);
        memset(r->base, 7, (size_t)r->bytes);
    }
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk__region_grow(r, 1)); /* it has that */
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_FAILS(lk__region_grow(r, r->room + 1), LK_ENOMEM, "no addresses");
    lk__region_free(r);
    lk__region_free(NULL);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, before);
}

/* Where there are no addresses for what is wished, those for what is needed will do. */
TEST(it_takes_what_it_gets)
{
    lk__region *r = NULL;
    ASSERT_OK(lk__region_new(INT64_MAX / 4, MIB, &r));
    ASSERT_TRUE(r->room >= MIB && r->room < INT64_MAX / 4);
    ASSERT_OK(lk__region_grow(r, MIB));
    memset(r->base, 1, (size_t)MIB);
    lk__region_free(r);
    ASSERT_FAILS(lk__region_new(INT64_MAX / 4, INT64_MAX / 4, &r), LK_ENOMEM, "no addresses");
    ASSERT_TRUE(r == NULL);
}

static lk_status life(void)
{
    lk__region *r = NULL;
    LK_TRY(lk__region_new(8 * MIB, MIB, &r));
    lk_status st = lk__region_grow(r, MIB);
    int64_t had = r->bytes;
    if (st == LK_OK)
        st = lk__region_grow(r, 3 * MIB);
    ASSERT_TRUE(st == LK_OK || r->bytes == had); /* as it was */
    lk__region_free(r);
    return st;
}

TEST(every_allocation_may_fail)
{
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_EQ(test_every_allocation_fails(life), 3);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, before);
}
