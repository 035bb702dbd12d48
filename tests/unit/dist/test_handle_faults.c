/* Handles, resets and communicators in the wrong order: named, and told to all that would wait. */
#include "sides.h"

#include <lockstep/extra/alloc.h>

static lk_status waits_twice(struct side *s, int other)
{
    lk_var out, in;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, NULL));
    LK_TRY(lk_dist_wait(out, NULL));
    return LK_TRACE(lk_dist_wait(in, NULL));
}

static lk_status waits_for_no_handle(struct side *s, int other)
{
    (void)other;
    return LK_TRACE(lk_dist_wait(s->x, NULL));
}

static lk_status waits_for_nothing(struct side *s, int other)
{
    (void)s;
    (void)other;
    return LK_TRACE(lk_dist_wait(LK_NO_VAR, NULL));
}

static lk_status waits_for_any_of_the_same(struct side *s, int other)
{
    lk_var out, in;
    int which;
    LK_TRY(begin(s, other, &out, &in));
    return LK_TRACE(lk_dist_waitany((lk_var[]){in, out, in}, 3, &which, NULL));
}

static lk_status forgets_to_wait(struct side *s, int other)
{
    lk_var out, in, y, sum;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    return LK_TRACE(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
}

/* Rank 1 gets the same report in whatever it does next. */
static lk_status resets_too_early(struct side *s, int other)
{
    lk_var out, in;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &out));
        lk_tape_reset(s->tape);
    } else {
        LK_TRY(lk_dist_irecv(s->tape, s->comm, other, 2, LK_F64, LK_SHAPE(1), "never", &in));
        LK_TRY(lk_dist_wait(in, NULL));
    }
    return LK_TRACE(lk_dist_barrier(s->tape, s->comm, "next"));
}

static lk_status frees_the_communicator(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var y, sum;
    (void)other;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    lk_status st = lk_dist_allreduce(twin, s->x, LK_REDUCE_SUM, "weights", &y);
    lk_comm_close(twin);
    LK_TRY(st);
    LK_TRY(lk_sum(y, NULL, &sum));
    return LK_TRACE(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
}

static lk_status uses_a_freed_communicator(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var y;
    (void)other;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    lk_status st = lk_dist_barrier(s->tape, twin, "b");
    lk_comm_close(twin);
    LK_TRY(st);
    return LK_TRACE(lk_dist_allreduce(twin, s->x, LK_REDUCE_SUM, "weights", &y));
}

/* Rank 0's large message is under way when its communicator goes; rank 1 wants it later. */
static lk_status frees_under_way(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var h = LK_NO_VAR;
    lk_status st;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    if (lk_comm_rank(s->comm) == 0) {
        st = lk_dist_isend(twin, s->x, other, 1, "parcel", &h);
        lk_comm_close(twin);
        LK_TRY(st);
        LK_TRY(lk_dist_wait(h, NULL));
    } else {
        LK_TRY_TO(done,
                  lk_dist_irecv(s->tape, twin, other, 1, LK_F64, lk_shape_of(s->x), "parcel", &h));
        LK_TRY_TO(done, lk_dist_wait(h, NULL));
        LK_TRY_TO(done, lk_dist_barrier(s->tape, twin, "next"));
    done:
        lk_comm_close(twin);
        LK_TRY(st);
    }
    return LK_OK;
}

static lk_status sends_fewer(struct side *s, int other)
{
    lk_var h;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &h));
    } else {
        LK_TRY(lk_dist_irecv(s->tape, s->comm, other, 1, LK_F64, LK_SHAPE(3), "parcel", &h));
    }
    return LK_TRACE(lk_dist_wait(h, NULL));
}

static lk_status begins_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    return LK_TRACE(lk_dist_isend(s->comm, s->x, 1 - lk_comm_rank(s->comm), 1, "parcel", out));
}

static lk_status waits_outside_the_segment(struct side *s, int other)
{
    lk_var h;
    (void)other;
    LK_TRY(lk_recompute(s->tape, begins_inside, s, 1, &h));
    return LK_TRACE(lk_dist_wait(h, NULL));
}

TEST(handles_are_waited_for_once)
{
    ASSERT_FAILS(both(waits_twice, 1), LK_ESTATE, "irecv(\"parcel\") from rank");
    ASSERT_FAILS(both(waits_twice, 1), LK_ESTATE, "which was waited for before");
    ASSERT_FAILS(both(forgets_to_wait, 1), LK_ESTATE, "before isend(\"parcel\") to rank");
    ASSERT_FAILS(both(waits_for_no_handle, 1), LK_ESTATE, "is no handle");
    ASSERT_FAILS(both(waits_for_nothing, 1), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(both(waits_for_any_of_the_same, 1), LK_EINVAL, "handles 0 and 2 are the same");
    ASSERT_FAILS(both(waits_outside_the_segment, 1), LK_ESTATE, "another segment");
    ASSERT_FAILS(both(sends_fewer, 2), LK_ESHAPE,
                 "irecv(\"parcel\") from rank 0 of f64[3]: it has sent f64[2]");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_reset_with_messages_under_way_is_told_to_all)
{
    for (int n = 1; n <= LARGE; n += LARGE - 1)
        ASSERT_FAILS(both(resets_too_early, n), LK_ESTATE,
                     "rank 0 has reset the tape before it has waited for isend(\"parcel\") to "
                     "rank 1");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_communicator_freed_too_early_is_named)
{
    ASSERT_FAILS(both(frees_the_communicator, 1), LK_ESTATE,
                 "backward of allreduce(\"weights\"), whose communicator was freed");
    ASSERT_FAILS(both(uses_a_freed_communicator, 1), LK_ESTATE, "the communicator was freed");
    ASSERT_FAILS(both(frees_under_way, LARGE), LK_ESTATE,
                 "isend(\"parcel\") to rank 1, whose communicator was freed");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
