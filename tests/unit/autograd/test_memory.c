/* The tape's memory: blocks never overlap, free ones become large again, and who does the same again gets the
 * same places. */
#include "autograd/memory.h"
#include "base/memory/region.h"
#include "faults.h"

#include <lockstep/rng.h>

enum { MANY = 300, STEPS = 20000 };

static lk__memory *memory_new(void)
{
    lk__memory *m = NULL;
    ASSERT_OK(lk_alloc_zero(&m, 1, sizeof *m));
    return m;
}

static void memory_free(lk__memory *m)
{
    lk__memory_free(m);
    lk_free(m);
}

/* Bytes of all sizes, small ones more often. */
static int64_t size_of(int64_t i)
{
    double u = 0, v = 0;
    lk_rng rng = lk_rng_start(1, "test", "size");
    ASSERT_OK(lk_rng_uniform_f64(rng, (lk_rng_at){.element = i}, 1, &u));
    ASSERT_OK(lk_rng_uniform_f64(rng, (lk_rng_at){.sample = 1, .element = i}, 1, &v));
    return (int64_t)(u * (double)((int64_t)1 << (int)(v * 20)));
}

/* Take and give back `STEPS` times; each block keeps what is in it.  The hash of all places. */
static uint64_t many_blocks(lk__memory *m)
{
    static lk__block *block[MANY];
    static int64_t size[MANY];
    lk_hash h = lk_hash_start();
    int64_t live = 0;
    memset(block, 0, sizeof block);
    for (int64_t i = 0; i < STEPS; i++) {
        int at = (int)((i * 7919 + i / 13) % MANY);
        if (block[at]) {
            const unsigned char *data = lk__block_data(block[at]);
            for (int64_t k = 0; k < size[at]; k += size[at] / 8 + 1)
                ASSERT_EQ(data[k], at % 251);
            ASSERT_EQ(size[at] == 0 || data[size[at] - 1] == at % 251, 1);
            live -= block[at]->bytes;
            lk__block_release(m, block[at]);
            block[at] = NULL;
        } else {
            size[at] = size_of(i);
            ASSERT_OK(lk__block_new(m, size[at], &block[at]));
            memset(lk__block_data(block[at]), at % 251, (size_t)size[at]);
            ASSERT_EQ((uintptr_t)lk__block_data(block[at]) % LK_ALIGN, 0);
            lk_hash_add_i64(&h, (int64_t)(uintptr_t)block[at]);
            live += block[at]->bytes;
        }
        ASSERT_EQ(m->live, live);
    }
    for (int at = 0; at < MANY; at++)
        lk__block_release(m, block[at]);
    ASSERT_EQ(m->live, 0);
    return lk_hash_value(&h);
}

TEST(the_same_again_gets_the_same_places)
{
    lk__memory *m = memory_new();
    uint64_t first = many_blocks(m);
    int64_t peak = m->peak, calls = lk_alloc_stats_now().calls, held = m->held;
    ASSERT_TRUE(held >= peak && held < peak + peak / 3 + (4 << 20));
    for (int i = 0; i < 2; i++) {
        lk__memory_reset(m);
        ASSERT_TRUE(many_blocks(m) == first);
        ASSERT_TRUE(m->held == held && m->peak == peak);
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    memory_free(m);
}

/* Eight blocks that touch, freed in any order, are one again. */
TEST(neighbours_become_one)
{
    enum { N = 8, BYTES = 100000 };
    for (int order = 0; order < 5; order++) {
        lk__memory *m = memory_new();
        lk__block *b[N], *all = NULL;
        for (int i = 0; i < N; i++)
            ASSERT_OK(lk__block_new(m, BYTES, &b[i]));
        int64_t held = m->held;
        for (int i = 0; i < N; i++)
            lk__block_release(m, b[(i * (2 * order + 1) + order) % N]);
        ASSERT_OK(lk__block_new(m, (int64_t)N * BYTES, &all));
        ASSERT_TRUE(all == b[0] && m->held == held);
        lk__block_release(m, all);
        memory_free(m);
    }
}

/* A free block at the end grows: only what is missing is added. */
TEST(the_last_one_grows)
{
    lk__memory *m = memory_new();
    lk__block *b = NULL, *larger = NULL;
    ASSERT_OK(lk__block_new(m, 10 << 20, &b));
    lk__block_release(m, b);
    ASSERT_OK(lk__block_new(m, 15 << 20, &larger));
    ASSERT_TRUE(larger == b && m->held < 18 << 20);
    lk__block_release(m, larger);
    memory_free(m);
}

/* Blocks that no chunk of before has addresses for. */
TEST(large_blocks_get_chunks_of_their_own)
{
    lk__memory *m = memory_new();
    lk__block *b[3];
    for (int round = 0; round < 2; round++) {
        ASSERT_OK(lk__block_new(m, 100, &b[0]));
        ASSERT_OK(lk__block_new(m, 65 << 20, &b[1]));
        ASSERT_OK(lk__block_new(m, 65 << 20, &b[2]));
        ASSERT_TRUE(m->first && m->first->next && !m->first->next->next);
        ASSERT_TRUE(b[1]->chunk == b[2]->chunk && b[1]->chunk != b[0]->chunk);
        ASSERT_TRUE(m->held < 135 << 20);
        lk__memory_reset(m);
    }
    memory_free(m);
}

/* What the program has a view of is left to it. */
TEST(a_view_outlives_a_reset)
{
    lk__memory *m = memory_new();
    lk__block *b = NULL, *next = NULL;
    ASSERT_OK(lk__block_new(m, 1 << 20, &b));
    struct lk__storage *storage = b->chunk->storage;
    memset(lk__block_data(b), 5, 1 << 20);
    lk__storage_retain(storage);
    lk__memory_reset(m);
    ASSERT_EQ(m->held, 0);
    ASSERT_OK(lk__block_new(m, 1 << 20, &next));
    ASSERT_TRUE(next != b);
    memset(lk__block_data(next), 6, 1 << 20);
    ASSERT_EQ(((const char *)lk__block_data(b))[(1 << 20) - 1], 5);
    memory_free(m);
    ASSERT_EQ(((const char *)lk__block_data(b))[0], 5);
    lk__storage_free(storage);
}

static lk_status life(void)
{
    lk_status st;
    lk__memory *m = NULL;
    lk__block *b = NULL;
    LK_TRY(lk_alloc_zero(&m, 1, sizeof *m));
    LK_TRY_TO(done, lk__block_new(m, 10, &b));
    LK_TRY_TO(done, lk__block_new(m, 1 << 20, &b));
    LK_TRY_TO(done, lk__block_new(m, 70 << 20, &b));
done:
    memory_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_TRUE(test_every_allocation_fails(life) > 8);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, before);
}
