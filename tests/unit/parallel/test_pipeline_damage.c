/* Schedules that were damaged at random: what the check accepts comes to its end, and what waits in a circle
 * does not. */
#include "pipelines.h"

#include <lockstep/extra/alloc.h>

static uint64_t random_state;

static int64_t random_below(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

static void action_damage(lk_action *a)
{
    switch (random_below(4)) {
    case 0: a->kind = (lk_action_kind)random_below(LK_N_ACTION_KINDS + 1); break;
    case 1: a->value = (lk_action_value)random_below(3); break;
    case 2: a->microbatch += random_below(2) ? 1 : -1; break;
    default: a->microbatch = random_below(1000) - 500; break;
    }
}

static void pipeline_damage(lk_pipeline *p)
{
    lk_pipeline_stage *list = &p->stage[random_below(p->stages)];
    if (list->n == 0)
        return;
    int64_t a = random_below(list->n), near = a + random_below(7) - 3;
    near = near < 0 ? 0 : near < list->n ? near : list->n - 1;
    switch (random_below(8)) {
    case 0: actions_swap(list, a, random_below(list->n)); break;
    case 1: action_drop(list, a); break;
    case 2: action_damage(&list->action[a]); break;
    case 3: list->tapes += random_below(3) - 1; break;
    case 4: action_move(list, a, random_below(list->n)); break;
    case 5: list->action[a] = list->action[near]; break;
    case 6: action_move(list, a, near); break;
    default: actions_swap(list, a, near); break;
    }
}

/* Nothing hangs that was accepted, and nothing is computed that could not be. */
TEST(what_is_accepted_comes_to_its_end)
{
    static struct executor e;
    int64_t before = lk_alloc_stats_now().live_blocks;
    int accepted = 0, circles = 0, rounds = test_whole() ? 200000 : 8000;
    random_state = 22;
    for (int k = 0; k < rounds; k++) {
        lk_pipeline *p = made((lk_pipeline_kind)random_below(4), 1 + (int)random_below(5),
                              1 + random_below(8));
        for (int64_t damages = 1 + random_below(3); damages > 0; damages--)
            pipeline_damage(p);
        if (lk_pipeline_check(p) == LK_OK) {
            accepted++;
            ASSERT_TRUE(executor_run(p, &e));
            ASSERT_TRUE(!e.wrong);
            for (int s = 0; s < p->stages; s++)
                ASSERT_TRUE(e.most_live[s] <= p->stage[s].tapes);
        } else {
            ASSERT_EQ(lk_error_status(), LK_EINVAL);
            circles += strstr(lk_error_message(), "circle") != NULL;
        }
        lk_error_clear();
        lk_pipeline_free(p);
    }
    ASSERT_TRUE(accepted > rounds / 20 && rounds - accepted > rounds / 2);
    ASSERT_TRUE(circles > rounds / 500);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, before);
}

/* Waits and messages are put elsewhere, in ways that each stage allows: whether they hang is the circles' to
 * say, both ways. */
TEST(circles_are_where_the_executor_hangs)
{
    static struct executor e;
    int hanging = 0, rounds = test_whole() ? 50000 : 4000;
    random_state = 1;
    for (int k = 0; k < rounds; k++) {
        lk_pipeline *p = made((lk_pipeline_kind)random_below(4), 2 + (int)random_below(4),
                              2 + random_below(6));
        for (int s = 0; s < p->stages; s++)
            p->stage[s].tapes = p->microbatches;
        for (int64_t moves = 1 + random_below(20); moves > 0; moves--) {
            lk_pipeline_stage *list = &p->stage[random_below(p->stages)];
            int64_t from = random_below(list->n), to = random_below(list->n);
            action_move(list, from, to);
            lk_status st = lk_pipeline_check(p);
            if (st != LK_OK && !strstr(lk_error_message(), "circle"))
                action_move(list, to, from);
            lk_error_clear();
        }
        bool ends = executor_run(p, &e);
        ASSERT_TRUE(!ends || !e.wrong);
        ASSERT_EQ(lk_pipeline_check(p) == LK_OK, ends);
        hanging += !ends;
        lk_error_clear();
        lk_pipeline_free(p);
    }
    ASSERT_TRUE(hanging > rounds / 20 && hanging < rounds - rounds / 20);
}
