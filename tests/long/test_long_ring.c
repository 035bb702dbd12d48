/* mpi4torch's ring of ten million numbers, on 1, 2, 3, 5 and 7 ranks. */
#include "dist/nodes/oracles.h"

static lk_status ring(lk_comm *comm, void *arg)
{
    (void)arg;
    check_ring(comm, 10000000);
    return LK_OK;
}

TEST(ten_million_numbers_go_round_and_so_do_their_gradients)
{
    const int sizes[] = {1, 2, 3, 5, 7};
    for (int i = 0; i < LK_COUNT(sizes); i++) {
        alarm(10 * TEST_TIMEOUT_S);
        ASSERT_OK(lk_run_local(sizes[i], ring, NULL));
    }
}
