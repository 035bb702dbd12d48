/* Planted faults are found: by the gradient check and by random programs. */
#include "faulty.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/dist_check.h>

/* Short where ranks are expected to wait for ever, and nowhere else: others may be slow. */
static double deadline(void)
{
    return planted == PRUNED || planted == SWAPPED ? 2 : 20 * TEST_SLOWNESS;
}

/* ---- by the gradient check ---- */

static lk_shape two(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)s;
    (void)rank;
    (void)size;
    (void)i;
    return LK_SHAPE(2);
}

static lk_status mean(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    (void)s;
    return LK_TRACE(faulty_allreduce(comm, in[0], LK_REDUCE_AVG, "mean", out));
}

/* Odd ranks do not use what they get. */
static lk_status unused(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var sum;
    (void)s;
    LK_TRY(faulty_allreduce(comm, in[0], LK_REDUCE_SUM, "sum", &sum));
    out[0] = lk_comm_rank(comm) % 2 ? in[0] : sum;
    return LK_OK;
}

/* The next rank takes the second message first. */
static lk_status crossed(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm);
    lk_var a = in[0], b = in[1];
    (void)s;
    for (int i = 0; rank + 1 < lk_comm_size(comm) && i < 2; i++)
        LK_TRY(faulty_send(comm, in[i], rank + 1, i, "crossed", NULL));
    if (rank > 0) {
        LK_TRY(faulty_recv(in[0].tape, comm, rank - 1, 1, lk_dtype_of(b), LK_SHAPE(2), "b", &b));
        LK_TRY(faulty_recv(in[0].tape, comm, rank - 1, 0, lk_dtype_of(a), LK_SHAPE(2), "a", &a));
    }
    LK_TRY(lk_square(b, &b));
    return LK_TRACE(lk_mul(a, b, out));
}

static const lk_dist_sample samples[] = {
    {.name = "mean", .n_in = 1, .n_out = 1, .shape = two, .run = mean, .is_linear = true},
    {.name = "unused", .n_in = 1, .n_out = 1, .shape = two, .run = unused, .is_linear = true},
    {.name = "crossed", .n_in = 2, .n_out = 1, .shape = two, .run = crossed},
    {0}};

static lk_status check(lk_comm *comm, void *arg)
{
    lk_gradcheck_result r;
    const lk_dist_check all = {.name = "planted", .samples = samples};
    LK_TRY(lk_comm_set_deadline(comm, deadline()));
    LK_TRY(lk_gradcheck_dist(comm, &all, 1, 1e-6, &r));
    if (lk_comm_rank(comm) == 0)
        memcpy(arg, &r, sizeof r);
    return LK_OK;
}

static void check_finds(enum fault fault, const char *where)
{
    for (int ranks = 2; ranks <= 5; ranks++) {
        lk_gradcheck_result r = {0};
        planted = fault;
        ASSERT_OK(lk_run_local(ranks, check, &r));
        if (r.pass || !strstr(r.worst, where))
            TEST_FAIL("fault %d on %d ranks: pass is %d, \"%s\"", fault, ranks, r.pass, r.worst);
    }
}

TEST(the_check_passes_without_a_fault)
{
    lk_gradcheck_result r = {0};
    planted = NO_FAULT;
    ASSERT_OK(lk_run_local(4, check, &r));
    ASSERT_TRUE(r.pass);
}

TEST(the_check_finds_an_adjoint_without_its_scale)
{
    check_finds(SCALE, "(mean");
}

TEST(the_check_finds_swapped_message_ids)
{
    check_finds(SWAPPED, "(crossed");
}

/* The other ranks are in another call, or wait. */
TEST(the_check_finds_a_pruned_node)
{
    lk_gradcheck_result r = {0};
    planted = PRUNED;
    lk_status st = lk_run_local(2, check, &r);
    if (st != LK_EMISMATCH && st != LK_ESTALL)
        TEST_FAIL("%s: %s", lk_status_text(st), lk_error_message());
    ASSERT_TRUE(strstr(lk_error_message(), "faulty"));
    lk_error_clear();
}

/* ---- by random programs ---- */

/* The number of programs until one fails; 0: none did. */
static int programs_until_failure(enum fault fault, int most, char *why, size_t n)
{
    static struct program p;
    planted = fault;
    for (int seed = 1; seed <= most; seed++) {
        program_make(&p, (uint64_t)seed, 2 + seed % 4);
        if (!program_is_right(&p, &faulty_calls, deadline(), why, n))
            return seed;
    }
    return 0;
}

TEST(programs_pass_without_a_fault)
{
    char why[512];
    if (programs_until_failure(NO_FAULT, TEST_SLOWNESS > 1 ? 20 : 100, why, sizeof why) > 0)
        TEST_FAIL("%s", why);
}

TEST(programs_find_every_fault)
{
    static const enum fault faults[] = {SCALE, PRUNED, SWAPPED};
    char why[512];
    for (int i = 0; i < 3; i++)
        if (programs_until_failure(faults[i], 400, why, sizeof why) == 0)
            TEST_FAIL("no program finds fault %d", faults[i]);
}

/* What is left of a failing program still fails, and is shorter. */
TEST(a_failing_program_shrinks)
{
    static struct program p, small;
    char why[512];
    int dropped = 0, seed = programs_until_failure(SCALE, 400, why, sizeof why);
    program_make(&p, (uint64_t)seed, 2 + seed % 4);
    small = p;
    program_shrink(&small, &faulty_calls, deadline());
    for (int i = 0; i < small.n_groups; i++)
        dropped += small.dropped[i];
    ASSERT_TRUE(dropped > 0);
    ASSERT_TRUE(!program_is_right(&small, &faulty_calls, deadline(), why, sizeof why));
    planted = NO_FAULT;
    ASSERT_TRUE(program_is_right(&small, &faulty_calls, deadline(), why, sizeof why));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
