/* Schedules that are made by arithmetic: every one passes the check and comes to its end with nothing
 * buffered, takes the time and the tapes that theory says, and is what it was asked to be. */
#include "pipelines.h"

#include <lockstep/extra/alloc.h>

static const lk_pipeline_kind all_kinds[] = {LK_PIPELINE_1F1B, LK_PIPELINE_GPIPE, LK_PIPELINE_ZB1P,
                                             LK_PIPELINE_FORWARD};

/* ---- all of them ---- */

static void pipeline_try(const lk_pipeline_spec *spec)
{
    static struct executor e;
    lk_pipeline *p = NULL;
    ASSERT_OK(lk_pipeline_new(spec, &p));
    ASSERT_OK(lk_pipeline_check(p));
    ASSERT_TRUE(executor_run(p, &e));
    ASSERT_TRUE(!e.wrong);
    for (int s = 0; s < p->stages; s++) {
        ASSERT_EQ(p->stage[s].tapes, lk_pipeline_tapes(spec, s));
        ASSERT_EQ(e.most_live[s], p->stage[s].tapes);
        for (int64_t i = 0; i < p->microbatches; i++) {
            const struct ran *r = &e.ran[s][i];
            ASSERT_TRUE(r->forward);
            ASSERT_EQ(r->weights, spec->kind != LK_PIPELINE_FORWARD);
        }
    }
    lk_pipeline_free(p);
}

TEST(every_schedule_passes_the_check_and_ends_with_nothing_buffered)
{
    int64_t before = lk_alloc_stats_now().live_blocks;
    for (int stages = 1; stages <= MOST_STAGES; stages++)
        for (int64_t m = 0; m <= MOST_MICROBATCHES; m++)
            for (int k = 0; k < 4; k++)
                pipeline_try(&(lk_pipeline_spec){all_kinds[k], stages, m, NULL});
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, before);
}

/* Each number for all stages, and numbers that differ from stage to stage. */
TEST(every_lag_passes_the_check_and_ends_with_nothing_buffered)
{
    for (int stages = 1; stages <= MOST_STAGES; stages++)
        for (int64_t m = 0; m <= MOST_MICROBATCHES; m++)
            for (int k = 0; k < 3 * MOST_STAGES; k++) {
                int64_t lag[MOST_STAGES];
                for (int s = 0; s < stages; s++)
                    lag[s] = k < MOST_STAGES       ? k
                             : k < 2 * MOST_STAGES ? lk_pipeline_lag_by_bytes(s, 10, k)
                                                   : k * 7 % (s + 1);
                pipeline_try(&(lk_pipeline_spec){LK_PIPELINE_ZB1P, stages, m, lag});
            }
}

/* ---- what they are ---- */

/* The computations of a stage: digits are forwards, small letters backwards, capitals gradients of weights. */
static const char *text_of(const lk_pipeline_stage *list, char *out)
{
    int n = 0;
    for (int64_t i = 0; i < list->n; i++) {
        static const char first[] = {'0', 'a', 'a', 'A'};
        if (list->action[i].kind < LK_ACTION_SEND)
            out[n++] = (char)(first[list->action[i].kind] + list->action[i].microbatch);
    }
    out[n] = 0;
    return out;
}

static void computations_are(lk_pipeline_spec spec, const char *const *want)
{
    lk_pipeline *p = NULL;
    char text[256];
    ASSERT_OK(lk_pipeline_new(&spec, &p));
    for (int s = 0; s < spec.stages; s++)
        if (strcmp(text_of(&p->stage[s], text), want[s]) != 0)
            TEST_FAIL("%s, stage %d: %s, not %s", lk_pipeline_name(spec.kind), s, text, want[s]);
    lk_pipeline_free(p);
}

TEST(stages_compute_in_the_order_of_their_schedule)
{
    computations_are((lk_pipeline_spec){LK_PIPELINE_GPIPE, 3, 3, NULL},
                     (const char *[]){"012abc", "012abc", "012abc"});
    computations_are((lk_pipeline_spec){LK_PIPELINE_FORWARD, 2, 3, NULL},
                     (const char *[]){"012", "012"});
    computations_are(
        (lk_pipeline_spec){LK_PIPELINE_1F1B, 4, 6, NULL},
        (const char *[]){"0123a4b5cdef", "012a3b4c5def", "01a2b3c4d5ef", "0a1b2c3d4e5f"});
    computations_are((lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 6, NULL},
                     (const char *[]){"0123aA4bB5cCdDeEfF", "012a3bA4cB5dCeDfEF",
                                      "01a2b3cA4dB5eCfDEF", "0a1b2c3dA4eB5fCDEF"});
    computations_are((lk_pipeline_spec){LK_PIPELINE_ZB1P, 2, 3, (const int64_t[]){0, 0}},
                     (const char *[]){"01aA2bBcC", "0aA1bB2cC"});
    /* fewer micro-batches than stages */
    computations_are((lk_pipeline_spec){LK_PIPELINE_1F1B, 4, 2, NULL},
                     (const char *[]){"01ab", "01ab", "01ab", "0a1b"});
    computations_are((lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 2, NULL},
                     (const char *[]){"01aAbB", "01aAbB", "01abAB", "0a1bAB"});
}

static void actions_are(const lk_pipeline_stage *list, const char *const *want)
{
    char text[LK_ACTION_TEXT];
    for (int64_t i = 0; i < list->n; i++)
        if (!want[i] || strcmp(lk_action_text(list->action[i], text), want[i]) != 0)
            TEST_FAIL("action %lld: %s, not %s", (long long)i, text, want[i] ? want[i] : "nothing");
    ASSERT_TRUE(!want[list->n]);
}

TEST(messages_stand_around_computations)
{
    lk_pipeline *p = NULL;
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 3, 2, NULL}, &p));
    actions_are(&p->stage[1],
                (const char *[]){"receive activation 0", "forward 0", "send activation 0",
                                 "receive activation 1", "forward 1", "send activation 1",
                                 "receive gradient 0", "backward 0", "send gradient 0",
                                 "wait for the send of activation 0", "receive gradient 1",
                                 "backward 1", "wait for the send of gradient 0", "send gradient 1",
                                 "wait for the send of activation 1",
                                 "wait for the send of gradient 1", NULL});
    lk_pipeline_free(p);
    ASSERT_OK(lk_pipeline_new(
        &(lk_pipeline_spec){LK_PIPELINE_ZB1P, 2, 2, (const int64_t[]){0, LK_LAG_FULL}}, &p));
    actions_are(&p->stage[0],
                (const char *[]){"forward 0", "send activation 0", "forward 1", "send activation 1",
                                 "receive gradient 0", "backward-input 0", "backward-weights 0",
                                 "wait for the send of activation 0", "receive gradient 1",
                                 "backward-input 1", "backward-weights 1",
                                 "wait for the send of activation 1", NULL});
    actions_are(&p->stage[1],
                (const char *[]){"receive activation 0", "forward 0", "backward-input 0",
                                 "send gradient 0", "receive activation 1", "forward 1",
                                 "backward-input 1", "wait for the send of gradient 0",
                                 "send gradient 1", "backward-weights 0", "backward-weights 1",
                                 "wait for the send of gradient 1", NULL});
    lk_pipeline_free(p);
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_FORWARD, 2, 2, NULL}, &p));
    actions_are(&p->stage[0],
                (const char *[]){"forward 0", "send activation 0", "forward 1",
                                 "wait for the send of activation 0", "send activation 1",
                                 "wait for the send of activation 1", NULL});
    lk_pipeline_free(p);
}

TEST(names_are_those_of_the_choices)
{
    char names[64] = "";
    for (int k = LK_PIPELINE_1F1B; k < LK_PIPELINE_FORWARD; k++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k > 0 ? " " : "",
                 lk_pipeline_name((lk_pipeline_kind)k));
    ASSERT_TRUE(strcmp(names, LK_PIPELINE_CHOICES) == 0);
    ASSERT_TRUE(strcmp(lk_pipeline_name(LK_PIPELINE_FORWARD), "forward") == 0);
    ASSERT_TRUE(strcmp(lk_pipeline_name((lk_pipeline_kind)4), "?") == 0);
    ASSERT_TRUE(strcmp(lk_pipeline_name((lk_pipeline_kind)-1), "?") == 0);
}

TEST(a_schedule_that_cannot_be_made_is_refused)
{
    lk_pipeline *p = NULL;
    ASSERT_FAILS(lk_pipeline_new(&(lk_pipeline_spec){(lk_pipeline_kind)7, 2, 2, NULL}, &p),
                 LK_EINVAL, "kind 7 of a pipeline is none of 0 to 3");
    ASSERT_FAILS(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 0, 2, NULL}, &p), LK_EINVAL,
                 "a pipeline has 0 stages, it needs at least 1");
    ASSERT_FAILS(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 2, -1, NULL}, &p), LK_EINVAL,
                 "a pipeline has -1 micro-batches");
    ASSERT_FAILS(lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 2, INT64_MAX, NULL}, &p),
                 LK_EINVAL, "micro-batches, which must be 0 to 2147483647");
    ASSERT_FAILS(
        lk_pipeline_new(&(lk_pipeline_spec){LK_PIPELINE_ZB1P, 2, 2, (const int64_t[]){0, -3}}, &p),
        LK_EINVAL, "the lag of stage 1 is -3, which is below 0");
    ASSERT_TRUE(!p);
}

TEST(allocations_that_fail_leave_nothing)
{
    int64_t before = lk_alloc_stats_now().live_blocks;
    const lk_pipeline_spec spec = {LK_PIPELINE_ZB1P, 3, 4, NULL};
    const lk_stage_times unit[3] = {{1, 2, 1, 1, 0}, {1, 2, 1, 1, 0}, {1, 2, 1, 1, 0}};
    lk_status st = LK_ENOMEM;
    int64_t n = 0;
    for (; st == LK_ENOMEM; n++) {
        lk_pipeline *p = NULL;
        lk_pipeline_times *times = NULL;
        lk_alloc_fail_at(n + 1);
        st = lk_pipeline_new(&spec, &p);
        if (st == LK_OK)
            st = lk_pipeline_check(p);
        if (st == LK_OK)
            st = lk_pipeline_times_new(p, unit, true, &times);
        lk_alloc_fail_at(0);
        ASSERT_EQ(times != NULL, st == LK_OK);
        lk_error_clear();
        lk_pipeline_times_free(times);
        lk_pipeline_free(p);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, before);
    }
    ASSERT_OK(st);
    ASSERT_TRUE(n > 20);
}

/* ---- memory ---- */

TEST(tapes_follow_the_formula)
{
    static const int64_t lag[] = {0, 1, 1, 9};
    lk_pipeline_spec zb = {LK_PIPELINE_ZB1P, 4, 16, lag};
    static const int64_t cut[] = {0, 1, 1, 3};
    for (int s = 0; s < 4; s++) {
        ASSERT_EQ(lk_pipeline_lag(&zb, s), cut[s]);
        ASSERT_EQ(lk_pipeline_tapes(&zb, s), 4 - s + cut[s]);
        lk_pipeline_spec spec = {LK_PIPELINE_1F1B, 4, 16, lag};
        ASSERT_EQ(lk_pipeline_lag(&spec, s), 0);
        ASSERT_EQ(lk_pipeline_tapes(&spec, s), 4 - s);
        spec.kind = LK_PIPELINE_GPIPE;
        ASSERT_EQ(lk_pipeline_tapes(&spec, s), 16);
        spec.kind = LK_PIPELINE_FORWARD;
        ASSERT_EQ(lk_pipeline_tapes(&spec, s), s < 3 ? 2 : 1);
        spec = (lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 16, NULL};
        ASSERT_EQ(lk_pipeline_tapes(&spec, s), 4);
        spec.microbatches = 2;
        ASSERT_EQ(lk_pipeline_tapes(&spec, s), 2);
    }
}

TEST(the_lag_by_bytes_follows_the_formula)
{
    ASSERT_EQ(lk_pipeline_lag_by_bytes(0, 100, 200), 0);
    for (int s = 1; s < 8; s++) {
        ASSERT_EQ(lk_pipeline_lag_by_bytes(s, 100, 200), s / 2);
        ASSERT_EQ(lk_pipeline_lag_by_bytes(s, 100, 225), s * 100 / 225);
        ASSERT_EQ(lk_pipeline_lag_by_bytes(s, 100, 100), s);
        ASSERT_EQ(lk_pipeline_lag_by_bytes(s, 100, 0), s);
        ASSERT_EQ(lk_pipeline_lag_by_bytes(s, 0, 100), 0);
    }
    /* s * forward_bytes does not fit */
    ASSERT_EQ(lk_pipeline_lag_by_bytes(6, INT64_MAX / 2, INT64_MAX), 2);
    ASSERT_EQ(lk_pipeline_lag_by_bytes(6, INT64_MAX / 3, INT64_MAX / 2), 3);
}

/* What the micro-batches of a stage hold, action by action. */
static int64_t bytes_counted(const lk_pipeline_stage *list, int64_t forward, int64_t weights)
{
    int64_t now = 0, most = 0;
    for (int64_t i = 0; i < list->n; i++) {
        lk_action_kind kind = list->action[i].kind;
        now += kind == LK_ACTION_FORWARD ? forward : 0;
        now += kind == LK_ACTION_BACKWARD_INPUT ? weights - forward : 0;
        most = now > most ? now : most;
        now -= kind == LK_ACTION_BACKWARD ? forward : 0;
        now -= kind == LK_ACTION_BACKWARD_WEIGHTS ? weights : 0;
    }
    return most;
}

TEST(bytes_are_those_of_what_is_under_way)
{
    static const int64_t sizes[][2] = {{100, 225}, {100, 100}, {100, 60}};
    static const lk_pipeline_kind kind[] = {LK_PIPELINE_1F1B, LK_PIPELINE_GPIPE, LK_PIPELINE_ZB1P};
    for (int k = 0; k < 3; k++)
        for (int stages = 1; stages <= MOST_STAGES; stages++)
            for (int64_t m = 0; m <= MOST_MICROBATCHES; m++)
                for (int z = 0; z < 3; z++)
                    for (int64_t most_lag = 0; most_lag < (k == 2 ? stages : 1); most_lag++) {
                        int64_t lag[MOST_STAGES], bytes;
                        for (int s = 0; s < stages; s++)
                            lag[s] = most_lag;
                        lk_pipeline_spec spec = {kind[k], stages, m, lag};
                        lk_pipeline *p = NULL;
                        ASSERT_OK(lk_pipeline_new(&spec, &p));
                        for (int s = 0; s < stages; s++) {
                            ASSERT_OK(
                                lk_pipeline_bytes(&spec, s, sizes[z][0], sizes[z][1], &bytes));
                            int64_t is = bytes_counted(&p->stage[s], sizes[z][0], sizes[z][1]);
                            ASSERT_TRUE(is <= bytes);
                            if (m / 2 >= stages) /* enough for it to be reached */
                                ASSERT_EQ(is, bytes);
                        }
                        lk_pipeline_free(p);
                    }
}

/* (p - s - 1) F + (lag + 1) W, where W is 2.25 F, and (p - s) F. */
TEST(bytes_follow_the_formula)
{
    static const int64_t full[] = {525, 650, 775, 900}, plain[] = {400, 300, 200, 100};
    int64_t bytes;
    for (int s = 0; s < 4; s++) {
        ASSERT_OK(lk_pipeline_bytes(&(lk_pipeline_spec){LK_PIPELINE_ZB1P, 4, 8, NULL}, s, 100, 225,
                                    &bytes));
        ASSERT_EQ(bytes, full[s]);
        ASSERT_OK(lk_pipeline_bytes(&(lk_pipeline_spec){LK_PIPELINE_1F1B, 4, 8, NULL}, s, 100, 225,
                                    &bytes));
        ASSERT_EQ(bytes, plain[s]);
    }
    lk_pipeline_spec spec = {LK_PIPELINE_GPIPE, 2, 1 << 20, NULL};
    ASSERT_FAILS(lk_pipeline_bytes(&spec, 0, -1, 0, &bytes), LK_EINVAL, "one is below 0");
    ASSERT_FAILS(lk_pipeline_bytes(&spec, 0, INT64_MAX / 2, 0, &bytes), LK_EOVERFLOW, "");
}

/* The default lag: at most weights - forward above the worst stage of 1f1b. */
TEST(the_lag_by_bytes_keeps_its_promise)
{
    for (int stages = 1; stages <= MOST_STAGES; stages++)
        for (int64_t w = 100; w <= 400; w += 20) {
            int64_t lag[MOST_STAGES], bytes;
            for (int s = 0; s < stages; s++)
                lag[s] = lk_pipeline_lag_by_bytes(s, 100, w);
            for (int s = 0; s < stages; s++) {
                ASSERT_OK(lk_pipeline_bytes(&(lk_pipeline_spec){LK_PIPELINE_ZB1P, stages, 64, lag},
                                            s, 100, w, &bytes));
                ASSERT_TRUE(bytes <= (int64_t)stages * 100 + w - 100);
            }
        }
}
