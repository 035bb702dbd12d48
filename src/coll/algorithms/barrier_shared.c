/* barrier, shared: every rank posts the flag of its slot, and waits for those of all.
 *
 * Up to 16 ranks on one node.
 *
 * Cost: alpha, of some 100 ns.
 */
#include "coll/shm/area.h"

static double shared_cost(const lk__coll_args *k, const lk__rates *r)
{
    return 0.06 * r->alpha * k->size;
}

static lk_status shared_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool all = false;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    if (c->step == 0) {
        lk__shm_area_put(c);
        lk__shm_area_show(c);
        c->step = 1;
    }
    LK_TRY(lk__shm_area_all(c, LK_PUT, &all));
    if (all)
        lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_barrier_shared = {.call = LK_CALL_BARRIER,
                                          .name = "shared",
                                          .summary = "flags in shared memory",
                                          .needs = "2 to 16 ranks of one node",
                                          .eligible = lk__shm_area_eligible,
                                          .cost = shared_cost,
                                          .advance = shared_advance};
