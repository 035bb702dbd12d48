/* allgather, shared: every rank copies the parts of the others, in memory that all of the node see.
 *
 *     short       each puts its part into its slot; all post and wait for all, then copy
 *     zero copy   all arrive; if all parts lie in the same lk_shm, each copies those of the others from
 *                 where they are and says so, for which all wait
 *     stages      otherwise each fills the stages of its rank area in turn, and empties those of the others
 *
 * Up to 16 ranks on one node, any counts.
 *
 * Cost: short alpha + 2 n beta, zero copy 2 alpha + n beta, stages the same with n + n/P, n the bytes
 * in all.
 */
#include "coll/parts.h"

#include <string.h>

enum { START, SHORT, ALL_ARRIVED, COPIED, STAGES };
enum { DEPTH = 2 }; /* stages of a rank area */

static double shared_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)(k->extent * k->elem);
    double waits = n <= LK_SLOT_BYTES ? 0.06 : 0.4;
    return waits * r->alpha * k->size + 0.6 * r->beta * n;
}

static int64_t part_bytes(const lk__shm_call *c, int i)
{
    return c->counts[i] * c->elem;
}

static int64_t largest(const lk__shm_call *c)
{
    int64_t most = 0;
    for (int i = 0; i < c->area->n; i++)
        most = part_bytes(c, i) > most ? part_bytes(c, i) : most;
    return most;
}

/* Bytes [from, from + LK_STAGE_BYTES) of the part of rank i, or what there is of them. */
static size_t piece_of(const lk__shm_call *c, int i, int64_t from)
{
    int64_t left = part_bytes(c, i) - from;
    return (size_t)(left < 0 ? 0 : left < LK_STAGE_BYTES ? left : LK_STAGE_BYTES);
}

static unsigned char *slot_data(const lk__shm_call *c, int i)
{
    lk__slot_of_call *slot = &c->area->rank[i]->slot[c->call_number % 2];
    return largest(c) <= LK_SLOT_SMALL ? slot->small : slot->large;
}

/* Where the part of rank i belongs. */
static unsigned char *place_of(const lk__shm_call *c, int i)
{
    return c->out + c->offsets[i] * c->elem;
}

static void start(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    int64_t mine = part_bytes(c, a->me);
    c->step = largest(c) <= LK_SLOT_BYTES ? SHORT : ALL_ARRIVED;
    if (c->step == SHORT) {
        if (mine > 0)
            memcpy(slot_data(c, a->me), c->in, (size_t)mine);
        lk__shm_area_put(c);
    } else {
        lk__arrival *own = &a->rank[a->me]->arrival[c->call_number % 2];
        own->digest = c->digest;
        own->in = lk__where_is(a->shared->w, c->in, mine);
        lk__shm_area_publish_last(c, LK_ARRIVED, &own->call_number);
    }
    lk__shm_area_show(c);
    if (mine > 0 && c->in != place_of(c, a->me))
        memcpy(place_of(c, a->me), c->in, (size_t)mine);
}

/* Whether every rank sees the parts of all that have one. */
static bool is_seen(const lk__shm_call *c)
{
    const lk__where *first = NULL;
    for (int i = 0; i < c->area->n; i++) {
        const lk__where *at = &c->area->rank[i]->arrival[c->call_number % 2].in;
        if (c->counts[i] == 0)
            continue;
        first = first ? first : at;
        if (!at->shared || at->context != first->context || at->number != first->number)
            return false;
    }
    return true;
}

/* All have arrived. */
static void all_arrived(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    c->step = STAGES;
    c->segment = -1;
    if (!is_seen(c))
        return;
    lk__shm_area_wake_early(c);
    for (int i = 0; i < a->n; i++) {
        const lk__where *at = &a->rank[i]->arrival[c->call_number % 2].in;
        if (i != a->me && c->counts[i] > 0)
            memcpy(place_of(c, i), lk__where_see(c, i, at), (size_t)part_bytes(c, i));
    }
    lk__shm_area_publish_last(c, LK_DONE, &a->rank[a->me]->done.value);
    c->step = COPIED;
}

static unsigned char *stage_of(const lk__shm_call *c, int i, int64_t s)
{
    uint64_t at = (c->area->stages + (uint64_t)s) % DEPTH;
    return c->area->rank[i]->stage + at * LK_STAGE_BYTES;
}

/* Fill a stage, once all have emptied what was in it before; c->next is from 0 to n. */
static lk_status put(lk__shm_call *c, int64_t s, bool *done)
{
    lk__shm_area *a = c->area;
    for (; c->next < a->n && s >= DEPTH; c->next++) {
        bool reached = true;
        if (c->next != a->me)
            LK_TRY(lk__shm_area_reached(c, c->next, &a->rank[c->next]->got.value,
                                        a->stages + (uint64_t)(s - DEPTH) + 1, &reached));
        if (!reached)
            return LK_OK;
    }
    size_t bytes = piece_of(c, a->me, s * LK_STAGE_BYTES);
    if (bytes > 0)
        memcpy(stage_of(c, a->me, s), c->in + s * LK_STAGE_BYTES, bytes);
    lk__shm_area_publish(c, &a->rank[a->me]->put.value, a->stages + (uint64_t)s + 1);
    *done = true;
    return LK_OK;
}

/* Empty those of the others, as they are filled; c->next is from n to 2 n. */
static lk_status get(lk__shm_call *c, int64_t s, bool *done)
{
    lk__shm_area *a = c->area;
    for (; c->next < 2 * a->n; c->next++) {
        int j = c->next - a->n;
        bool reached = true;
        if (j == a->me)
            continue;
        LK_TRY(lk__shm_area_reached(c, j, &a->rank[j]->put.value, a->stages + (uint64_t)s + 1,
                                    &reached));
        if (!reached)
            return LK_OK;
        size_t bytes = piece_of(c, j, s * LK_STAGE_BYTES);
        if (bytes > 0)
            memcpy(place_of(c, j) + s * LK_STAGE_BYTES, stage_of(c, j, s), bytes);
    }
    lk__shm_area_publish(c, &a->rank[a->me]->got.value, a->stages + (uint64_t)s + 1);
    *done = true;
    return LK_OK;
}

static lk_status stages_pass(lk__shm_call *c, bool *end)
{
    int64_t n = (largest(c) + LK_STAGE_BYTES - 1) / LK_STAGE_BYTES;
    LK_TRY(lk__shm_area_stages(c, n, put, get, end));
    c->area->stages += *end ? (uint64_t)n : 0;
    return LK_OK;
}

lk_status lk__gather_advance(lk__shm_call *c, bool *end)
{
    bool all = false;
    *end = false;
    if (c->step == START)
        start(c);
    if (c->step == SHORT) {
        LK_TRY(lk__shm_area_all(c, LK_PUT, end));
        for (int i = 0; i < c->area->n && *end; i++)
            if (i != c->area->me && c->counts[i] > 0)
                memcpy(place_of(c, i), slot_data(c, i), (size_t)part_bytes(c, i));
    }
    if (c->step == ALL_ARRIVED) {
        LK_TRY(lk__shm_area_all(c, LK_ARRIVED, &all));
        if (all)
            all_arrived(c);
    }
    if (c->step == STAGES)
        return stages_pass(c, end);
    return c->step == COPIED ? lk__shm_area_all(c, LK_DONE, end) : LK_OK;
}

static lk_status shared_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool end;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    if (c->in == c->out) /* in place */
        c->in = place_of(c, c->area->me);
    LK_TRY(lk__gather_advance(c, &end));
    if (end)
        lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_allgather_shared = {
    .call = LK_CALL_ALLGATHER,
    .name = "shared",
    .summary = "each copies from the others, in shared memory",
    .needs = "2 to 16 ranks of one node",
    .eligible = lk__shm_area_eligible,
    .cost = shared_cost,
    .advance = shared_advance};
