/* The dependency graph of a schedule: where each action is, which waits for which, and cycles.
 * pipeline.h defines the edges; check.c and times.c make one for a call. */
#include "parallel/pipeline/pipeline.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

int lk__action_slot(lk_action_kind kind, lk_action_value value)
{
    int message = (int)kind - LK_ACTION_SEND;
    return message < 0 ? (int)kind : LK_ACTION_SEND + 2 * message + (int)value;
}

static int64_t *place_of(const lk__pipeline_graph *g, int stage, int slot, int64_t microbatch)
{
    int64_t row = (int64_t)stage * LK__ACTION_SLOTS + slot;
    return &g->place[row * g->pipeline->microbatches + microbatch];
}

int64_t lk__pipeline_place(const lk__pipeline_graph *g, int stage, int slot, int64_t microbatch)
{
    return *place_of(g, stage, slot, microbatch);
}

/* ---- where actions are ---- */

/* The stage can do this, and has not done it before. */
static lk_status action_place(lk__pipeline_graph *g, int s, int64_t at)
{
    const lk_pipeline *p = g->pipeline;
    lk_action a = p->stage[s].action[at];
    char text[LK_ACTION_TEXT];
    LK_CHECK((unsigned)a.kind < LK_N_ACTION_KINDS, LK_EINVAL,
             "stage %d: action %lld has kind %d, which is none of 0 to %d", s, (long long)at,
             (int)a.kind, LK_N_ACTION_KINDS - 1);
    bool is_message = a.kind >= LK_ACTION_SEND;
    LK_CHECK(!is_message || (unsigned)a.value <= LK_ACTION_GRADIENT, LK_EINVAL,
             "stage %d: action %lld is a message of value %d, which is none of 0 and 1", s,
             (long long)at, (int)a.value);
    LK_CHECK(a.microbatch >= 0 && a.microbatch < p->microbatches, LK_EINVAL,
             "stage %d: action %lld is \"%s\", but there are %lld micro-batches", s, (long long)at,
             lk_action_text(a, text), (long long)p->microbatches);
    LK_CHECK(p->kind != LK_PIPELINE_FORWARD || a.kind == LK_ACTION_FORWARD ||
                 (is_message && a.value == LK_ACTION_ACTIVATION),
             LK_EINVAL, "stage %d does \"%s\", but the schedule is for forward alone", s,
             lk_action_text(a, text));
    bool is_behind = (a.kind == LK_ACTION_RECEIVE) == (a.value == LK_ACTION_GRADIENT);
    int partner = is_behind ? s + 1 : s - 1;
    LK_CHECK(!is_message || (partner >= 0 && partner < p->stages), LK_EINVAL,
             "stage %d does \"%s\", but there is no stage %s it", s, lk_action_text(a, text),
             is_behind ? "behind" : "before");
    int64_t *place = place_of(g, s, lk__action_slot(a.kind, is_message ? a.value : 0),
                              a.microbatch);
    LK_CHECK(*place < 0, LK_EINVAL, "stage %d does \"%s\" twice, as actions %lld and %lld", s,
             lk_action_text(a, text), (long long)*place, (long long)at);
    *place = at;
    return LK_OK;
}

/* Numbers that sizes follow from: at least one action for each micro-batch, so that no table is larger than
 * the lists are. */
static lk_status sizes_check(lk__pipeline_graph *g)
{
    const lk_pipeline *p = g->pipeline;
    LK_CHECK((unsigned)p->kind <= LK_PIPELINE_FORWARD, LK_EINVAL,
             "kind %d of a pipeline is none of 0 to %d", (int)p->kind, LK_PIPELINE_FORWARD);
    LK_CHECK(p->stages >= 1 && p->stage, LK_EINVAL,
             "a pipeline has %d stages%s, it needs at least 1", p->stages,
             p->stage ? "" : " without lists");
    LK_CHECK(p->microbatches >= 0, LK_EINVAL, "a pipeline has %lld micro-batches",
             (long long)p->microbatches);
    for (int s = 0; s < p->stages; s++) {
        const lk_pipeline_stage *list = &p->stage[s];
        LK_CHECK(list->n >= p->microbatches, LK_EINVAL,
                 "stage %d has %lld actions for %lld micro-batches: each needs a forward", s,
                 (long long)list->n, (long long)p->microbatches);
        LK_CHECK(list->n == 0 || list->action, LK_EINVAL, "stage %d has %lld actions and no list",
                 s, (long long)list->n);
        LK_CHECK(list->tapes >= 0, LK_EINVAL, "stage %d has %lld tapes", s, (long long)list->tapes);
        LK_TRY(lk_add_i64(g->n, list->n, &g->n));
    }
    return LK_OK;
}

static lk_status graph_make(lk__pipeline_graph *g)
{
    const lk_pipeline *p = g->pipeline;
    int64_t places;
    LK_TRY(sizes_check(g));
    LK_TRY(lk_product_i64(3, (int64_t[]){p->stages, LK__ACTION_SLOTS, p->microbatches}, &places));
    LK_TRY(lk_alloc(&g->first, (int64_t)p->stages + 1, sizeof *g->first));
    LK_TRY(lk_alloc(&g->place, places, sizeof *g->place));
    LK_TRY(lk_alloc(&g->stage, g->n, sizeof *g->stage));
    memset(g->place, -1, (size_t)places * sizeof *g->place);
    g->first[0] = 0;
    for (int s = 0; s < p->stages; s++) {
        g->first[s + 1] = g->first[s] + p->stage[s].n;
        for (int64_t at = 0; at < p->stage[s].n; at++) {
            g->stage[g->first[s] + at] = s;
            LK_TRY(action_place(g, s, at));
        }
    }
    return LK_OK;
}

lk_status lk__pipeline_graph_make(lk__pipeline_graph *g, const lk_pipeline *pipeline)
{
    *g = (lk__pipeline_graph){.pipeline = pipeline};
    lk_status st = graph_make(g);
    if (st != LK_OK) {
        lk__pipeline_graph_free(g);
        LK_TRY(st);
    }
    return LK_OK;
}

void lk__pipeline_graph_free(lk__pipeline_graph *g)
{
    lk_free(g->first);
    lk_free(g->place);
    lk_free(g->stage);
    lk_free(g->other);
    lk_free(g->order);
    *g = (lk__pipeline_graph){.n = 0};
}

/* ---- who waits for whom ---- */

static lk_action action_at(const lk__pipeline_graph *g, int64_t number)
{
    int s = g->stage[number];
    return g->pipeline->stage[s].action[number - g->first[s]];
}

/* The action whose begin the end of this one waits for; -1: none. */
static int64_t other_of(const lk__pipeline_graph *g, int64_t number, bool rendezvous)
{
    lk_action a = action_at(g, number);
    bool is_receive = a.kind == LK_ACTION_RECEIVE;
    if (!is_receive && !(a.kind == LK_ACTION_WAIT && rendezvous))
        return -1;
    int step = is_receive == (a.value == LK_ACTION_ACTIVATION) ? -1 : 1;
    int partner = g->stage[number] + step;
    int slot = lk__action_slot(is_receive ? LK_ACTION_SEND : LK_ACTION_RECEIVE, a.value);
    int64_t place = lk__pipeline_place(g, partner, slot, a.microbatch);
    return place < 0 ? -1 : g->first[partner] + place;
}

/* What a node waits for, number k of two; -1: nothing. */
static int64_t node_before(const lk__pipeline_graph *g, int64_t node, int k)
{
    int64_t number = node / 2;
    if (node % 2 == 0)
        return k == 0 && number > g->first[g->stage[number]] ? node - 1 : -1;
    if (k == 0)
        return node - 1;
    return g->other[number] < 0 ? -1 : 2 * g->other[number];
}

/* A circle of n nodes, each of which waits for the next.  It goes over two stages: the search comes from a
 * stage to its neighbours, and what it comes back to is that stage, where it closes the circle. */
static lk_status circle_refuse(const lk__pipeline_graph *g, const int64_t *node, int64_t n,
                               bool rendezvous)
{
    int64_t in[2] = {0}, to[2] = {0}; /* actions */
    char in_text[2][LK_ACTION_TEXT], to_text[2][LK_ACTION_TEXT];
    int hops = 0;
    for (int64_t k = 0; k < n && hops < 2; k++) {
        in[hops] = node[k] / 2;
        to[hops] = node[(k + 1) % n] / 2;
        hops += g->stage[in[hops]] != g->stage[to[hops]];
    }
    for (int k = 0; k < 2; k++) {
        lk_action_text(action_at(g, in[k]), in_text[k]);
        lk_action_text(action_at(g, to[k]), to_text[k]);
    }
    int a = g->stage[in[0]] < g->stage[in[1]] ? 0 : 1, b = 1 - a;
    return LK_RAISE(LK_EINVAL,
                    "stages wait in a circle%s: stage %d in \"%s\" waits for stage %d to come to "
                    "\"%s\"; stage %d in \"%s\" waits for stage %d to come to \"%s\"",
                    rendezvous ? " where sends wait for their receives" : "", g->stage[in[a]],
                    in_text[a], g->stage[to[a]], to_text[a], g->stage[in[b]], in_text[b],
                    g->stage[to[b]], to_text[b]);
}

/* ---- order ---- */

/* A search from node to node that is waited for, without recursion. */
typedef struct graph_search {
    uint8_t *looked; /* [2 n] at how many of what it waits for, of each node; or: */
    int64_t *path;   /* [2 n] nodes that wait for each other, the first for the second */
    int64_t depth, done;
} graph_search;

enum { BOTH = 2, ALL_DONE = 3 }; /* two at most are waited for; and all that these wait for, too */

/* Go on with the last node of the path: to one that it waits for, or back. */
static lk_status search_step(lk__pipeline_graph *g, graph_search *f, bool rendezvous)
{
    int64_t node = f->path[f->depth - 1];
    if (f->looked[node] == BOTH) {
        f->looked[node] = ALL_DONE;
        g->order[f->done++] = node;
        f->depth--;
        return LK_OK;
    }
    int64_t next = node_before(g, node, f->looked[node]++);
    if (next < 0 || f->looked[next] == ALL_DONE)
        return LK_OK;
    if (f->looked[next] > 0) { /* it is on the path */
        int64_t at = f->depth - 1;
        while (f->path[at] != next)
            at--;
        return circle_refuse(g, f->path + at, f->depth - at, rendezvous);
    }
    f->path[f->depth++] = next;
    return LK_OK;
}

lk_status lk__pipeline_graph_sort(lk__pipeline_graph *g, bool rendezvous)
{
    graph_search f = {.depth = 0};
    lk_status st;
    LK_TRY_TO(done, lk_alloc_zero(&f.looked, 2 * g->n, sizeof *f.looked));
    LK_TRY_TO(done, lk_alloc(&f.path, 2 * g->n, sizeof *f.path));
    if (!g->other)
        LK_TRY_TO(done, lk_alloc(&g->other, g->n, sizeof *g->other));
    if (!g->order)
        LK_TRY_TO(done, lk_alloc(&g->order, 2 * g->n, sizeof *g->order));
    for (int64_t i = 0; i < g->n; i++)
        g->other[i] = other_of(g, i, rendezvous);
    for (int64_t node = 0; node < 2 * g->n; node++) {
        if (f.looked[node] == ALL_DONE)
            continue;
        f.path[f.depth++] = node;
        while (f.depth > 0)
            LK_TRY_TO(done, search_step(g, &f, rendezvous));
    }
done:
    lk_free(f.looked);
    lk_free(f.path);
    return st;
}
