/* The times of schedules: bubbles are those of theory, exactly, and every action begins when it can. */
#include "pipelines.h"

#include <lockstep/extra/alloc.h>

enum { F = 1, B = 1, W = 1 };

static lk_pipeline_times *times_of(const lk_pipeline *p, lk_stage_times each, bool rendezvous)
{
    lk_stage_times stage[MOST_STAGES];
    lk_pipeline_times *times = NULL;
    for (int s = 0; s < p->stages; s++)
        stage[s] = each;
    ASSERT_OK(lk_pipeline_times_new(p, stage, rendezvous, &times));
    return times;
}

/* The time of a step where all computations take 1. */
static int64_t total_of(lk_pipeline_spec spec, int64_t message, bool rendezvous)
{
    lk_pipeline *p = NULL;
    ASSERT_OK(lk_pipeline_new(&spec, &p));
    lk_pipeline_times *times = times_of(p, (lk_stage_times){F, B + W, B, W, message}, rendezvous);
    int64_t total = times->total, each = spec.kind == LK_PIPELINE_FORWARD ? F : F + B + W;
    ASSERT_EQ(times->busy, each * spec.microbatches);
    ASSERT_TRUE(times->bubble ==
                (times->busy == 0 ? 0 : (double)(total - times->busy) / (double)times->busy));
    lk_pipeline_times_free(times);
    lk_pipeline_free(p);
    return total;
}

/* Bubbles of (p - 1) / m, and of zb1p max(p - 1, 2 p - 1 - m) / 3 m, which is the least that there can be. */
TEST(bubbles_are_those_of_theory)
{
    for (int64_t p = 1; p <= MOST_STAGES; p++)
        for (int64_t m = 1; m <= MOST_MICROBATCHES; m++)
            for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
                int64_t gap = p - 1 > 2 * p - 1 - m ? p - 1 : 2 * p - 1 - m;
                lk_pipeline_spec spec = {LK_PIPELINE_1F1B, (int)p, m, NULL};
                ASSERT_EQ(total_of(spec, 0, rendezvous), 3 * m + 3 * (p - 1));
                spec.kind = LK_PIPELINE_GPIPE;
                ASSERT_EQ(total_of(spec, 0, rendezvous), 3 * m + 3 * (p - 1));
                spec.kind = LK_PIPELINE_ZB1P;
                ASSERT_EQ(total_of(spec, 0, rendezvous), 3 * m + gap);
                spec.kind = LK_PIPELINE_FORWARD;
                ASSERT_EQ(total_of(spec, 0, rendezvous), m + p - 1);
            }
}

/* As an independent simulation has them: without a lag, and with half of it. */
TEST(a_smaller_lag_has_a_larger_bubble)
{
    static const int64_t none[MOST_STAGES] = {0};
    int64_t half[MOST_STAGES];
    for (int s = 0; s < MOST_STAGES; s++)
        half[s] = lk_pipeline_lag_by_bytes(s, 1, 2);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 2, 8, none}, 0, false), 24 + 2);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 2, 8, half}, 0, false), 24 + 2);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 8, none}, 0, false), 24 + 6);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 8, half}, 0, false), 24 + 5);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 8, 16, none}, 0, false), 48 + 14);
    ASSERT_EQ(total_of((lk_pipeline_spec){LK_PIPELINE_ZB1P, 8, 16, half}, 0, false), 48 + 11);
}

/* Two stages, two micro-batches, times that differ, worked out by hand. */
TEST(actions_begin_when_they_can)
{
    const lk_stage_times stage[] = {{.forward = 3, .backward = 5, .message = 2},
                                    {.forward = 4, .backward = 7, .message = 1}};
    static const lk_action_span first[] = {
        {0, 3},   {3, 3},              /* forward 0 */
        {3, 6},   {6, 6},              /* forward 1 */
        {6, 17},  {17, 22}, {22, 22},  /* backward 0, whose gradient was sent at 16 */
        {22, 28}, {28, 33}, {33, 33}}; /* backward 1, sent at 27 */
    static const lk_action_span second[] = {
        {0, 5},   {5, 9},   {9, 16},  {16, 16},           /* there at 3 + 2 */
        {16, 16}, {16, 20}, {20, 27}, {27, 27}, {27, 27}, /* there at 8 */
        {27, 27}};
    lk_pipeline *p = NULL;
    lk_pipeline_times *times = NULL;
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 2, 2, NULL}, &p));
    ASSERT_EQ(p->stage[0].n, 10);
    ASSERT_EQ(p->stage[1].n, 10);
    ASSERT_OK(lk_pipeline_times_new(p, stage, false, &times));
    ASSERT_SAME_BITS(times->span[0], first, sizeof first);
    ASSERT_SAME_BITS(times->span[1], second, sizeof second);
    ASSERT_EQ(times->total, 33);
    ASSERT_EQ(times->busy, 22);
    ASSERT_TRUE(times->bubble == 0.5);
    lk_pipeline_times_free(times);
    lk_pipeline_free(p);
}

/* Under rendezvous a message begins to move when its receive has begun, and a wait ends when it is there. */
TEST(a_rendezvous_begins_when_both_are_there)
{
    const lk_stage_times stage[] = {{.forward = 1, .message = 10}, {.forward = 100}};
    static const lk_action_span first[] = {{0, 1}, {1, 1}, {1, 2}, {2, 11}, {11, 11}, {11, 121}};
    static const lk_action_span second[] = {{0, 11}, {11, 111}, {111, 121}, {121, 221}};
    lk_pipeline *p = NULL;
    lk_pipeline_times *times = NULL;
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_FORWARD, 2, 2, NULL}, &p));
    ASSERT_OK(lk_pipeline_times_new(p, stage, true, &times));
    ASSERT_EQ(p->stage[0].n, 6);
    ASSERT_EQ(p->stage[1].n, 4);
    ASSERT_SAME_BITS(times->span[0], first, sizeof first);
    ASSERT_SAME_BITS(times->span[1], second, sizeof second);
    ASSERT_EQ(times->total, 221);
    lk_pipeline_times_free(times);
    lk_pipeline_free(p);
}

TEST(a_replica_without_micro_batches_takes_no_time)
{
    for (int kind = LK_PIPELINE_1F1B; kind <= LK_PIPELINE_FORWARD; kind++)
        ASSERT_EQ(total_of((lk_pipeline_spec){(lk_pipeline_kind)kind, 3, 0, NULL}, 1, true), 0);
}

TEST(times_that_are_none_are_refused)
{
    lk_stage_times stage[] = {{1, 2, 1, 1, 0}, {1, 2, 1, -1, 0}};
    lk_pipeline *p = NULL;
    lk_pipeline_times *times = NULL;
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 2, 2, NULL}, &p));
    ASSERT_FAILS(lk_pipeline_times_new(p, stage, false, &times), LK_EINVAL,
                 "a time of stage 1 is below 0");
    stage[1] = (lk_stage_times){1, INT64_MAX, 1, 1, 0};
    ASSERT_FAILS(lk_pipeline_times_new(p, stage, false, &times), LK_EOVERFLOW, "");
    stage[1] = (lk_stage_times){1, 1, 1, 1, INT64_MAX};
    ASSERT_FAILS(lk_pipeline_times_new(p, stage, false, &times), LK_EOVERFLOW, "");
    p->stage[1].n--;
    ASSERT_FAILS(lk_pipeline_times_new(p, stage, false, &times), LK_EINVAL,
                 "there is no \"wait for the send of gradient 1\"");
    ASSERT_TRUE(!times);
    lk_pipeline_free(p);
}
