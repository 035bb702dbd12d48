/* lk__memory: the allocator of a tape's tensors; small blocks by size class, large ones that split
 * and merge.  See memory.h. */
#include "autograd/memory.h"

#include "base/memory/region.h"

#include <lockstep/extra/checked.h>

enum {
    CHUNK = 1 << 26, /* addresses of a chunk, but for large blocks */
    BLOCKS = 32,     /* that a chunk has addresses for, of the size of the one it is made for */
    SMALL = 1 << 13, /* bytes of the largest small block */
    PAGE = 1 << 16,  /* that small blocks are cut from */
    UNIT = 64,
    LINEAR = 8
};

_Static_assert(sizeof(lk__block) <= LK_ALIGN, "a block's bytes are aligned");

/* ---- sizes ---- */

/* The class of a size, and the bytes of a block of that class. */
static int class_of(int64_t bytes, int64_t *rounded)
{
    uint64_t units = bytes > UNIT ? ((uint64_t)bytes + UNIT - 1) / UNIT : 1;
    if (units <= LINEAR) {
        *rounded = (int64_t)units * UNIT;
        return (int)units - 1;
    }
    int exponent = 63 - __builtin_clzll(units - 1);
    int shift = exponent - 3;
    uint64_t eighths = (units - 1) >> shift; /* 8 to 15 */
    *rounded = (int64_t)((eighths + 1) << shift) * UNIT;
    return 8 * shift + (int)eighths;
}

/* The largest class whose blocks have at most so many bytes. */
static int bin_of(int64_t bytes)
{
    int64_t rounded;
    int class = class_of(bytes, &rounded);
    return rounded > bytes && class > 0 ? class - 1 : class;
}

/* ---- bins of free large blocks ---- */

static void bin_put(lk__memory *m, lk__block *b)
{
    int i = bin_of(b->bytes);
    b->holds = 0;
    b->previous = NULL;
    b->next = m->bin[i];
    if (b->next)
        b->next->previous = b;
    m->bin[i] = b;
    m->has[i / 64] |= UINT64_C(1) << i % 64;
}

static void bin_take(lk__memory *m, lk__block *b)
{
    int i = bin_of(b->bytes);
    if (b->previous)
        b->previous->next = b->next;
    else
        m->bin[i] = b->next;
    if (b->next)
        b->next->previous = b->previous;
    if (!m->bin[i])
        m->has[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* The smallest of a bin that has so many bytes, or NULL. */
static lk__block *bin_find(lk__block *b, int64_t bytes)
{
    lk__block *best = NULL;
    for (; b; b = b->next)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

/* The first bin behind `i` that has a block, or LK_N_CLASSES. */
static int bin_behind(const lk__memory *m, int i)
{
    i++;
    for (int word = i / 64; word < LK_N_CLASSES / 64; word++) {
        uint64_t bits = m->has[word];
        if (word == i / 64)
            bits &= ~UINT64_C(0) << i % 64;
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return LK_N_CLASSES;
}

/* A free block of at least so many bytes, nearly the smallest, or NULL. */
static lk__block *free_find(const lk__memory *m, int64_t bytes)
{
    int i = bin_of(bytes);
    lk__block *b = bin_find(m->bin[i], bytes);
    if (!b && (i = bin_behind(m, i)) < LK_N_CLASSES)
        b = bin_find(m->bin[i], bytes);
    return b;
}

/* ---- chunks ---- */

/* A chunk for blocks like one of `bytes` bytes. */
static lk_status chunk_new(int64_t bytes, lk__chunk **out)
{
    lk_status st;
    lk__chunk *c = NULL;
    int64_t room = bytes < INT64_MAX / 4 / BLOCKS ? BLOCKS * bytes : bytes;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    LK_TRY_TO(fail, lk__region_new(room > CHUNK ? room : CHUNK, bytes, &c->region));
    LK_TRY_TO(fail, lk__storage_wrap(c->region->base, lk__region_free, c->region, &c->storage));
    *out = c;
    return LK_OK;
fail:
    lk__region_free(c->region);
    lk_free(c);
    return st;
}

static void chunk_free(lk__memory *m, lk__chunk *c)
{
    m->held -= c->region->bytes;
    lk__storage_free(c->storage);
    lk_free(c);
}

/* A block of `bytes` bytes at the end of a chunk, which has addresses for it: what is free there grows, or it
 * is a new one.  *out is in no bin. */
static lk_status chunk_grow(lk__memory *m, lk__chunk *c, int64_t bytes, lk__block **out)
{
    bool grows = c->last && c->last->holds == 0;
    lk__block *b = grows ? c->last : (lk__block *)(c->region->base + c->used);
    int64_t used = (char *)b - c->region->base + LK_ALIGN + bytes, before = c->region->bytes;
    LK_TRY(lk__region_grow(c->region, used));
    m->held += c->region->bytes - before;
    if (grows)
        bin_take(m, b);
    else
        *b = (lk__block){.below = c->last, .chunk = c, .class = LK_LARGE};
    b->bytes = bytes;
    c->last = b;
    c->used = used;
    *out = b;
    return LK_OK;
}

/* Whether a chunk has addresses for one more block of `bytes` bytes at its end. */
static bool has_room(const lk__chunk *c, int64_t bytes)
{
    int64_t free = c->last && c->last->holds == 0 ? c->last->bytes + LK_ALIGN : 0;
    return c->region->room - c->used + free >= bytes + LK_ALIGN;
}

/* A block of `bytes` bytes, of which none is free: at the end of a chunk that is in use, or else in one that
 * is not.  Chunks keep their order, and so do the places of a program that does the same again. */
static lk_status chunks_grow(lk__memory *m, int64_t bytes, lk__block **out)
{
    lk__chunk **end = &m->first;
    while (*end && !has_room(*end, bytes))
        end = &(*end)->next;
    if (!*end)
        LK_TRY(chunk_new(bytes + LK_ALIGN, end));
    return LK_TRACE(chunk_grow(m, *end, bytes, out));
}

/* ---- large blocks ---- */

/* The block behind a large one, or NULL. */
static lk__block *above(lk__block *b)
{
    return b == b->chunk->last ? NULL : (lk__block *)((char *)b + LK_ALIGN + b->bytes);
}

/* Leave what is behind the first `bytes` bytes of a block that is in no bin to others. */
static void large_split(lk__memory *m, lk__block *b, int64_t bytes)
{
    if (b->bytes - bytes < SMALL + LK_ALIGN)
        return;
    lk__block *rest = (lk__block *)((char *)b + LK_ALIGN + bytes), *behind = above(b);
    *rest = (lk__block){
        .below = b, .chunk = b->chunk, .bytes = b->bytes - bytes - LK_ALIGN, .class = LK_LARGE};
    if (behind)
        behind->below = rest;
    else
        b->chunk->last = rest;
    b->bytes = bytes;
    bin_put(m, rest);
}

static lk_status large_new(lk__memory *m, int64_t bytes, lk__block **out)
{
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    lk__block *b = free_find(m, bytes);
    if (!b) {
        return LK_TRACE(chunks_grow(m, bytes, out));
    }
    bin_take(m, b);
    large_split(m, b, bytes);
    *out = b;
    return LK_OK;
}

/* Make b and the block behind it, which is free and in no bin, one. */
static void large_join(lk__block *b, lk__block *behind)
{
    lk__block *next = above(behind);
    b->bytes += LK_ALIGN + behind->bytes;
    if (next)
        next->below = b;
    else
        b->chunk->last = b;
}

static void large_free(lk__memory *m, lk__block *b)
{
    lk__block *behind = above(b), *below = b->below;
    if (behind && behind->holds == 0) {
        bin_take(m, behind);
        large_join(b, behind);
    }
    if (below && below->holds == 0) {
        bin_take(m, below);
        large_join(below, b);
        b = below;
    }
    bin_put(m, b);
}

/* ---- small blocks ---- */

static lk_status small_new(lk__memory *m, int class, int64_t rounded, lk__block **out)
{
    lk__block *b = m->free[class];
    if (b) {
        m->free[class] = b->next;
        *out = b;
        return LK_OK;
    }
    if (!m->page || m->page->bytes - m->cut < rounded + LK_ALIGN) {
        LK_TRY(large_new(m, PAGE, &b));
        b->holds = 1;
        m->page = b;
        m->cut = 0;
    }
    b = (lk__block *)((char *)m->page + LK_ALIGN + m->cut);
    m->cut += rounded + LK_ALIGN;
    *b = (lk__block){.chunk = m->page->chunk, .bytes = rounded, .class = class};
    *out = b;
    return LK_OK;
}

/* ---- all of them ---- */

lk_status lk__block_new(lk__memory *m, int64_t bytes, lk__block **out)
{
    int64_t rounded;
    lk__block *b = NULL;
    *out = NULL;
    LK_CHECK(bytes >= 0 && bytes < INT64_MAX / 4, LK_ENOMEM, "no memory for a value of %lld bytes",
             (long long)bytes);
    int class = class_of(bytes, &rounded);
    if (rounded <= SMALL)
        LK_TRY(small_new(m, class, rounded, &b));
    else
        LK_TRY(large_new(m, bytes, &b));
    b->next = NULL;
    b->holds = 1;
    m->live += b->bytes;
    if (m->peak < m->live)
        m->peak = m->live;
    *out = b;
    return LK_OK;
}

void lk__block_release(lk__memory *m, lk__block *b)
{
    if (!b || --b->holds > 0)
        return;
    m->live -= b->bytes;
    if (b->class == LK_LARGE) {
        large_free(m, b);
    } else {
        b->next = m->free[b->class];
        m->free[b->class] = b;
    }
}

void lk__memory_reset(lk__memory *m)
{
    for (lk__chunk **at = &m->first; *at;) {
        lk__chunk *c = *at;
        c->used = 0;
        c->last = NULL;
        if (atomic_load_explicit(&c->storage->holders, memory_order_acquire) > 1) {
            *at = c->next;
            chunk_free(m, c);
        } else {
            at = &c->next;
        }
    }
    memset(m->bin, 0, sizeof m->bin);
    memset(m->has, 0, sizeof m->has);
    memset(m->free, 0, sizeof m->free);
    m->page = NULL;
    m->live = m->peak = 0;
}

void lk__memory_free(lk__memory *m)
{
    while (m->first) {
        lk__chunk *c = m->first;
        m->first = c->next;
        chunk_free(m, c);
    }
}
