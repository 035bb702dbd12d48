/* Small things that live as long as the nodes they belong to. */
#include "autograd/tape.h"

enum { PAGE_BYTES = 1 << 14, ALIGNED = 16 };

typedef struct lk__notes_page {
    struct lk__notes_page *next;
    int64_t size, used;
    _Alignas(ALIGNED) char bytes[];
} lk__notes_page;

lk_status lk__notes_take(lk__notes *n, int64_t bytes, void *out)
{
    bytes = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    lk__notes_page **end = n->current ? &n->current : &n->first;
    while (*end && (*end)->size - (*end)->used < bytes) {
        end = &(*end)->next;
        if (*end)
            (*end)->used = 0;
    }
    if (!*end) {
        int64_t size = bytes > PAGE_BYTES ? bytes : PAGE_BYTES;
        LK_TRY(lk_alloc(end, (int64_t)sizeof(lk__notes_page) + size, 1));
        **end = (lk__notes_page){.size = size};
    }
    n->current = *end;
    char *at = n->current->bytes + n->current->used;
    memcpy(out, &at, sizeof at);
    n->current->used += bytes;
    return LK_OK;
}

lk__notes_mark lk__notes_here(const lk__notes *n)
{
    return (lk__notes_mark){n->current, n->current ? n->current->used : 0};
}

void lk__notes_back(lk__notes *n, lk__notes_mark mark)
{
    n->current = mark.page ? mark.page : n->first;
    if (n->current)
        n->current->used = mark.page ? mark.used : 0;
}

void lk__notes_free(lk__notes *n)
{
    while (n->first) {
        lk__notes_page *p = n->first;
        n->first = p->next;
        lk_free(p);
    }
}
