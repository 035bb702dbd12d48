/* Schedules of pipelines: the computations of each stage by arithmetic, then messages around them.
 *
 * Of 4 stages and 6 micro-batches, a column being a unit of time, digits forwards, small letters backwards
 * and capitals the gradients of weights:
 *
 *     1f1b                                 zb1p
 *     |0123......aa4bb5cc.dd.ee.ff|        |0123...aA4bB5cCdDeEfF|
 *     |.012....aa3bb4cc5dd.ee.ff..|        |.012..a3bA4cB5dCeDfEF|
 *     |..01..aa2bb3cc4dd5ee.ff....|        |..01.a2b3cA4dB5eCfDEF|
 *     |...0aa1bb2cc3dd4ee5ff......|        |...0a1b2c3dA4eB5fCDEF|
 */
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/pipeline.h>

#include <stdio.h>

enum { MOST_MICROBATCHES = INT32_MAX }; /* they are tags of messages */

const char *lk_pipeline_name(lk_pipeline_kind kind)
{
    static const char *const names[] = {[LK_PIPELINE_1F1B] = "1f1b",
                                        [LK_PIPELINE_GPIPE] = "gpipe",
                                        [LK_PIPELINE_ZB1P] = "zb1p",
                                        [LK_PIPELINE_FORWARD] = "forward"};
    return (unsigned)kind <= LK_PIPELINE_FORWARD ? names[kind] : "?";
}

const char *lk_action_text(lk_action a, char out[LK_ACTION_TEXT])
{
    static const char *const names[] = {[LK_ACTION_FORWARD] = "forward",
                                        [LK_ACTION_BACKWARD] = "backward",
                                        [LK_ACTION_BACKWARD_INPUT] = "backward-input",
                                        [LK_ACTION_BACKWARD_WEIGHTS] = "backward-weights",
                                        [LK_ACTION_SEND] = "send",
                                        [LK_ACTION_RECEIVE] = "receive",
                                        [LK_ACTION_WAIT] = "wait for the send of"};
    bool is_known = (unsigned)a.kind < LK_N_ACTION_KINDS;
    const char *value = a.value == LK_ACTION_GRADIENT ? " gradient" : " activation";
    snprintf(out, LK_ACTION_TEXT, "%s%s %lld", is_known ? names[a.kind] : "?",
             is_known && a.kind >= LK_ACTION_SEND ? value : "", (long long)a.microbatch);
    return out;
}

/* ---- computations ---- */

static void action_add(lk_pipeline_stage *list, lk_action_kind kind, lk_action_value value,
                       int64_t microbatch)
{
    list->action[list->n++] = (lk_action){kind, value, microbatch};
}

static void compute_add(lk_pipeline_stage *list, lk_action_kind kind, int64_t microbatch)
{
    action_add(list, kind, LK_ACTION_ACTIVATION, microbatch);
}

/* Forward and backward in turn, behind some forwards ahead; 1f1b and zb1p. */
static void turns_add(const lk_pipeline_spec *spec, int s, lk_pipeline_stage *list)
{
    bool is_split = spec->kind == LK_PIPELINE_ZB1P;
    int64_t m = spec->microbatches, lag = lk_pipeline_lag(spec, s), weights = 0;
    int64_t ahead = m < spec->stages - 1 - s ? m : spec->stages - 1 - s;
    for (int64_t i = 0; i < ahead; i++)
        compute_add(list, LK_ACTION_FORWARD, i);
    for (int64_t i = 0; i < m; i++) {
        bool has_forward = ahead + i < m;
        if (has_forward)
            compute_add(list, LK_ACTION_FORWARD, ahead + i);
        compute_add(list, is_split ? LK_ACTION_BACKWARD_INPUT : LK_ACTION_BACKWARD, i);
        /* Behind the last forward there is a gap before each gradient that comes. */
        if (is_split && (i + 1 - weights > lag || (!has_forward && i + 1 < m)))
            compute_add(list, LK_ACTION_BACKWARD_WEIGHTS, weights++);
    }
    for (; is_split && weights < m; weights++)
        compute_add(list, LK_ACTION_BACKWARD_WEIGHTS, weights);
}

static void computations_add(const lk_pipeline_spec *spec, int s, lk_pipeline_stage *list)
{
    if (spec->kind == LK_PIPELINE_1F1B || spec->kind == LK_PIPELINE_ZB1P) {
        turns_add(spec, s, list);
        return;
    }
    for (int64_t i = 0; i < spec->microbatches; i++)
        compute_add(list, LK_ACTION_FORWARD, i);
    for (int64_t i = 0; spec->kind == LK_PIPELINE_GPIPE && i < spec->microbatches; i++)
        compute_add(list, LK_ACTION_BACKWARD, i);
}

static int64_t computations_of(const lk_pipeline_spec *spec)
{
    static const int64_t each[] = {[LK_PIPELINE_1F1B] = 2,
                                   [LK_PIPELINE_GPIPE] = 2,
                                   [LK_PIPELINE_ZB1P] = 3,
                                   [LK_PIPELINE_FORWARD] = 1};
    return spec->microbatches * each[spec->kind];
}

/* ---- messages ---- */

static int64_t messages_of(const lk_pipeline_spec *spec, int s)
{
    bool is_trained = spec->kind != LK_PIPELINE_FORWARD;
    int64_t before = is_trained ? 3 : 1, behind = is_trained ? 3 : 2;
    return spec->microbatches * ((s > 0 ? before : 0) + (s + 1 < spec->stages ? behind : 0));
}

/* Begin to send a value of micro-batch i, once the one sent before, `*open` (-1: none), has gone. */
static void send_add(lk_pipeline_stage *list, lk_action_value value, int64_t i, int64_t *open)
{
    if (*open >= 0)
        action_add(list, LK_ACTION_WAIT, value, *open);
    action_add(list, LK_ACTION_SEND, value, i);
    *open = i;
}

/* Copy the computations of a stage with the messages around them. */
static void messages_add(const lk_pipeline_spec *spec, int s, const lk_pipeline_stage *computed,
                         lk_pipeline_stage *list)
{
    bool has_before = s > 0, has_behind = s + 1 < spec->stages;
    bool is_trained = spec->kind != LK_PIPELINE_FORWARD;
    int64_t gradient = -1,
            activation = -1; /* under way, and not waited for where a tape is given back */
    for (int64_t k = 0; k < computed->n; k++) {
        lk_action a = computed->action[k];
        int64_t i = a.microbatch;
        bool is_forward = a.kind == LK_ACTION_FORWARD;
        bool is_weights = a.kind == LK_ACTION_BACKWARD_WEIGHTS;
        if (is_forward && has_before)
            action_add(list, LK_ACTION_RECEIVE, LK_ACTION_ACTIVATION, i);
        if (!is_forward && !is_weights && has_behind)
            action_add(list, LK_ACTION_RECEIVE, LK_ACTION_GRADIENT, i);
        list->action[list->n++] = a;
        if (is_forward && has_behind && is_trained)
            action_add(list, LK_ACTION_SEND, LK_ACTION_ACTIVATION, i);
        else if (is_forward && has_behind)
            send_add(list, LK_ACTION_ACTIVATION, i, &activation);
        if (!is_forward && !is_weights && has_before)
            send_add(list, LK_ACTION_GRADIENT, i, &gradient);
        if ((is_weights || a.kind == LK_ACTION_BACKWARD) && has_behind)
            action_add(list, LK_ACTION_WAIT, LK_ACTION_ACTIVATION, i);
    }
    if (activation >= 0)
        action_add(list, LK_ACTION_WAIT, LK_ACTION_ACTIVATION, activation);
    if (gradient >= 0)
        action_add(list, LK_ACTION_WAIT, LK_ACTION_GRADIENT, gradient);
}

/* ---- lists ---- */

static lk_status spec_check(const lk_pipeline_spec *spec)
{
    LK_CHECK((unsigned)spec->kind <= LK_PIPELINE_FORWARD, LK_EINVAL,
             "kind %d of a pipeline is none of 0 to %d", (int)spec->kind, LK_PIPELINE_FORWARD);
    LK_CHECK(spec->stages >= 1, LK_EINVAL, "a pipeline has %d stages, it needs at least 1",
             spec->stages);
    LK_CHECK(spec->microbatches >= 0 && spec->microbatches <= MOST_MICROBATCHES, LK_EINVAL,
             "a pipeline has %lld micro-batches, which must be 0 to %d",
             (long long)spec->microbatches, MOST_MICROBATCHES);
    for (int s = 0; spec->lag && s < spec->stages; s++)
        LK_CHECK(spec->lag[s] >= 0, LK_EINVAL, "the lag of stage %d is %lld, which is below 0", s,
                 (long long)spec->lag[s]);
    return LK_OK;
}

static lk_status stage_make(const lk_pipeline_spec *spec, int s, lk_action *room,
                            lk_pipeline_stage *list)
{
    lk_pipeline_stage computed = {.action = room};
    LK_TRY(lk_alloc(&list->action, computations_of(spec) + messages_of(spec, s),
                    sizeof *list->action));
    list->tapes = lk_pipeline_tapes(spec, s);
    computations_add(spec, s, &computed);
    messages_add(spec, s, &computed, list);
    return LK_OK;
}

static lk_status stages_make(const lk_pipeline_spec *spec, lk_pipeline *p)
{
    lk_action *room = NULL;
    lk_status st = LK_OK;
    LK_TRY(lk_alloc_zero(&p->stage, p->stages, sizeof *p->stage));
    LK_TRY(lk_alloc(&room, computations_of(spec), sizeof *room));
    for (int s = 0; s < p->stages; s++)
        LK_TRY_TO(done, stage_make(spec, s, room, &p->stage[s]));
done:
    lk_free(room);
    return st;
}

lk_status lk_pipeline_new(const lk_pipeline_spec *spec, lk_pipeline **out)
{
    lk_pipeline *p = NULL;
    *out = NULL;
    LK_TRY(spec_check(spec));
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    p->kind = spec->kind;
    p->stages = spec->stages;
    p->microbatches = spec->microbatches;
    lk_status st = stages_make(spec, p);
    if (st != LK_OK) {
        lk_pipeline_free(p);
        LK_TRY(st);
    }
    *out = p;
    return LK_OK;
}

void lk_pipeline_free(lk_pipeline *p)
{
    if (!p)
        return;
    for (int s = 0; p->stage && s < p->stages; s++)
        lk_free(p->stage[s].action);
    lk_free(p->stage);
    lk_free(p);
}
