/* Where the buffers of a call are: in memory that all its ranks see, or private. */
#include "coll/arena.h"

lk__where lk__where_is(lk__world *w, const void *data, int64_t bytes)
{
    lk_shm *s = lk__shared_find(w, data, bytes);
    if (!s)
        return (lk__where){0};
    int64_t offset = (const unsigned char *)data - s->part[s->me].data;
    return (lk__where){1, s->context, s->number, offset};
}

void lk__where_arrive(lk__arena_call *c)
{
    lk__arena *a = c->arena;
    lk__arrival *own = &a->desk[a->me]->arrival[c->ticket % 2];
    own->digest = c->digest;
    own->out = lk__where_is(a->shared->w, c->out, c->bytes);
    own->in = c->in == c->out ? own->out : lk__where_is(a->shared->w, c->in, c->bytes);
    lk__arena_post_last(c, LK_ARRIVED, &own->ticket);
}

bool lk__where_shared(const lk__arena_call *c)
{
    const lk__arena *a = c->arena;
    const lk__arrival *first = &a->desk[0]->arrival[c->ticket % 2];
    for (int i = 0; i < a->n; i++) {
        const lk__arrival *at = &a->desk[i]->arrival[c->ticket % 2];
        if (!at->in.shared || !at->out.shared || at->in.context != first->in.context ||
            at->in.number != first->in.number || at->out.context != first->out.context ||
            at->out.number != first->out.number)
            return false;
    }
    return true;
}

unsigned char *lk__where_see(const lk__arena_call *c, int i, const lk__where *where)
{
    lk_shm *s = lk__shared_get(c->arena->shared->w, where->context, where->number);
    int world_rank = c->arena->shared->part[i].world_rank, at = 0;
    while (at < s->n - 1 && s->part[at].world_rank != world_rank)
        at++;
    return s->part[at].data + where->offset;
}
