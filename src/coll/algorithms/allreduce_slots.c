/* allreduce, slots: each rank puts its vector into its slot of the shared area, and joins all slots
 * itself.
 *
 *     rank 0   put, post ─┐ ┌─ wait, join 0 1 2
 *     rank 1   put, post ─┼─┼─ wait, join 0 1 2        one flag, no second wait: the other slot of
 *     rank 2   put, post ─┘ └─ wait, join 0 1 2        each is for the next call
 *
 * The first 48 bytes are in the cache line of the flag.  Two ranks join into the slot of the other, so
 * that its lines move over instead of being shared, which would make the next store to them slow.
 *
 * Up to 16 ranks on one node, vectors of a rank up to 16 KiB in all; not f16 and bf16.
 *
 * Cost: alpha + P n beta + P n gamma, with an alpha of some 100 ns.
 */
#include "coll/shm/area.h"

#include <string.h>

static bool slots_eligible(const lk__coll_args *k, const char **why)
{
    if (!lk__shm_area_eligible(k, why))
        return false;
    *why = "the vectors of a rank do not fit into a slot of 16 KiB";
    for (int r = 0; r < k->size; r++)
        if (k->bytes >
            LK_SLOT_BYTES / (k->pieces == k->size ? 1 : lk__coll_args_subtrees(k, r, NULL, 0) + 1))
            return false;
    return true;
}

static double slots_cost(const lk__coll_args *k, const lk__rates *r)
{
    return 0.06 * r->alpha * k->size + (double)k->bytes * k->size * (0.3 * r->beta + r->gamma);
}

static unsigned char *slot_data(const lk__shm_call *c, int i)
{
    lk__slot_of_call *slot = &c->area->rank[i]->slot[c->call_number % 2];
    return c->count * c->elem * c->program->n_leaves <= LK_SLOT_SMALL ? slot->small : slot->large;
}

static void slots_put(lk__shm_call *c)
{
    unsigned char *slot = slot_data(c, c->area->me);
    for (int64_t i = 0; i < c->n_vectors; i++)
        memcpy(slot + i * c->bytes, c->in + i * c->stride, (size_t)c->bytes);
    lk__shm_area_put(c);
}

/* Two ranks with a vector each. */
static bool is_pair(const lk__shm_call *c)
{
    return c->area->n == 2 && c->program->n_leaves == 2;
}

/* An operator whose operands may change places. */
static bool is_even(const lk__shm_call *c)
{
    bool even = c->work != LK_F32 && c->work != LK_F64;
    return even || c->op == LK_REDUCE_SUM || c->op == LK_REDUCE_AVG || c->op == LK_REDUCE_PROD;
}

/* What is in the line of the flag is only read: its owner stores to it in any case. */
static lk_status small_join(const lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    _Alignas(8) unsigned char room[LK_SLOT_SMALL];
    const unsigned char *other = slot_data(c, 1 - a->me);
    memcpy(room, a->me == 0 ? c->in : other, (size_t)c->bytes);
    LK_TRY(lk__reduce_op_join(c->op, c->work, c->count, room, a->me == 0 ? other : c->in));
    LK_TRY(lk__reduce_op_finish(c->op, c->work, c->count, c->pieces, room));
    memcpy(c->out, room, (size_t)c->bytes);
    return LK_OK;
}

static lk_status slots_join(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    const lk__program *p = c->program;
    if (is_pair(c) && 2 * c->bytes <= LK_SLOT_SMALL)
        return small_join(c);
    if (is_pair(c) && is_even(c)) {
        unsigned char *other = slot_data(c, 1 - a->me);
        LK_TRY(lk__reduce_op_join(c->op, c->work, c->count, other, c->in));
        LK_TRY(lk__reduce_op_finish(c->op, c->work, c->count, c->pieces, other));
        memcpy(c->out, other, (size_t)c->bytes);
        return LK_OK;
    }
    lk__eval e;
    lk__shm_area_eval(c, 1, false, &e);
    e.out[0] = c->out;
    for (int i = 0; i < p->n_leaves; i++)
        e.leaf[i] = slot_data(c, p->rank[i]) + p->index[i] * c->bytes;
    return lk__program_run(&e, 0, c->count);
}

static lk_status slots_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool all = false;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    if (c->step == 0) {
        slots_put(c);
        lk__shm_area_show(c);
        c->step = 1;
    }
    LK_TRY(lk__shm_area_all(c, LK_PUT, &all));
    if (!all)
        return LK_OK;
    lk__shm_area_wake_early(c);
    LK_TRY(slots_join(c));
    lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_allreduce_slots = {
    .call = LK_CALL_ALLREDUCE,
    .name = "slots",
    .summary = "in shared memory, short vectors",
    .needs = "2 to 16 ranks of one node, 16 KiB from each at most, not f16 and bf16",
    .eligible = slots_eligible,
    .cost = slots_cost,
    .advance = slots_advance};
