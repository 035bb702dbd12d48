/* Blocks in chunks, by size class. */
#include "autograd/memory.h"

#include <lockstep/extra/checked.h>

enum { FIRST_CHUNK = 1 << 18, LARGEST_CHUNK = 1 << 26, UNIT = 64, LINEAR = 8 };

_Static_assert(sizeof(lk__block) <= LK_ALIGN, "a block's bytes are aligned");

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

static lk_status chunk_new(lk__memory *m, int64_t bytes, lk__chunk **out)
{
    lk_status st;
    int64_t size = m->held > FIRST_CHUNK ? m->held : FIRST_CHUNK;
    if (size > LARGEST_CHUNK)
        size = LARGEST_CHUNK;
    if (size < bytes)
        size = bytes;
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    (*out)->size = size;
    LK_TRY_TO(fail, lk__storage_new(size, false, &(*out)->storage));
    m->held += size;
    return LK_OK;
fail:
    lk_free(*out);
    *out = NULL;
    return st;
}

static void chunk_free(lk__memory *m, lk__chunk *c)
{
    m->held -= c->size;
    lk__storage_free(c->storage);
    lk_free(c);
}

/* Make the current chunk one that has room for `bytes` bytes. */
static lk_status make_room(lk__memory *m, int64_t bytes)
{
    lk__chunk **end = &m->first;
    if (m->current) {
        if (m->current->size - m->current->used >= bytes)
            return LK_OK;
        end = &m->current->next;
    }
    while (*end && (*end)->size - (*end)->used < bytes)
        end = &(*end)->next;
    if (!*end)
        LK_TRY(chunk_new(m, bytes, end));
    m->current = *end;
    return LK_OK;
}

lk_status lk__block_new(lk__memory *m, int64_t bytes, lk__block **out)
{
    int64_t rounded;
    *out = NULL;
    LK_CHECK(bytes >= 0 && bytes < INT64_MAX / 4, LK_ENOMEM, "no memory for a value of %lld bytes",
             (long long)bytes);
    int class = class_of(bytes, &rounded);
    lk__block *b = m->free[class];
    if (b) {
        m->free[class] = b->next;
    } else {
        LK_TRY(make_room(m, rounded + LK_ALIGN));
        lk__chunk *c = m->current;
        b = (lk__block *)((char *)c->storage->data + c->used);
        c->used += rounded + LK_ALIGN;
        *b = (lk__block){.chunk = c, .bytes = rounded, .class = class};
    }
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
    b->next = m->free[b->class];
    m->free[b->class] = b;
}

void lk__memory_reset(lk__memory *m)
{
    for (lk__chunk **at = &m->first; *at;) {
        lk__chunk *c = *at;
        c->used = 0;
        if (atomic_load_explicit(&c->storage->holders, memory_order_acquire) > 1) {
            *at = c->next;
            chunk_free(m, c);
        } else {
            at = &c->next;
        }
    }
    m->current = m->first;
    memset(m->free, 0, sizeof m->free);
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
