/* lk_pipeline_check(): whether a schedule does all of the work and can end, whether the library or
 * a program wrote it: first each stage on its own, then each pair of neighbours.  Arithmetic, on
 * any thread. */
#include "parallel/pipeline/pipeline.h"

#include <lockstep/extra/alloc.h>

/* A stage and what it needs of its neighbours. */
typedef struct checked_stage {
    const lk__pipeline_graph *graph;
    int stage;
    int64_t microbatches, tapes;
    bool has_before, has_behind, is_trained;
} checked_stage;

static int64_t place_of(const checked_stage *c, lk_action_kind kind, lk_action_value value,
                        int64_t i)
{
    return lk__pipeline_place(c->graph, c->stage, lk__action_slot(kind, value), i);
}

/* Of computations. */
static int64_t computed_at(const checked_stage *c, lk_action_kind kind, int64_t i)
{
    return place_of(c, kind, LK_ACTION_ACTIVATION, i);
}

static bool is_split(const checked_stage *c, int64_t i)
{
    return computed_at(c, LK_ACTION_BACKWARD, i) < 0;
}

/* ---- all there, in order ---- */

/* Both are there, one before the other. */
static lk_status pair_check(const checked_stage *c, lk_action first, lk_action second)
{
    int64_t a = place_of(c, first.kind, first.value, first.microbatch);
    int64_t b = place_of(c, second.kind, second.value, second.microbatch);
    char one[LK_ACTION_TEXT], other[LK_ACTION_TEXT];
    lk_action_text(first, one);
    lk_action_text(second, other);
    LK_CHECK(a >= 0, LK_EINVAL, "stage %d: there is no \"%s\", which must come before \"%s\"",
             c->stage, one, other);
    LK_CHECK(b >= 0, LK_EINVAL, "stage %d: there is no \"%s\", which must come behind \"%s\"",
             c->stage, other, one);
    LK_CHECK(a < b, LK_EINVAL, "stage %d: \"%s\" comes before \"%s\"", c->stage, other, one);
    return LK_OK;
}

/* One that is sent: behind what computes it, and waited for later. */
static lk_status send_check(const checked_stage *c, lk_action computed, lk_action_value value)
{
    lk_action send = {LK_ACTION_SEND, value, computed.microbatch};
    LK_TRY(pair_check(c, computed, send));
    return LK_TRACE(pair_check(c, send, (lk_action){LK_ACTION_WAIT, value, computed.microbatch}));
}

/* Either both halves of backward, or the whole. */
static lk_status halves_check(const checked_stage *c, int64_t i)
{
    bool has_input = computed_at(c, LK_ACTION_BACKWARD_INPUT, i) >= 0;
    bool has_weights = computed_at(c, LK_ACTION_BACKWARD_WEIGHTS, i) >= 0;
    LK_CHECK(is_split(c, i) || (!has_input && !has_weights), LK_EINVAL,
             "stage %d does backward of micro-batch %lld whole and in halves", c->stage,
             (long long)i);
    LK_CHECK(!is_split(c, i) || has_input || has_weights, LK_EINVAL,
             "stage %d does no backward of micro-batch %lld", c->stage, (long long)i);
    return LK_OK;
}

static lk_status microbatch_check(const checked_stage *c, int64_t i)
{
    lk_action forward = {LK_ACTION_FORWARD, LK_ACTION_ACTIVATION, i}, backward = forward;
    lk_action received = {LK_ACTION_RECEIVE, LK_ACTION_ACTIVATION, i};
    LK_CHECK(computed_at(c, LK_ACTION_FORWARD, i) >= 0, LK_EINVAL,
             "stage %d does no forward of micro-batch %lld", c->stage, (long long)i);
    if (c->has_before)
        LK_TRY(pair_check(c, received, forward));
    if (c->has_behind)
        LK_TRY(send_check(c, forward, LK_ACTION_ACTIVATION));
    if (!c->is_trained)
        return LK_OK;
    LK_TRY(halves_check(c, i));
    backward.kind = is_split(c, i) ? LK_ACTION_BACKWARD_INPUT : LK_ACTION_BACKWARD;
    LK_TRY(pair_check(c, forward, backward));
    if (c->has_behind) {
        received.value = LK_ACTION_GRADIENT;
        LK_TRY(pair_check(c, forward, received));
        LK_TRY(pair_check(c, received, backward));
    }
    if (c->has_before)
        LK_TRY(send_check(c, backward, LK_ACTION_GRADIENT));
    if (is_split(c, i))
        LK_TRY(pair_check(c, backward,
                          (lk_action){LK_ACTION_BACKWARD_WEIGHTS, LK_ACTION_ACTIVATION, i}));
    return LK_OK;
}

/* ---- one micro-batch behind the other ---- */

/* Where the gradients of weights are added up. */
static int64_t weights_at(const checked_stage *c, int64_t i)
{
    return computed_at(c, is_split(c, i) ? LK_ACTION_BACKWARD_WEIGHTS : LK_ACTION_BACKWARD, i);
}

static lk_status ascending_check(const checked_stage *c, int64_t i)
{
    LK_CHECK(computed_at(c, LK_ACTION_FORWARD, i - 1) < computed_at(c, LK_ACTION_FORWARD, i),
             LK_EINVAL,
             "stage %d: \"forward %lld\" comes before \"forward %lld\": losses are added up in "
             "ascending order",
             c->stage, (long long)i, (long long)(i - 1));
    LK_CHECK(!c->is_trained || weights_at(c, i - 1) < weights_at(c, i), LK_EINVAL,
             "stage %d: the gradients of weights of micro-batch %lld come before those of %lld: "
             "they are added up in ascending order",
             c->stage, (long long)i, (long long)(i - 1));
    return LK_OK;
}

/* The first action that needs the tape of a micro-batch, and the last: behind it the tape is given back. */
static int64_t tape_taken(const checked_stage *c, int64_t i)
{
    return c->has_before ? place_of(c, LK_ACTION_RECEIVE, LK_ACTION_ACTIVATION, i)
                         : computed_at(c, LK_ACTION_FORWARD, i);
}

static int64_t tape_given_back(const checked_stage *c, int64_t i)
{
    int64_t at = c->is_trained ? weights_at(c, i) : computed_at(c, LK_ACTION_FORWARD, i);
    int64_t gone = c->has_behind ? place_of(c, LK_ACTION_WAIT, LK_ACTION_ACTIVATION, i) : -1;
    return at > gone ? at : gone;
}

static lk_status tapes_check(const checked_stage *c, int64_t i)
{
    int64_t taken = tape_taken(c, i), before = i - c->tapes;
    char text[LK_ACTION_TEXT];
    const lk_action *action = c->graph->pipeline->stage[c->stage].action;
    LK_CHECK(c->tapes > 0, LK_EINVAL, "stage %d: \"%s\" needs a tape, and there is none", c->stage,
             lk_action_text(action[taken], text));
    LK_CHECK(before < 0 || tape_given_back(c, before) < taken, LK_EINVAL,
             "stage %d: \"%s\" needs the tape of micro-batch %lld, which is not given back yet: "
             "the stage has %lld",
             c->stage, lk_action_text(action[taken], text), (long long)before, (long long)c->tapes);
    return LK_OK;
}

static lk_status gradients_check(const checked_stage *c, int64_t i)
{
    int64_t before = i - LK_PIPELINE_GRADIENTS;
    if (!c->is_trained || !c->has_before || before < 0)
        return LK_OK;
    lk_action backward = {is_split(c, i) ? LK_ACTION_BACKWARD_INPUT : LK_ACTION_BACKWARD,
                          LK_ACTION_ACTIVATION, i};
    char text[LK_ACTION_TEXT];
    LK_CHECK(place_of(c, LK_ACTION_WAIT, LK_ACTION_GRADIENT, before) <
                 computed_at(c, backward.kind, i),
             LK_EINVAL,
             "stage %d: \"%s\" needs the buffer of gradient %lld, whose send is not waited for "
             "yet: there are %d",
             c->stage, lk_action_text(backward, text), (long long)before, LK_PIPELINE_GRADIENTS);
    return LK_OK;
}

static lk_status stage_check(const lk__pipeline_graph *g, int s)
{
    const lk_pipeline *p = g->pipeline;
    checked_stage c = {.graph = g,
                       .stage = s,
                       .microbatches = p->microbatches,
                       .tapes = p->stage[s].tapes,
                       .has_before = s > 0,
                       .has_behind = s + 1 < p->stages,
                       .is_trained = p->kind != LK_PIPELINE_FORWARD};
    for (int64_t i = 0; i < c.microbatches; i++)
        LK_TRY(microbatch_check(&c, i));
    for (int64_t i = 1; i < c.microbatches; i++)
        LK_TRY(ascending_check(&c, i));
    for (int64_t i = 0; i < c.microbatches; i++) {
        LK_TRY(tapes_check(&c, i));
        LK_TRY(gradients_check(&c, i));
    }
    return LK_OK;
}

/* ---- two stages ---- */

/* The next action of a kind in a stage's list, from `*at` on, which moves behind it; NULL: none. */
static const lk_action *next_of(const lk_pipeline_stage *list, lk_action_kind kind,
                                lk_action_value value, int64_t *at)
{
    while (*at < list->n) {
        const lk_action *a = &list->action[(*at)++];
        if (a->kind == kind && a->value == value)
            return a;
    }
    return NULL;
}

/* What one stage sends, the other receives in the same order; as many there are already. */
static lk_status order_check(const lk_pipeline *p, int from, int to, lk_action_value value)
{
    int64_t at = 0, there = 0;
    for (int64_t k = 0;; k++) {
        const lk_action *sent = next_of(&p->stage[from], LK_ACTION_SEND, value, &at);
        const lk_action *received = next_of(&p->stage[to], LK_ACTION_RECEIVE, value, &there);
        if (!sent || !received)
            return LK_OK;
        char one[LK_ACTION_TEXT], other[LK_ACTION_TEXT];
        LK_CHECK(sent->microbatch == received->microbatch, LK_EINVAL,
                 "message %lld from stage %d to stage %d: one does \"%s\", the other \"%s\"",
                 (long long)k, from, to, lk_action_text(*sent, one),
                 lk_action_text(*received, other));
    }
}

lk_status lk__pipeline_graph_check(lk__pipeline_graph *g, const lk_pipeline *p)
{
    LK_TRY(lk__pipeline_graph_make(g, p));
    for (int s = 0; s < p->stages; s++)
        LK_TRY(stage_check(g, s));
    for (int s = 0; s + 1 < p->stages; s++) {
        LK_TRY(order_check(p, s, s + 1, LK_ACTION_ACTIVATION));
        LK_TRY(order_check(p, s + 1, s, LK_ACTION_GRADIENT));
    }
    LK_TRY(lk__pipeline_graph_sort(g, false));
    return LK_TRACE(lk__pipeline_graph_sort(g, true));
}

lk_status lk_pipeline_check(const lk_pipeline *pipeline)
{
    lk__pipeline_graph g;
    lk_status st = lk__pipeline_graph_check(&g, pipeline);
    lk__pipeline_graph_free(&g);
    return LK_TRACE(st);
}
