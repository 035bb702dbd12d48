/* What a plan says that a rank sends in a step: calls without fetches and messages between stages, and bytes of
 * each kind. */
#ifndef LK_TEST_PLANNED_BYTES_H
#define LK_TEST_PLANNED_BYTES_H

#include <lockstep/extra/plan.h>

#include <string.h>

typedef struct planned {
    int64_t calls, fetched, moved, joined, gathered, sent;
} planned;

/* A mean over positions goes by alltoall in forward, and comes back by allgather. */
static inline bool is_mean(const lk_transfer *t)
{
    return strncmp(t->what, "global_avgpool", 14) == 0;
}

static inline planned planned_of(const lk_plan *p)
{
    planned sum = {.calls = 0};
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        sum.calls += t->kind == LK_FETCHED || t->kind == LK_SENT ? 0 : t->calls;
        if (t->kind == LK_FETCHED)
            sum.fetched += t->bytes;
        else if (t->kind == LK_SENT)
            sum.sent += t->bytes;
        else if (t->kind == LK_CHANGED || (is_mean(t) && t->when == LK_IN_FORWARD))
            sum.moved += t->bytes;
        else if (t->kind == LK_GATHERED || is_mean(t))
            sum.gathered += t->bytes;
        else
            sum.joined += t->bytes;
    }
    return sum;
}

#endif /* LK_TEST_PLANNED_BYTES_H */
