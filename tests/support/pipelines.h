/* Schedules to damage, and an executor of schedules that knows nothing of their check.
 *
 * Stages go on one action at a time, nothing is buffered, and what they hold is counted: a send is over when
 * its receive has begun, a receive when its send has.  A stage that computes with what is not there, or sends
 * it, is seen.
 */
#ifndef LK_TEST_PIPELINES_H
#define LK_TEST_PIPELINES_H

#include "harness.h"

#include <lockstep/extra/pipeline.h>

enum { MOST_STAGES = 8, MOST_MICROBATCHES = 16 };

/* ---- the executor ---- */

/* Of one stage and micro-batch. */
struct ran {
    bool received[2], sent[2], waited[2]; /* begun; by value */
    bool begun, forward, input, weights;
};

struct executor {
    const lk_pipeline *p;
    int64_t at[MOST_STAGES];
    struct ran ran[MOST_STAGES][MOST_MICROBATCHES];
    int64_t most_live[MOST_STAGES];
    bool wrong; /* something was computed that could not be */
};

static bool is_held(const struct executor *e, int s, int64_t i)
{
    const struct ran *r = &e->ran[s][i];
    bool computed = e->p->kind == LK_PIPELINE_FORWARD ? r->forward : r->weights;
    bool gone = s + 1 == e->p->stages || r->waited[LK_ACTION_ACTIVATION];
    return r->begun && !(computed && gone);
}

/* Micro-batch i of a stage begins, or goes on. */
static void count_live(struct executor *e, int s, int64_t i)
{
    int64_t live = 0;
    e->ran[s][i].begun = true;
    for (int64_t k = 0; k < e->p->microbatches; k++)
        live += is_held(e, s, k);
    if (live > e->most_live[s])
        e->most_live[s] = live;
}

/* Compute, and say whether everything was there. */
static bool compute(struct executor *e, int s, lk_action a)
{
    struct ran *r = &e->ran[s][a.microbatch];
    bool is_first = s == 0, is_last = s + 1 == e->p->stages, fits = true;
    count_live(e, s, a.microbatch);
    if (a.kind == LK_ACTION_FORWARD) {
        fits = !r->forward && (is_first || r->received[LK_ACTION_ACTIVATION]);
        r->forward = true;
    }
    if (a.kind == LK_ACTION_BACKWARD || a.kind == LK_ACTION_BACKWARD_INPUT) {
        fits = !r->input && r->forward && (is_last || r->received[LK_ACTION_GRADIENT]);
        r->input = true;
    }
    if (a.kind == LK_ACTION_BACKWARD || a.kind == LK_ACTION_BACKWARD_WEIGHTS) {
        fits = fits && !r->weights && r->input;
        for (int64_t i = 0; i < e->p->microbatches; i++)
            fits = fits && e->ran[s][i].weights == (i < a.microbatch);
        r->weights = true;
    }
    return fits;
}

/* One action of a stage, or its wait; false: it must wait. */
static bool stage_step(struct executor *e, int s)
{
    lk_action a = e->p->stage[s].action[e->at[s]];
    struct ran *r = &e->ran[s][a.microbatch];
    bool is_activation = a.value == LK_ACTION_ACTIVATION, is_over = true;
    int to = s + (is_activation ? 1 : -1), from = s + (is_activation ? -1 : 1);
    switch (a.kind) {
    case LK_ACTION_SEND:
        e->wrong = e->wrong || r->sent[a.value] || !(is_activation ? r->forward : r->input);
        r->sent[a.value] = true;
        break;
    case LK_ACTION_RECEIVE:
        r->received[a.value] = true;
        count_live(e, s, a.microbatch);
        is_over = e->ran[from][a.microbatch].sent[a.value];
        break;
    case LK_ACTION_WAIT:
        e->wrong = e->wrong || !r->sent[a.value] || r->waited[a.value];
        is_over = e->ran[to][a.microbatch].received[a.value];
        r->waited[a.value] = is_over;
        break;
    default: e->wrong = !compute(e, s, a) || e->wrong; break;
    }
    e->at[s] += is_over;
    return is_over;
}

/* Run a schedule that fits the tables; false: stages are left that wait for ever. */
static inline bool executor_run(const lk_pipeline *p, struct executor *e)
{
    bool moved = true, ends = true;
    *e = (struct executor){.p = p};
    ASSERT_TRUE(p->stages <= MOST_STAGES && p->microbatches <= MOST_MICROBATCHES);
    while (moved) {
        moved = false;
        for (int s = 0; s < p->stages; s++)
            if (e->at[s] < p->stage[s].n)
                moved = stage_step(e, s) || moved;
    }
    for (int s = 0; s < p->stages; s++)
        ends = ends && e->at[s] == p->stage[s].n;
    return ends;
}

/* ---- schedules to damage ---- */

static inline lk_pipeline *made(lk_pipeline_kind kind, int stages, int64_t microbatches)
{
    lk_pipeline *p = NULL;
    ASSERT_OK(lk_pipeline_new(&(lk_pipeline_spec){kind, stages, microbatches, NULL}, &p));
    return p;
}

static inline void action_drop(lk_pipeline_stage *list, int64_t at)
{
    list->n--;
    memmove(&list->action[at], &list->action[at + 1],
            (size_t)(list->n - at) * sizeof *list->action);
}

/* Lists have no room to grow: what is added takes the place of what was dropped. */
static inline void action_put(lk_pipeline_stage *list, int64_t at, lk_action a)
{
    memmove(&list->action[at + 1], &list->action[at],
            (size_t)(list->n - at) * sizeof *list->action);
    list->action[at] = a;
    list->n++;
}

static inline void action_move(lk_pipeline_stage *list, int64_t from, int64_t to)
{
    lk_action a = list->action[from];
    action_drop(list, from);
    action_put(list, to, a);
}

static inline void actions_swap(lk_pipeline_stage *list, int64_t a, int64_t b)
{
    lk_action first = list->action[a];
    list->action[a] = list->action[b];
    list->action[b] = first;
}

#endif /* LK_TEST_PIPELINES_H */
