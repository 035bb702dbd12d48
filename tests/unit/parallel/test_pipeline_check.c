/* What is wrong with a schedule that somebody wrote is found before the first byte, and said in words that
 * name stages and actions. */
#include "pipelines.h"

#include <lockstep/extra/alloc.h>

/* ---- schedules to damage ---- */

static int64_t place_of(const lk_pipeline *p, int s, const char *text)
{
    char is[LK_ACTION_TEXT];
    for (int64_t i = 0; i < p->stage[s].n; i++)
        if (strcmp(lk_action_text(p->stage[s].action[i], is), text) == 0)
            return i;
    TEST_FAIL("stage %d has no \"%s\"", s, text);
}

static void swap(lk_pipeline *p, int s, const char *a, const char *b)
{
    actions_swap(&p->stage[s], place_of(p, s, a), place_of(p, s, b));
}

static void drop(lk_pipeline *p, int s, const char *text)
{
    action_drop(&p->stage[s], place_of(p, s, text));
}

/* Move an action right behind another one. */
static void move_behind(lk_pipeline *p, int s, const char *text, const char *other)
{
    int64_t from = place_of(p, s, text), to = place_of(p, s, other);
    action_move(&p->stage[s], from, from < to ? to : to + 1);
}

static void refused(lk_pipeline *p, const char *text)
{
    lk_status st = lk_pipeline_check(p);
    ASSERT_EQ(st, LK_EINVAL);
    if (strcmp(lk_error_message(), text) != 0)
        TEST_FAIL("\"%s\", not \"%s\"", lk_error_message(), text);
    lk_error_clear();
    lk_pipeline_free(p);
}

/* ---- faults of one stage ---- */

TEST(an_action_that_is_left_out_is_named)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 1, "send activation 2");
    refused(p, "stage 1: there is no \"send activation 2\", which must come behind \"forward 2\"");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 2, "receive activation 3");
    refused(p,
            "stage 2: there is no \"receive activation 3\", which must come before \"forward 3\"");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 1, "receive gradient 5");
    refused(p, "stage 1: there is no \"receive gradient 5\", which must come behind \"forward 5\"");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 3, "forward 4");
    refused(p, "stage 3 does no forward of micro-batch 4");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 3, "backward 4");
    refused(p, "stage 3 does no backward of micro-batch 4");
    p = made(LK_PIPELINE_ZB1P, 4, 6);
    drop(p, 3, "backward-weights 4");
    refused(p, "stage 3: there is no \"backward-weights 4\", which must come behind "
               "\"backward-input 4\"");
}

TEST(a_send_that_is_never_waited_for_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    drop(p, 0, "wait for the send of activation 3");
    refused(p, "stage 0: there is no \"wait for the send of activation 3\", which must come behind "
               "\"send activation 3\"");
    p = made(LK_PIPELINE_FORWARD, 4, 6);
    drop(p, 0, "wait for the send of activation 5");
    refused(p, "stage 0: there is no \"wait for the send of activation 5\", which must come behind "
               "\"send activation 5\"");
}

TEST(a_wait_before_its_send_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 2, 3);
    swap(p, 1, "wait for the send of gradient 2", "send gradient 2");
    refused(p, "stage 1: \"wait for the send of gradient 2\" comes before \"send gradient 2\"");
}

TEST(an_action_that_is_there_twice_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 2, 3);
    p->stage[1].action[place_of(p, 1, "backward 2")] = p->stage[1]
                                                           .action[place_of(p, 1, "backward 1")];
    refused(p, "stage 1 does \"backward 1\" twice, as actions 6 and 11");
    p = made(LK_PIPELINE_1F1B, 2, 3);
    p->stage[1].action[place_of(p, 1, "send gradient 2")] =
        p->stage[1].action[place_of(p, 1, "wait for the send of gradient 1")];
    refused(p, "stage 1 does \"wait for the send of gradient 1\" twice, as actions 12 and 13");
}

TEST(a_send_before_what_it_sends_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    swap(p, 0, "send activation 2", "send activation 1");
    refused(p, "stage 0: \"send activation 2\" comes before \"forward 2\"");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    swap(p, 2, "backward 2", "send gradient 2");
    refused(p, "stage 2: \"send gradient 2\" comes before \"backward 2\"");
}

TEST(a_computation_before_what_it_needs_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    swap(p, 2, "receive activation 2", "forward 2");
    refused(p, "stage 2: \"forward 2\" comes before \"receive activation 2\"");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    swap(p, 2, "receive gradient 2", "backward 2");
    refused(p, "stage 2: \"backward 2\" comes before \"receive gradient 2\"");
    p = made(LK_PIPELINE_ZB1P, 4, 6);
    move_behind(p, 2, "backward-weights 1", "forward 1");
    refused(p, "stage 2: \"backward-weights 1\" comes before \"backward-input 1\"");
    p = made(LK_PIPELINE_GPIPE, 1, 2);
    swap(p, 0, "forward 1", "backward 1");
    refused(p, "stage 0: \"backward 1\" comes before \"forward 1\"");
}

TEST(sums_in_another_order_are_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_ZB1P, 4, 6);
    swap(p, 2, "backward-weights 1", "backward-weights 2");
    refused(p, "stage 2: the gradients of weights of micro-batch 2 come before those of 1: they "
               "are added up in ascending order");
    p = made(LK_PIPELINE_GPIPE, 1, 3);
    swap(p, 0, "forward 1", "forward 2");
    refused(p, "stage 0: \"forward 2\" comes before \"forward 1\": losses are added up in "
               "ascending order");
}

TEST(a_forward_too_many_under_way_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    p->stage[0].tapes = 3;
    refused(p, "stage 0: \"forward 3\" needs the tape of micro-batch 0, which is not given back "
               "yet: the stage has 3");
    p = made(LK_PIPELINE_1F1B, 4, 6);
    move_behind(p, 1, "receive activation 3", "send activation 2");
    refused(p, "stage 1: \"receive activation 3\" needs the tape of micro-batch 0, which is not "
               "given back yet: the stage has 3");
    p = made(LK_PIPELINE_1F1B, 1, 1);
    p->stage[0].tapes = 0;
    refused(p, "stage 0: \"forward 0\" needs a tape, and there is none");
    /* the activation is still on its way */
    p = made(LK_PIPELINE_1F1B, 2, 3);
    move_behind(p, 0, "wait for the send of activation 0", "forward 2");
    refused(p, "stage 0: \"forward 2\" needs the tape of micro-batch 0, which is not given back "
               "yet: the stage has 2");
}

TEST(a_buffer_that_is_used_while_it_is_sent_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 2, 4);
    move_behind(p, 1, "wait for the send of gradient 1", "backward 3");
    refused(p, "stage 1: \"backward 3\" needs the buffer of gradient 1, whose send is not waited "
               "for yet: there are 2");
}

TEST(backward_whole_and_in_halves_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_ZB1P, 1, 2);
    p->stage[0].action[place_of(p, 0, "backward-input 1")].kind = LK_ACTION_BACKWARD;
    refused(p, "stage 0 does backward of micro-batch 1 whole and in halves");
}

TEST(work_that_is_not_there_is_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 3, 2);
    p->stage[2].action[place_of(p, 2, "send gradient 0")].value = LK_ACTION_ACTIVATION;
    refused(p, "stage 2 does \"send activation 0\", but there is no stage behind it");
    p = made(LK_PIPELINE_1F1B, 3, 2);
    p->stage[0].action[place_of(p, 0, "receive gradient 1")].value = LK_ACTION_ACTIVATION;
    refused(p, "stage 0 does \"receive activation 1\", but there is no stage before it");
    p = made(LK_PIPELINE_1F1B, 3, 2);
    p->kind = LK_PIPELINE_FORWARD;
    refused(p, "stage 0 does \"receive gradient 0\", but the schedule is for forward alone");
    p = made(LK_PIPELINE_FORWARD, 1, 2);
    p->kind = LK_PIPELINE_GPIPE;
    refused(p, "stage 0 does no backward of micro-batch 0");
}

/* ---- faults of two stages ---- */

TEST(messages_in_another_order_are_refused)
{
    lk_pipeline *p = made(LK_PIPELINE_GPIPE, 2, 3);
    move_behind(p, 0, "send activation 1", "forward 2");
    actions_swap(&p->stage[0], place_of(p, 0, "send activation 1"),
                 place_of(p, 0, "send activation 2"));
    refused(p, "message 1 from stage 0 to stage 1: one does \"send activation 2\", the other "
               "\"receive activation 1\"");
}

TEST(a_swap_that_lets_stages_wait_in_a_circle_is_shown)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 4, 6);
    swap(p, 0, "send activation 2", "receive gradient 0");
    swap(p, 0, "send activation 3", "send activation 2"); /* still in order */
    refused(p, "stages wait in a circle: stage 0 in \"receive gradient 0\" waits for stage 1 to "
               "come to \"send gradient 0\"; stage 1 in \"receive activation 2\" waits for stage 0 "
               "to come to \"send activation 2\"");
    p = made(LK_PIPELINE_GPIPE, 2, 4);
    swap(p, 0, "send activation 3", "receive gradient 0");
    refused(p, "stages wait in a circle: stage 0 in \"receive gradient 0\" waits for stage 1 to "
               "come to \"send gradient 0\"; stage 1 in \"receive activation 3\" waits for stage 0 "
               "to come to \"send activation 3\"");
}

/* Each send is waited for at once. */
static void sends_block(lk_pipeline *p)
{
    for (int s = 0; s < p->stages; s++)
        for (int64_t i = 0; i < p->stage[s].n; i++) {
            lk_action wait = p->stage[s].action[i];
            char text[LK_ACTION_TEXT];
            if (wait.kind != LK_ACTION_SEND)
                continue;
            wait.kind = LK_ACTION_WAIT;
            action_move(&p->stage[s], place_of(p, s, lk_action_text(wait, text)), i + 1);
        }
}

TEST(sends_that_block_are_shown_with_their_circle)
{
    lk_pipeline *p = made(LK_PIPELINE_1F1B, 2, 3);
    sends_block(p);
    refused(p, "stages wait in a circle where sends wait for their receives: stage 0 in \"wait for "
               "the send of activation 1\" waits for stage 1 to come to \"receive activation 1\"; "
               "stage 1 in \"wait for the send of gradient 0\" waits for stage 0 to come to "
               "\"receive gradient 0\"");
}

/* Of 1f1b and zb1p those with two stages and two micro-batches or more, of gpipe none. */
TEST(sends_that_block_are_refused_where_they_hang)
{
    static struct executor e;
    for (int kind = LK_PIPELINE_1F1B; kind <= LK_PIPELINE_FORWARD; kind++)
        for (int stages = 1; stages <= MOST_STAGES; stages++)
            for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
                lk_pipeline *p = made((lk_pipeline_kind)kind, stages, m);
                bool turns = kind == LK_PIPELINE_1F1B || kind == LK_PIPELINE_ZB1P;
                sends_block(p);
                bool accepted = lk_pipeline_check(p) == LK_OK;
                ASSERT_EQ(accepted, !(turns && stages > 1 && m > 1));
                ASSERT_EQ(accepted, executor_run(p, &e));
                if (!accepted)
                    ASSERT_TRUE(strstr(lk_error_message(), "circle where sends wait for their"));
                lk_error_clear();
                lk_pipeline_free(p);
            }
}

/* ---- numbers that are none ---- */

TEST(numbers_are_looked_at_before_they_are_used)
{
    lk_action forward[] = {{LK_ACTION_FORWARD, LK_ACTION_ACTIVATION, 0}};
    lk_pipeline_stage one = {.n = 1, .action = forward, .tapes = 1};
    const lk_pipeline p = {LK_PIPELINE_FORWARD, 1, 1, &one};
    lk_pipeline q = p;
    ASSERT_OK(lk_pipeline_check(&p));
    q.stages = 0;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL, "a pipeline has 0 stages");
    q.stages = -3;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL, "a pipeline has -3 stages");
    q = p;
    q.stage = NULL;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL, "a pipeline has 1 stages without lists");
    q = p;
    q.kind = (lk_pipeline_kind)9;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL, "kind 9 of a pipeline is none of 0 to 3");
    q = p;
    q.microbatches = -1;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL, "a pipeline has -1 micro-batches");
    q.microbatches = INT64_MAX;
    ASSERT_FAILS(lk_pipeline_check(&q), LK_EINVAL,
                 "stage 0 has 1 actions for 9223372036854775807 micro-batches");
    one.n = -1;
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "stage 0 has -1 actions for 1 micro-batches");
    one = (lk_pipeline_stage){.n = 1, .tapes = 1};
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "stage 0 has 1 actions and no list");
    one = (lk_pipeline_stage){.n = 1, .action = forward, .tapes = -1};
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "stage 0 has -1 tapes");
    one.tapes = 1;
    forward[0].kind = (lk_action_kind)77;
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "stage 0: action 0 has kind 77, which is none");
    forward[0].kind = (lk_action_kind)-1;
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "stage 0: action 0 has kind -1, which is none");
    forward[0] = (lk_action){LK_ACTION_SEND, (lk_action_value)2, 0};
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "action 0 is a message of value 2");
    forward[0] = (lk_action){LK_ACTION_FORWARD, LK_ACTION_ACTIVATION, 1};
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL,
                 "stage 0: action 0 is \"forward 1\", but there are 1 micro-batches");
    forward[0].microbatch = INT64_MIN;
    ASSERT_FAILS(lk_pipeline_check(&p), LK_EINVAL, "but there are 1 micro-batches");
}

TEST(a_check_without_memory_says_so)
{
    lk_pipeline *p = made(LK_PIPELINE_ZB1P, 3, 4);
    lk_alloc_fail_at(1);
    ASSERT_FAILS(lk_pipeline_check(p), LK_ENOMEM, "memory");
    lk_alloc_fail_at(0);
    ASSERT_OK(lk_pipeline_check(p));
    lk_pipeline_free(p);
}
