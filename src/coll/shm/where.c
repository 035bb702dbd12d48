/* Where the buffers of a call are, in memory that all its ranks see or private: for algorithms in the
 * shared area.
 */
#include "coll/shm/area.h"

lk__where lk__where_is(lk__world *w, const void *data, int64_t bytes)
{
    lk_shm *s = lk__shared_find(w, data, bytes);
    if (!s)
        return (lk__where){0};
    int64_t offset = (const unsigned char *)data - s->part[s->me].data;
    return (lk__where){1, s->context, s->number, offset};
}

void lk__where_arrive(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    lk__arrival *own = &a->rank[a->me]->arrival[c->call_number % 2];
    own->digest = c->digest;
    own->out = lk__where_is(a->shared->w, c->out, c->bytes);
    own->in = c->in == c->out ? own->out : lk__where_is(a->shared->w, c->in, c->bytes);
    lk__shm_area_publish_last(c, LK_ARRIVED, &own->call_number);
}

bool lk__where_shared(const lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    const lk__arrival *first = &a->rank[0]->arrival[c->call_number % 2];
    for (int i = 0; i < a->n; i++) {
        const lk__arrival *at = &a->rank[i]->arrival[c->call_number % 2];
        if (!at->in.shared || !at->out.shared || at->in.context != first->in.context ||
            at->in.number != first->in.number || at->out.context != first->out.context ||
            at->out.number != first->out.number)
            return false;
    }
    return true;
}

unsigned char *lk__where_see(const lk__shm_call *c, int i, const lk__where *where)
{
    lk_shm *s = lk__shared_get(c->area->shared->w, where->context, where->number);
    int world_rank = c->area->shared->part[i].world_rank, at = 0;
    while (at < s->n - 1 && s->part[at].world_rank != world_rank)
        at++;
    return s->part[at].data + where->offset;
}
