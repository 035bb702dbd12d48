/* Communication on the tape: every node's samples against differences of the sum of all ranks' losses,
 * first and second derivatives, and the adjoint identity; see dist_check.h. */
#include "ranks.h"

#include <lockstep/extra/dist_check.h>

RANKS_TEST(gradients_are_those_of_the_sum_of_all_losses)
{
    int size = lk_comm_size(comm);
    if (size == 4 || size == 7 || (TEST_SLOWNESS > 1 && size > 3))
        return; /* the halves of 8 have 4, and each takes its time */
    for (int i = 0; lk_dist_checks[i]; i++) {
        lk_gradcheck_result r;
        ASSERT_OK(lk_gradcheck_dist(comm, lk_dist_checks[i], 1, 1e-8, &r));
        if (!r.pass)
            TEST_FAIL("%s on %d ranks: %s", lk_dist_checks[i]->name, size, r.worst);
        ASSERT_TRUE(r.samples > 0 && r.first >= 0 && r.second >= 0 && r.single >= 0);
    }
}

static lk_shape no_shape(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)s;
    (void)rank;
    (void)size;
    (void)i;
    return LK_SHAPE(2);
}

static lk_status give_nothing(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    (void)s;
    (void)in;
    (void)out;
    return lk_barrier(comm, "nothing");
}

RANKS_TEST(what_cannot_be_checked_is_refused)
{
    lk_gradcheck_result r;
    const lk_dist_sample none[] = {{0}};
    const lk_dist_sample nothing[] = {
        {.name = "nothing", .n_in = 1, .n_out = 1, .shape = no_shape, .run = give_nothing}, {0}};
    const lk_dist_sample many[] = {{.name = "many", .n_in = 7, .n_out = 1}, {0}};
    lk_dist_check check = {.name = "none", .samples = none};
    ASSERT_FAILS(lk_gradcheck_dist(comm, &check, 1, 1e-6, &r), LK_EINVAL, "has no samples");
    ASSERT_FAILS(lk_gradcheck_dist(NULL, &check, 1, 1e-6, &r), LK_EINVAL, "comm is NULL");
    check.samples = nothing;
    ASSERT_FAILS(lk_gradcheck_dist(comm, &check, 1, 1e-6, &r), LK_EINVAL,
                 "gives no rank an output with a gradient");
    check.samples = many;
    ASSERT_FAILS(lk_gradcheck_dist(comm, &check, 1, 1e-6, &r), LK_EINVAL, "has 7 inputs");
}
