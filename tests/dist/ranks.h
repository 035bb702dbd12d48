/* Tests with ranks: each is a function of a communicator `comm`, run by every rank.
 *
 *     RANKS_TEST(every_rank_has_the_sum)
 *     {
 *         ASSERT_OK(lk_allreduce(comm, ...));
 *     }
 *
 * adds itself to the program's list, as TEST() does (harness.h).  Started plainly, the program runs
 * every test on 1, 2, 3, 4, 5, 7 and 8 local ranks; with TEST_BRIEF in the environment, as `make test`
 * does under sanitizers, on 1, 3 and 4, and alike cases once; with TEST_RANKS, a list of numbers, on
 * those.
 * Started by tests/dist/run.sh (TEST_TRANSPORT=mpi) it is one rank of as many as the launcher
 * started, and each test gets a communicator of its own.  A check that fails ends all ranks.
 */
#ifndef LK_TEST_RANKS_H
#define LK_TEST_RANKS_H

#include "harness.h"

#include <lockstep/comm.h>
#include <lockstep/extra/alloc.h>

#define RANKS_TEST(fn)             \
    static void fn(lk_comm *comm); \
    TEST_ADD(fn, on_rank)          \
    static void fn(lk_comm *comm)

static inline bool ranks_brief(void)
{
    return getenv("TEST_BRIEF") != NULL;
}

#endif /* LK_TEST_RANKS_H */
