/* lk__node_arena: the memory of a tape for what belongs to its nodes (inputs, attributes, plans), given back
 * from a mark on when the nodes behind it are dropped.  The tape has it, and uses it on its thread. */
#include "autograd/tape.h"

enum { PAGE_BYTES = 1 << 14, ALIGNED = 16 };

typedef struct lk__node_arena_page {
    struct lk__node_arena_page *next;
    int64_t size, used;
    _Alignas(ALIGNED) char bytes[];
} lk__node_arena_page;

lk_status lk__node_arena_take(lk__node_arena *n, int64_t bytes, void *out)
{
    bytes = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    lk__node_arena_page **end = n->current ? &n->current : &n->first;
    while (*end && (*end)->size - (*end)->used < bytes) {
        end = &(*end)->next;
        if (*end)
            (*end)->used = 0;
    }
    if (!*end) {
        int64_t size = bytes > PAGE_BYTES ? bytes : PAGE_BYTES;
        LK_TRY(lk_alloc(end, (int64_t)sizeof(lk__node_arena_page) + size, 1));
        **end = (lk__node_arena_page){.size = size};
    }
    n->current = *end;
    char *at = n->current->bytes + n->current->used;
    memcpy(out, &at, sizeof at);
    n->current->used += bytes;
    return LK_OK;
}

lk__node_arena_mark lk__node_arena_here(const lk__node_arena *n)
{
    return (lk__node_arena_mark){n->current, n->current ? n->current->used : 0};
}

void lk__node_arena_back(lk__node_arena *n, lk__node_arena_mark mark)
{
    n->current = mark.page ? mark.page : n->first;
    if (n->current)
        n->current->used = mark.page ? mark.used : 0;
}

void lk__node_arena_free(lk__node_arena *n)
{
    while (n->first) {
        lk__node_arena_page *p = n->first;
        n->first = p->next;
        lk_free(p);
    }
}
