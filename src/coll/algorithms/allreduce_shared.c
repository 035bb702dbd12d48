/* allreduce, shared: each rank joins its share of the vector, in memory that all of the node see.
 *
 *     arrive      say where the buffers are; wait for all
 *     zero copy   if all lie in the same lk_shm: join the share of all inputs, store the sum to
 *                 all outputs; say so, and wait for all
 *     swap        otherwise through the stages of the shared area, see swap.c
 *
 * With more ranks than cores, short vectors are joined by the last one that arrives, see last_arriver.h.
 *
 * Up to 16 ranks on one node with one subtree each; not f16 and bf16.
 *
 * Cost: 2 alpha + n beta + n gamma with an alpha of some 300 ns and nothing copied; swap copies 2 n
 * more within the node.
 */
#include "coll/shm/last_arriver.h"
#include "coll/shm/swap.h"

enum { ARRIVE, ALL_ARRIVED, SWAP, PART, LAST_ARRIVER };

static bool shared_eligible(const lk__coll_args *k, const char **why)
{
    if (!lk__shm_area_eligible(k, why))
        return false;
    *why = "it needs one subtree on each rank";
    for (int r = 0; r < k->size; r++)
        if (lk__coll_args_subtrees(k, r, NULL, 0) != 1)
            return false;
    return true;
}

static double shared_cost(const lk__coll_args *k, const lk__rates *r)
{
    return 0.4 * r->alpha * k->size + (double)k->bytes * (0.3 * r->beta + r->gamma);
}

/* Share `me` of `n` of all vectors. */
static lk_status zero_copy(lk__shm_call *c, int me, int n)
{
    lk__shm_area *a = c->area;
    lk__eval e;
    lk__shm_area_eval(c, a->n, true, &e);
    for (int i = 0; i < a->n; i++) {
        const lk__arrival *at = &a->rank[i]->arrival[c->call_number % 2];
        e.leaf[i] = lk__where_see(c, i, &at->in);
        e.out[i] = lk__where_see(c, i, &at->out);
        e.over = e.over && e.leaf[i] == e.out[i];
    }
    int64_t in_line = 64 / c->elem, lines = (c->count + in_line - 1) / in_line;
    lk_range mine = lk_range_split(lines, me, n);
    int64_t from = mine.first * in_line, end = (mine.first + mine.n) * in_line;
    end = end < c->count ? end : c->count;
    return from < end ? lk__program_run(&e, from, end - from) : LK_OK;
}

/* All have arrived: which way it goes. */
static lk_status all_arrived(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    c->next = 0;
    if (!lk__where_shared(c)) {
        c->step = SWAP;
        lk__swap_begin(c);
        return LK_OK;
    }
    if (lk__last_arriver_joins(c)) {
        c->step = LAST_ARRIVER;
        c->wakes = LK_WAKES_NONE; /* the last_arriver wakes all */
        if (lk__last_arriver_rank(c) == a->me) {
            LK_TRY(zero_copy(c, 0, 1));
            lk__shm_area_publish(c, &a->rank[0]->joined.value, c->call_number);
        }
        return LK_OK;
    }
    lk__shm_area_wake_early(c);
    LK_TRY(zero_copy(c, a->me, a->n));
    lk__shm_area_publish_last(c, LK_DONE, &a->rank[a->me]->done.value);
    c->step = PART;
    return LK_OK;
}

static lk_status shared_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool all = false;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    if (c->step == ARRIVE) {
        if (lk__last_arriver_joins(c))
            lk__last_arriver_arrive(c);
        lk__where_arrive(c);
        lk__shm_area_show(c);
        c->step = ALL_ARRIVED;
    }
    if (c->step == ALL_ARRIVED) {
        LK_TRY(lk__shm_area_all(c, LK_ARRIVED, &all));
        LK_TRY(all ? all_arrived(c) : LK_OK);
    }
    if (c->step == PART)
        LK_TRY(lk__shm_area_all(c, LK_DONE, &all));
    else if (c->step == LAST_ARRIVER)
        LK_TRY(lk__shm_area_reached(c, lk__last_arriver_rank(c), &c->area->rank[0]->joined.value,
                                    c->call_number, &all));
    else if (c->step == SWAP)
        LK_TRY(lk__swap_advance(c, &all));
    else
        all = false;
    if (all)
        lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_allreduce_shared = {
    .call = LK_CALL_ALLREDUCE,
    .name = "shared",
    .summary = "in shared memory, a share for each rank",
    .needs = "2 to 16 ranks of one node with a subtree each, not f16 and bf16",
    .eligible = shared_eligible,
    .cost = shared_cost,
    .advance = shared_advance};
