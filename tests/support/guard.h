/* Memory whose end is the end of the world: the next byte is on a page that must not be touched, so
 * that one element read or written too far is a fault, in any instruction set. */
#ifndef LK_TEST_GUARD_H
#define LK_TEST_GUARD_H

#include "real.h"

#include <sys/mman.h>

struct guard {
    void *data; /* `bytes` long */
    void *map;
    size_t map_bytes;
};

static inline struct guard guard_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + page - 1) / page * page;
    struct guard g = {.map_bytes = body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(g.map != MAP_FAILED);
    ASSERT_EQ(mprotect((char *)g.map + body, page, PROT_NONE), 0);
    g.data = (char *)g.map + body - bytes;
    return g;
}

/* n elements that real_fill() has filled. */
static inline struct guard guard_real(lk_dtype t, int64_t n, uint64_t seed, bool odd)
{
    struct guard g = guard_new((size_t)n * lk_dtype_size(t));
    real_fill(t, g.data, n, seed, odd);
    return g;
}

static inline void guard_free(struct guard *g)
{
    ASSERT_EQ(munmap(g->map, g->map_bytes), 0);
}

#endif /* LK_TEST_GUARD_H */
