/* bcast, shared: the others copy from where the root has the data, in memory that all of the node see.
 *
 *     short       the root puts it into its slot; all post and wait for all, then copy
 *     zero copy   all arrive; if all buffers lie in the same lk_shm, the others copy from the root's
 *                 and say so, for which the root waits
 *     stages      otherwise the root fills the stages of its rank area in turn, and the others empty them
 *
 * All wait for all at first: calls in the shared area rely on it that none is two calls ahead of
 * another.
 *
 * Up to 16 ranks on one node.
 *
 * Cost: short alpha + 2 n beta, zero copy 2 alpha + n beta, stages the same with 2 n, in part at once.
 */
#include "coll/shm/area.h"

#include <string.h>

enum { START, SHORT, ALL_ARRIVED, COPIED, STAGES };

static double shared_cost(const lk__coll_args *k, const lk__rates *r)
{
    double waits = k->bytes <= LK_SLOT_BYTES ? 0.06 : 0.4;
    return waits * r->alpha * k->size + 0.6 * r->beta * (double)k->bytes;
}

static unsigned char *slot_data(const lk__shm_call *c)
{
    lk__slot_of_call *slot = &c->area->rank[c->root]->slot[c->call_number % 2];
    return c->bytes <= LK_SLOT_SMALL ? slot->small : slot->large;
}

static void start(lk__shm_call *c)
{
    bool root = c->area->me == c->root;
    c->step = c->bytes <= LK_SLOT_BYTES ? SHORT : ALL_ARRIVED;
    if (c->step == SHORT) {
        if (root && c->bytes > 0)
            memcpy(slot_data(c), c->out, (size_t)c->bytes);
        lk__shm_area_put(c);
    } else {
        lk__where_arrive(c);
    }
    lk__shm_area_show(c);
}

/* All have arrived. */
static void all_arrived(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    c->step = STAGES;
    c->segment = 0;
    if (!lk__where_shared(c))
        return;
    c->step = COPIED;
    if (a->me == c->root)
        return;
    const lk__where *where = &a->rank[c->root]->arrival[c->call_number % 2].out;
    memcpy(c->out, lk__where_see(c, c->root, where), (size_t)c->bytes);
    lk__shm_area_publish(c, &a->rank[a->me]->done.value, c->call_number);
}

/* Whether the stage of segment s can be used: it is full, or for the root, empty on all others. */
static lk_status stage_ready(lk__shm_call *c, int64_t s, bool *ready)
{
    lk__shm_area *a = c->area;
    *ready = true;
    if (a->me != c->root)
        return lk__shm_area_reached(c, c->root, &a->rank[c->root]->put.value,
                                    a->stages + (uint64_t)s + 1, ready);
    for (; s >= 2 && c->next < a->n; c->next++) {
        if (c->next != a->me)
            LK_TRY(lk__shm_area_reached(c, c->next, &a->rank[c->next]->got.value,
                                        a->stages + (uint64_t)s - 1, ready));
        if (!*ready)
            return LK_OK;
    }
    c->next = 0;
    return LK_OK;
}

static lk_status stages_pass(lk__shm_call *c, bool *end)
{
    lk__shm_area *a = c->area;
    bool root = a->me == c->root;
    lk__rank_area *own = a->rank[a->me];
    int64_t n = (c->bytes + LK_STAGE_BYTES - 1) / LK_STAGE_BYTES;
    for (; c->segment < n; c->segment++) {
        bool ready;
        LK_TRY(stage_ready(c, c->segment, &ready));
        if (!ready)
            return LK_OK;
        uint64_t number = a->stages + (uint64_t)c->segment;
        int64_t from = c->segment * LK_STAGE_BYTES, left = c->bytes - from;
        unsigned char *stage = a->rank[c->root]->stage + number % 2 * LK_STAGE_BYTES;
        size_t bytes = (size_t)(left < LK_STAGE_BYTES ? left : LK_STAGE_BYTES);
        memcpy(root ? stage : c->out + from, root ? c->out + from : stage, bytes);
        lk__shm_area_publish(c, root ? &own->put.value : &own->got.value, number + 1);
    }
    a->stages += (uint64_t)n;
    *end = true;
    return LK_OK;
}

static lk_status shared_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool all = false, root = c->area->me == c->root;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    if (c->step == START)
        start(c);
    if (c->step == SHORT) {
        LK_TRY(lk__shm_area_all(c, LK_PUT, &all));
        if (all && !root && c->bytes > 0)
            memcpy(c->out, slot_data(c), (size_t)c->bytes);
    } else if (c->step == ALL_ARRIVED) {
        LK_TRY(lk__shm_area_all(c, LK_ARRIVED, &all));
        if (all)
            all_arrived(c);
        all = false;
    }
    if (c->step == COPIED && root)
        LK_TRY(lk__shm_area_all(c, LK_DONE, &all));
    else if (c->step == COPIED)
        all = true;
    else if (c->step == STAGES)
        LK_TRY(stages_pass(c, &all));
    if (all)
        lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_bcast_shared = {
    .call = LK_CALL_BCAST,
    .name = "shared",
    .summary = "the others copy from the root, in shared memory",
    .needs = "2 to 16 ranks of one node",
    .eligible = lk__shm_area_eligible,
    .cost = shared_cost,
    .advance = shared_advance};
