/* What a step sends, beside what its plan says. */
#ifndef LK_TEST_PLANNED_CALLS_H
#define LK_TEST_PLANNED_CALLS_H

#include "planned_bytes.h"
#include "ranks.h"
#include "sent_bytes.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/train.h>

/* Calls of a rank and bytes that it gives to calls that all give as much to: of all communicators of a
 * mesh, each once. */
static inline sent_bytes calls_so_far(const lk_mesh *m, int64_t *calls)
{
    const lk_comm *of[LK_N_AXES + 5], *known;
    sent_bytes sum = {.all = 0};
    int n = 0;
    of[n++] = m->world;
    of[n++] = m->replicas;
    for (int a = 0; a < LK_N_AXES; a++)
        of[n++] = m->along[a];
    for (int d = 0; d < 3; d++)
        of[n++] = m->space_along[d];
    *calls = 0;
    for (int i = 0; i < n; i++) {
        known = of[i];
        for (int k = 0; k < i && known; k++)
            known = of[k] == of[i] ? NULL : known;
        *calls += known ? known->n_calls : 0;
        sum.all += known ? known->n_bytes : 0;
    }
    return sum;
}

/* Do two steps, and count what the second sends. */
static inline void planned_expect(lk_comm *comm, lk_trainer *t, const char *what)
{
    int64_t before, calls;
    ASSERT_OK(lk_trainer_step(t, NULL));
    const lk_mesh *mesh = lk_trainer_mesh(t);
    planned want = planned_of(lk_trainer_plan(t));
    int64_t joined = calls_so_far(mesh, &before).all;
    bytes_begin(comm);
    ASSERT_OK(lk_trainer_step(t, NULL));
    sent_bytes got = bytes_end(comm);
    joined = calls_so_far(mesh, &calls).all - joined;
    if (got.messages != want.fetched + want.sent || got.alltoall != want.moved ||
        joined != want.joined + want.gathered || calls - before != want.calls)
        TEST_FAIL(
            "%s, rank %d of %d: fetched and sent %lld, planned %lld; changed %lld, planned %lld; "
            "joined %lld, planned %lld; %lld calls, planned %lld",
            what, lk_comm_rank(comm), lk_comm_size(comm), (long long)got.messages,
            (long long)(want.fetched + want.sent), (long long)got.alltoall, (long long)want.moved,
            (long long)joined, (long long)(want.joined + want.gathered),
            (long long)(calls - before), (long long)want.calls);
}

/* What a trainer of one rank, which is like this one but for the layout, plans for this rank is what the rank
 * itself does. */
static inline void planned_alike(lk_comm *comm, const lk_trainer *t, lk_trainer *alone)
{
    const lk_mesh *m = lk_trainer_mesh(t);
    const lk_plan *own = lk_trainer_plan(t);
    lk_mesh_shape shape = {.data = m->n[LK_AXIS_DATA],
                           .ndim = m->space.ndim,
                           .features = m->n[LK_AXIS_FEATURES],
                           .stages = m->n[LK_AXIS_STAGES]};
    lk_plan *p = NULL;
    for (int d = 0; d < shape.ndim; d++)
        shape.space[d] = m->space.dim[d];
    ASSERT_OK(lk_trainer_plan_of(alone, &shape, lk_comm_size(comm), lk_comm_rank(comm), &p));
    ASSERT_EQ(lk_plan_calls(p), lk_plan_calls(own));
    ASSERT_EQ(lk_plan_bytes(p), lk_plan_bytes(own));
    ASSERT_EQ(p->memory.parameters, own->memory.parameters);
    ASSERT_EQ(p->memory.gradients, own->memory.gradients);
    lk_plan_free(p);
}

#endif /* LK_TEST_PLANNED_CALLS_H */
