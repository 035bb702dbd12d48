/* min and max on the tape, which fold pairs, by each algorithm of allreduce. */
#include "harness.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/lockstep.h>

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, COUNT = 5 };

/* Element i is largest on rank i % RANKS, and smallest on the next one. */
static lk_status extremes(lk_comm *comm, void *arg)
{
    int rank = lk_comm_rank(comm);
    double value[COUNT], grad[COUNT] = {0};
    lk_tape *tape;
    lk_tensor *t, *g;
    lk_var x, y[2], sum;
    (void)arg;
    for (int i = 0; i < COUNT; i++)
        value[i] = i % RANKS == rank ? 10 + i : (i + 1) % RANKS == rank ? -10 - i : rank;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(COUNT), value, NULL, NULL, &t));
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(COUNT), grad, NULL, NULL, &g));
    ASSERT_OK(lk_leaf(tape, t, g, &x));
    lk_status st = lk_dist_allreduce(comm, x, LK_REDUCE_MAX, "x", &y[0]);
    if (st == LK_OK) {
        ASSERT_OK(lk_dist_allreduce(comm, x, LK_REDUCE_MIN, "x", &y[1]));
        for (int k = 0; k < 2; k++) {
            const lk_tensor *v = NULL;
            ASSERT_OK(lk_value(y[k], &v));
            for (int i = 0; i < COUNT; i++)
                ASSERT_TRUE(((const double *)lk_tensor_data(v))[i] == (k ? -10 - i : 10 + i));
        }
        ASSERT_OK(lk_affine(y[1], 3, 0, &y[1]));
        ASSERT_OK(lk_add(y[0], y[1], &sum));
        ASSERT_OK(lk_sum(sum, NULL, &sum));
        ASSERT_OK(lk_backward(tape, &(lk_seed){sum, NULL}, rank == 0, 0));
        for (int i = 0; i < COUNT; i++)
            ASSERT_TRUE(grad[i] == (i % RANKS == rank ? 1 : (i + 1) % RANKS == rank ? 3 : 0));
    }
    lk_tape_free(tape);
    lk_tensor_free(t);
    lk_tensor_free(g);
    return st;
}

TEST(every_algorithm_finds_the_extremes)
{
    lk_coll_info about;
    int n = 0;
    for (int i = 0; lk_coll_list(i, &about); i++) {
        if (strcmp(about.call, "allreduce") != 0 || about.alias || about.benchmark_only)
            continue;
        ASSERT_EQ(setenv("LK_ALLREDUCE", about.name, 1), 0);
        lk_status st = lk_run_local(RANKS, extremes, NULL);
        ASSERT_TRUE(st == LK_OK || st == LK_ENOTSUP); /* one that wants several nodes */
        n += st == LK_OK;
    }
    ASSERT_EQ(unsetenv("LK_ALLREDUCE"), 0);
    ASSERT_TRUE(n >= 5);
}
