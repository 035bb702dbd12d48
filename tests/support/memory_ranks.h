/* One rank runs out of memory, in each allocation of its work in turn, and does not go away.
 *
 * It must get LK_ENOMEM, and the others, before any deadline, an error that names it; nothing is left.
 */
#ifndef LK_TEST_MEMORY_RANKS_H
#define LK_TEST_MEMORY_RANKS_H

#include "base/memory/alloc_fault.h"
#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <stdatomic.h>
#include <stdbool.h>

enum { MEMORY_RANKS = 4 }; /* at most */

/* What ranks do.  `begin` makes what the work needs, without a fault; `end` takes also what `begin` has
 * not made. */
struct memory_work {
    const char *name;
    lk_status (*run)(void *side);
};

struct memory_sides {
    int64_t size; /* of a side */
    lk_status (*begin)(lk_comm *comm, void *side);
    void (*end)(void *side);
};

/* One run: rank `victim` fails in its allocation number `at`. */
struct memory_run {
    const struct memory_work *work;
    const struct memory_sides *sides;
    int victim;
    int64_t at, left; /* left: as of lk__alloc_fail_here() */
    atomic_int begun, returned;
    lk_status status[MEMORY_RANKS];
    char message[MEMORY_RANKS][400];
};

/* Wait for the other ranks without a message. */
static inline void memory_meet(atomic_int *come, int size)
{
    atomic_fetch_add(come, 1);
    while (atomic_load(come) < size)
        usleep(100);
}

static inline lk_status memory_rank(lk_comm *comm, void *arg)
{
    struct memory_run *run = arg;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    void *side = calloc(1, (size_t)run->sides->size);
    ASSERT_TRUE(side);
    ASSERT_OK(lk_comm_set_deadline(comm, 20 * TEST_SLOWNESS));
    ASSERT_OK(run->sides->begin(comm, side));
    memory_meet(&run->begun, size);
    (void)lk__alloc_fail_here(rank == run->victim ? run->at : 0);
    lk_status st = run->work->run(side);
    int64_t left = lk__alloc_fail_here(0);
    if (rank == run->victim)
        run->left = left;
    if (st == LK_OK) /* what failed elsewhere may have been behind the last exchange */
        st = lk_barrier(comm, "end");
    run->status[rank] = st;
    snprintf(run->message[rank], sizeof run->message[rank], "%s",
             st == LK_OK ? "" : lk_error_message());
    lk_error_clear();
    memory_meet(&run->returned, size); /* it is still there when the others find out */
    run->sides->end(side);
    free(side);
    return LK_OK;
}

/* Whether a rank got an error that names the victim: its own report, or what all get alike where
 * memory is shared or the ranks agree. */
static inline bool memory_told(const struct memory_run *run, int rank)
{
    char alone[64], shared[64], agreed[64];
    const char *message = run->message[rank];
    snprintf(alone, sizeof alone, "rank %d failed: out of memory: no memory for", run->victim);
    snprintf(shared, sizeof shared, "rank %d could not get the memory", run->victim);
    snprintf(agreed, sizeof agreed, "rank %d: no memory for", run->victim);
    return (run->status[rank] == LK_ECOMM && strstr(message, alone)) ||
           (run->status[rank] == LK_ENOMEM && (strstr(message, shared) || strstr(message, agreed)));
}

/* Returns how many allocations the victim's work makes. */
static inline int64_t memory_runs_out(const struct memory_work *work,
                                      const struct memory_sides *sides, int size, int victim)
{
    int64_t live = lk_alloc_stats_now().live_blocks;
    for (int64_t at = 1;; at++) {
        struct memory_run run = {.work = work, .sides = sides, .victim = victim, .at = at};
        ASSERT_OK(lk_run_local(size, memory_rank, &run));
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
        bool all = true;
        for (int r = 0; r < size; r++) {
            all = all && run.status[r] == LK_OK;
            if (run.left > 0 && run.status[r] != LK_OK)
                TEST_FAIL("%s on %d ranks without a fault: rank %d gets %s: %s", work->name, size,
                          r, lk_status_text(run.status[r]), run.message[r]);
        }
        if (run.left > 0) /* it makes fewer */
            return at - 1;
        for (int r = 0; r < size && !all; r++) /* unless the work could do without */
            if (r == victim ? run.status[r] != LK_ENOMEM : !memory_told(&run, r))
                TEST_FAIL("%s on %d ranks, allocation %lld of rank %d: rank %d gets %s: %s",
                          work->name, size, (long long)at, victim, r, lk_status_text(run.status[r]),
                          run.message[r]);
    }
}

/* On few ranks, each number with another victim; where that is slow, on 3 alone. */
static inline void memory_runs_out_on_few(const struct memory_work *work, int n,
                                          const struct memory_sides *sides)
{
    for (int i = 0; i < n; i++) {
        (void)memory_runs_out(&work[i], sides, 3, 1);
        if (TEST_SLOWNESS > 1)
            continue;
        ASSERT_TRUE(memory_runs_out(&work[i], sides, 2, 0) > 0);
        ASSERT_TRUE(memory_runs_out(&work[i], sides, 2, 1) > 0);
        (void)memory_runs_out(&work[i], sides, 4, 0);
    }
}

#endif /* LK_TEST_MEMORY_RANKS_H */
