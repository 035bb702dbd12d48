/* The reports that docs/guide/differentiable.md shows are those that its mistakes get, on two ranks. */
#include "harness.h"

#include <lockstep/lockstep.h>

static char guide[100000];

/* The call fails, and its message is a line of the guide. */
#define ASSERT_IN_GUIDE(call)                                                 \
    do {                                                                      \
        char line_[600];                                                      \
        ASSERT_TRUE((call) != LK_OK);                                         \
        snprintf(line_, sizeof line_, "\n%s\n", lk_error_message());          \
        if (!strstr(guide, line_))                                            \
            TEST_FAIL("%s: not in the guide: %s", #call, lk_error_message()); \
        lk_error_clear();                                                     \
    } while (0)

/* What the guide shows are rank 0's reports. */
static lk_status mistakes(lk_comm *comm, void *arg)
{
    int rank = lk_comm_rank(comm), other = 1 - rank;
    lk_tape *tape;
    lk_var x, y, handle;
    (void)arg;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 3), 1, &x));
    if (rank == 0) {
        ASSERT_IN_GUIDE(lk_dist_send(comm, x, 0, 0, "x", NULL));
        ASSERT_IN_GUIDE(lk_dist_allreduce(comm, x, LK_REDUCE_XOR, "flags", &y));
    }
    ASSERT_OK(lk_dist_isend(comm, x, other, 0, "x", &handle));
    ASSERT_OK(lk_dist_recv(tape, comm, other, 0, LK_F64, LK_SHAPE(2, 3), "x", &y));
    if (rank == 0)
        ASSERT_IN_GUIDE(lk_backward(tape, NULL, 0, 0));
    ASSERT_OK(lk_dist_wait(handle, NULL));
    if (rank == 0)
        ASSERT_IN_GUIDE(lk_dist_wait(handle, NULL));
    lk_tape_free(tape);
    return LK_OK;
}

static lk_status too_few(lk_comm *comm, void *arg)
{
    lk_tape *tape;
    lk_var x, y;
    (void)arg;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 3), 1, &x));
    if (lk_comm_rank(comm) == 1)
        ASSERT_OK(lk_dist_send(comm, x, 0, 0, "hidden", NULL));
    else
        ASSERT_IN_GUIDE(lk_dist_recv(tape, comm, 1, 0, LK_F64, LK_SHAPE(3, 3), "hidden", &y));
    lk_tape_free(tape);
    return LK_OK;
}

/* Rank 1 goes on without backward. */
static lk_status no_backward(lk_comm *comm, void *arg)
{
    lk_tape *tape;
    lk_var x, y;
    (void)arg;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 3), 1, &x));
    ASSERT_OK(lk_dist_allreduce(comm, x, LK_REDUCE_SUM, "loss", &y));
    if (lk_comm_rank(comm) == 0)
        ASSERT_IN_GUIDE(lk_backward(tape, NULL, 0, 0));
    else
        ASSERT_IN_GUIDE(lk_barrier(comm, "next step"));
    lk_tape_free(tape);
    return LK_OK;
}

TEST(reports_are_those_that_the_guide_shows)
{
    FILE *file = fopen("docs/guide/differentiable.md", "r");
    ASSERT_TRUE(file);
    size_t n = fread(guide, 1, sizeof guide - 1, file);
    ASSERT_TRUE(n > 0 && n < sizeof guide - 1);
    ASSERT_EQ(fclose(file), 0);
    ASSERT_OK(lk_run_local(2, mistakes, NULL));
    ASSERT_OK(lk_run_local(2, too_few, NULL));
    ASSERT_OK(lk_run_local(2, no_backward, NULL));
}
