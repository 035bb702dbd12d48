/* When each action of a schedule begins and ends: the longest way through its graph (pipeline.h).
 *
 *     an action begins     when the one before it on its stage ends
 *     a computation ends   its time later
 *     a send ends          at once
 *     a receive ends       when its message is there: `message` behind the send's begin, or, under
 *                          rendezvous, behind the later of the send's begin and its own
 *     a wait ends          at once, or, under rendezvous, when the message is there
 */
#include "base/fpenv.h"
#include "parallel/pipeline/pipeline.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How long an action of a stage takes, without what it waits for. */
static int64_t time_of(const lk_stage_times *t, lk_action_kind kind)
{
    switch (kind) {
    case LK_ACTION_FORWARD: return t->forward;
    case LK_ACTION_BACKWARD: return t->backward;
    case LK_ACTION_BACKWARD_INPUT: return t->backward_input;
    case LK_ACTION_BACKWARD_WEIGHTS: return t->backward_weights;
    default: return 0;
    }
}

/* No time is below 0, and all one behind the other fit, which is more than any begin or end. */
static lk_status times_check(const lk_pipeline *p, const lk_stage_times *stage)
{
    int64_t sum = 0;
    for (int s = 0; s < p->stages; s++) {
        const lk_stage_times *t = &stage[s];
        LK_CHECK(t->forward >= 0 && t->backward >= 0 && t->backward_input >= 0 &&
                     t->backward_weights >= 0 && t->message >= 0,
                 LK_EINVAL, "a time of stage %d is below 0", s);
        for (int64_t i = 0; i < p->stage[s].n; i++) {
            LK_TRY(lk_add_i64(sum, time_of(t, p->stage[s].action[i].kind), &sum));
            LK_TRY(lk_add_i64(sum, t->message, &sum));
        }
    }
    return LK_OK;
}

/* Where the message of a receive or a wait comes from. */
static int sender_of(lk_action a, int stage)
{
    if (a.kind == LK_ACTION_WAIT)
        return stage;
    return a.value == LK_ACTION_ACTIVATION ? stage - 1 : stage + 1;
}

/* When what a receive or a wait is for is there; both of its ends have begun as far as they must. */
static int64_t message_there(const lk__pipeline_graph *g, lk_pipeline_times *out, int64_t number,
                             const lk_stage_times *stage, bool rendezvous)
{
    int s = g->stage[number];
    lk_action a = g->pipeline->stage[s].action[number - g->first[s]];
    int from = sender_of(a, s), to = from + (a.value == LK_ACTION_ACTIVATION ? 1 : -1);
    int sent = lk__action_slot(LK_ACTION_SEND, a.value);
    int received = lk__action_slot(LK_ACTION_RECEIVE, a.value);
    int64_t begin = out->span[from][lk__pipeline_place(g, from, sent, a.microbatch)].begin;
    if (rendezvous)
        begin = most(begin, out->span[to][lk__pipeline_place(g, to, received, a.microbatch)].begin);
    return begin + stage[from].message;
}

static void node_time(const lk__pipeline_graph *g, lk_pipeline_times *out, int64_t node,
                      const lk_stage_times *stage, bool rendezvous)
{
    int64_t number = node / 2;
    int s = g->stage[number];
    int64_t at = number - g->first[s];
    lk_action_span *span = &out->span[s][at];
    lk_action_kind kind = g->pipeline->stage[s].action[at].kind;
    if (node % 2 == 0) {
        span->begin = at > 0 ? span[-1].end : 0;
        return;
    }
    span->end = span->begin + time_of(&stage[s], kind);
    if (kind == LK_ACTION_RECEIVE || (kind == LK_ACTION_WAIT && rendezvous))
        span->end = most(span->end, message_there(g, out, number, stage, rendezvous));
    out->total = most(out->total, span->end);
}

static void sums_find(const lk_pipeline *p, const lk_stage_times *stage, lk_pipeline_times *out)
{
    for (int s = 0; s < p->stages; s++) {
        int64_t busy = 0;
        for (int64_t i = 0; i < p->stage[s].n; i++)
            busy += time_of(&stage[s], p->stage[s].action[i].kind);
        out->busy = most(out->busy, busy);
    }
    if (out->busy > 0)
        out->bubble = (double)(out->total - out->busy) / (double)out->busy;
}

static lk_status times_make(const lk__pipeline_graph *g, const lk_stage_times *stage,
                            bool rendezvous, lk_pipeline_times *out)
{
    LK_TRY(lk_alloc(&out->span, out->stages, sizeof(lk_action_span *)));
    out->span[0] = NULL;
    LK_TRY(lk_alloc(&out->span[0], g->n, sizeof **out->span));
    for (int s = 1; s < out->stages; s++)
        out->span[s] = out->span[0] + g->first[s];
    for (int64_t i = 0; i < 2 * g->n; i++)
        node_time(g, out, g->order[i], stage, rendezvous);
    sums_find(g->pipeline, stage, out);
    return LK_OK;
}

lk_status lk_pipeline_times_new(const lk_pipeline *pipeline, const lk_stage_times *stage,
                                bool rendezvous, lk_pipeline_times **out)
{
    LK_FP_GUARD();
    lk__pipeline_graph g;
    lk_pipeline_times *times = NULL;
    lk_status st;
    *out = NULL;
    LK_TRY_TO(done, lk__pipeline_graph_check(&g, pipeline));
    LK_TRY_TO(done, times_check(pipeline, stage));
    LK_TRY_TO(done, lk_alloc_zero(&times, 1, sizeof *times));
    times->stages = pipeline->stages;
    LK_TRY_TO(done, times_make(&g, stage, rendezvous, times));
    *out = times;
    times = NULL;
done:
    lk_pipeline_times_free(times);
    lk__pipeline_graph_free(&g);
    return st;
}

void lk_pipeline_times_free(lk_pipeline_times *times)
{
    if (!times)
        return;
    if (times->span)
        lk_free(times->span[0]);
    lk_free(times->span);
    lk_free(times);
}
