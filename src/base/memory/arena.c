/* lk_arena: a bump allocator, freed as a whole.  A list of blocks, each filled from its start; what
 * is larger than a block gets one of its own.  One thread at a time. */
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/option.h>

#include <string.h>

enum { BLOCK = 8192, ALIGN = 16 };

struct block {
    struct block *next;
    size_t used, size; /* of the bytes behind this head */
};

_Static_assert(sizeof(struct block) <= LK_ALIGN, "the bytes of a block are aligned");

struct lk_arena {
    struct block *blocks; /* the newest first */
};

lk_status lk_arena_new(lk_arena **out)
{
    return lk_alloc_zero(out, 1, sizeof **out);
}

void lk_arena_free(lk_arena *arena)
{
    if (!arena)
        return;
    for (struct block *b = arena->blocks; b;) {
        struct block *next = b->next;
        lk_free(b);
        b = next;
    }
    lk_free(arena);
}

static lk_status block_add(lk_arena *arena, size_t need)
{
    size_t size = need > BLOCK ? need : BLOCK;
    struct block *b;
    LK_TRY(lk_alloc(&b, 1, LK_ALIGN + size));
    *b = (struct block){arena->blocks, 0, size};
    arena->blocks = b;
    return LK_OK;
}

lk_status lk_arena_alloc(lk_arena *arena, void *out, int64_t count, size_t size)
{
    void *p = NULL;
    memcpy(out, &p, sizeof p);
    LK_CHECK(count >= 0, LK_EINVAL, "cannot allocate %lld elements", (long long)count);
    LK_CHECK(size <= INT64_MAX, LK_EOVERFLOW, "elements of %zu bytes", size);
    int64_t bytes;
    LK_TRY(lk_mul_i64(count, (int64_t)size, &bytes));
    LK_TRY(lk_round_up_i64(bytes, ALIGN, &bytes));
    const struct block *top = arena->blocks;
    if (!top || top->size - top->used < (size_t)bytes)
        LK_TRY(block_add(arena, (size_t)bytes));
    struct block *b = arena->blocks;
    p = (char *)b + LK_ALIGN + b->used;
    b->used += (size_t)bytes;
    memset(p, 0, (size_t)bytes);
    memcpy(out, &p, sizeof p);
    return LK_OK;
}

lk_status lk_arena_text(lk_arena *arena, const char *text, size_t n, const char **out)
{
    *out = NULL;
    LK_CHECK(n < INT64_MAX, LK_EOVERFLOW, "a text of %zu bytes", n);
    char *copy;
    LK_TRY(lk_arena_alloc(arena, &copy, (int64_t)n + 1, 1));
    memcpy(copy, text, n);
    *out = copy;
    return LK_OK;
}
