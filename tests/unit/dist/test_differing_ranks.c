/* Ranks whose programs differ: a report that names both calls, and no hang. */
#include "sides.h"

#include <lockstep/extra/alloc.h>

#include <math.h>

/* Rank 0 sends, rank 1 receives and then goes without backward. */
static lk_status one_has_no_backward(struct side *s, int other)
{
    lk_var out, in, y, sum;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, &y));
    LK_TRY(lk_dist_wait(out, NULL));
    LK_TRY(lk_sum(y, NULL, &sum));
    if (lk_comm_rank(s->comm) == 0)
        LK_TRY(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
    return LK_OK;
}

/* Rank 0 gets a message in backward where rank 1 folds. */
static lk_status other_nodes(struct side *s, int other)
{
    lk_var out, y, sum;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &out));
        LK_TRY(lk_dist_wait(out, NULL));
    } else {
        LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "sum", &y));
        LK_TRY(lk_sum(y, NULL, &sum));
    }
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status sums_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    return LK_TRACE(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "sum", out));
}

/* Rank 1 makes the same call once more where rank 0 runs its segment again. */
static lk_status sums_once_more(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_recompute(s->tape, sums_inside, s, 1, &y));
    if (other == 0)
        LK_TRY(sums_inside(s->tape, s, &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status sends_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    LK_TRY(lk_dist_send(s->comm, s->x, 1, 1, "parcel", NULL));
    return LK_TRACE(lk_affine(s->x, 2, 0, out));
}

static lk_status receives_outside(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_comm_set_deadline(s->comm, 0.3));
    if (other == 1)
        LK_TRY(lk_recompute(s->tape, sends_inside, s, 1, &y));
    else
        LK_TRY(lk_dist_recv(s->tape, s->comm, 0, 1, LK_F64, lk_shape_of(s->x), "parcel", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

TEST(segments_that_are_not_alike_are_reported)
{
    ASSERT_FAILS(both(sums_once_more, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"sum\", f64 x 2, sum, recomputed) #2 but rank 1 calls "
                 "allreduce(\"sum\", f64 x 2, sum) #2");
    ASSERT_FAILS(both(receives_outside, 1), LK_ESTALL, "recv(\"parcel.grad\") for rank 1");
    ASSERT_FAILS(both(receives_outside, LARGE), LK_ESTALL, "a circle of waits");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* As many elements, but of another shape on rank 1. */
static lk_var turned(struct side *s)
{
    lk_var x = LK_NO_VAR;
    bool first = lk_comm_rank(s->comm) == 0;
    ASSERT_OK(lk_reshape(s->x, first ? LK_SHAPE(2, 3) : LK_SHAPE(3, 2), &x));
    return x;
}

static lk_status sums_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    return LK_TRACE(lk_dist_allreduce(s->comm, turned(s), LK_REDUCE_SUM, "turned", &y));
}

static lk_status gathers_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    return LK_TRACE(lk_dist_allgather(s->comm, turned(s), 0, "turned", &y));
}

static lk_status bcasts_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    return LK_TRACE(lk_dist_bcast(s->comm, turned(s), 0, "turned", &y));
}

/* Rank 0 alone has sums looked at. */
static lk_status looks_alone(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_comm_set_finite_check(s->comm, other == 1));
    return LK_TRACE(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "sum", &y));
}

static lk_status sums_no_number(struct side *s, int other)
{
    double x = other == 1 ? 1 : (double)NAN, y;
    return LK_TRACE(lk_allreduce(s->comm, &x, &y, 1, LK_F64, LK_REDUCE_SUM, "x"));
}

TEST(the_environment_asks_for_finite_sums)
{
    ASSERT_OK(both(sums_no_number, 1));
    ASSERT_EQ(setenv("LK_FINITE", "1", 1), 0);
    ASSERT_FAILS(both(sums_no_number, 1), LK_ENAN,
                 "rank 1 gives nan at index 0 of allreduce(\"x\", f64 x 1, sum)");
    ASSERT_EQ(unsetenv("LK_FINITE"), 0);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(shapes_that_differ_are_shown)
{
    ASSERT_FAILS(both(sums_other_shapes, 6), LK_EMISMATCH, "turned[2,3]");
    ASSERT_FAILS(both(gathers_other_shapes, 6), LK_EMISMATCH, "turned[*,3]");
    ASSERT_FAILS(both(bcasts_other_shapes, 6), LK_EMISMATCH, "turned[2,3]");
    ASSERT_FAILS(both(looks_alone, 1), LK_EMISMATCH,
                 "(rank 0 looks for numbers that are not finite, rank 1 does not: ");
}

TEST(different_programs_end_in_a_report)
{
    ASSERT_FAILS(both(one_has_no_backward, 1), LK_ESTALL, "(\"parcel.grad\")");
    ASSERT_FAILS(both(other_nodes, 1), LK_ESTALL, "stall");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status other_folds(struct side *s, int other)
{
    lk_var y;
    return LK_TRACE(
        lk_dist_allreduce(s->comm, s->x, other == 1 ? LK_REDUCE_MAX : LK_REDUCE_MIN, "x", &y));
}

/* Rank 0 alone asks for pairs, with the same operator and name. */
static lk_status plain_pairs(struct side *s, int other)
{
    lk_var y;
    lk_value_index pair[2] = {{{.f64 = 1}, 0}};
    if (other == 1)
        LK_TRY(lk_allreduce(s->comm, NULL, pair, 2, LK_F64, LK_REDUCE_MAXLOC, "x"));
    else
        LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_MAX, "x", &y));
    return LK_OK;
}

TEST(operators_are_shown_as_they_were_given)
{
    ASSERT_FAILS(both(other_folds, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"x\", f64 x 2, max) #1 but rank 1 calls allreduce(\"x\", "
                 "f64 x 2, min) #1");
    ASSERT_FAILS(both(plain_pairs, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"x\", f64 x 2, maxloc) #1 but rank 1 calls "
                 "allreduce(\"x\", f64 x 2, max) #1");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
