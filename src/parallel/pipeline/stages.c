/* Where a model is cut into stages: by counted operations and bytes, or where its file says so.
 *
 * A layer costs its multiplications and additions of a sample, forward, and for each element that it gives
 * what moving that costs; a cut costs what crosses it, on both of its sides.  Of all ways to cut the list,
 * those are taken whose dearest stage costs least, or little more, and of these one where least crosses.
 * Layers marked with `stage: true` are where stages may begin: where there are more marks than cuts these are
 * chosen among them, where there are fewer all are used and the other cuts are found by the costs.
 *
 * lk_plan_new() calls it, on each rank; it is arithmetic on whole numbers, equal everywhere.
 */
#include "parallel/pipeline/stages.h"

#include "nn/model.h"

#include <lockstep/extra/alloc.h>

/* In operations: what an element costs that a layer gives, and one that goes to another rank.  A stage may cost
 * 1/SLACK more than the dearest must, to send less. */
enum { MOVED = 8, SENT = 64, SLACK = 20 };

#define MOST (INT64_C(1) << 48) /* that a layer, or a cut, is said to cost */

static int64_t times(int64_t a, int64_t b)
{
    return b > 0 && a > MOST / b ? MOST : a * b;
}

static int64_t at_most(int64_t cost)
{
    return cost < MOST ? cost : MOST;
}

static int64_t elements_of(lk_tensor_type type)
{
    int64_t n = 0;
    return lk_shape_count(type.shape, &n) == LK_OK ? n : 0;
}

/* How often a layer uses each of its parameters for a sample. */
static int64_t uses_of(const lk_layer_instance *l)
{
    lk_shape shape = l->summed == LK_SUMMED_IN || l->n_carries > 0 ? l->in.shape : l->out.shape;
    int64_t n = 1;
    if (lk__layer_is_by_position(l))
        return 1;
    for (int d = 0; d < shape.ndim - 1; d++)
        n = times(n, shape.dim[d]);
    return n;
}

/* Of a layer and those within it. */
static int64_t layer_cost(const lk__net *net, int64_t number)
{
    const lk_layer_instance *l = &net->instance[number];
    int64_t cost = times(MOVED, elements_of(l->out));
    for (int i = 0; i < l->n_params && !l->layer->indices; i++) { /* rows are looked up */
        lk_slab_slice slice;
        if (lk_slab_layout_slice(net->params_layout, net->use[l->param + i].param, &slice) == LK_OK)
            cost = at_most(cost + times(2 * uses_of(l), slice.count));
    }
    for (int k = 0; k < l->n_lists; k++)
        for (int64_t i = 0; i < net->list[l->list[k]].n; i++)
            cost = at_most(cost + layer_cost(net, net->list[l->list[k]].instance[i]));
    return cost;
}

/* The model as far as cutting goes. */
typedef struct costs {
    int64_t layers;
    int64_t *sum;  /* [layers + 1] of all before each */
    int64_t *sent; /* [layers + 1] of a cut before each */
    /* [stages + 1][layers + 1] the least that the dearest of so many first stages costs, which have so many
     * layers, and where the last of them begins. */
    int64_t *least;
    int64_t *begin;
    int64_t *marks; /* [layers + 1] layers with a mark before each; the first needs none */
} costs;

/* Whether layers [from, to) can be a stage, of a model with `cuts` cuts. */
static bool is_stage(const costs *c, int cuts, int64_t from, int64_t to)
{
    int64_t marks = c->marks[c->layers], inside = c->marks[to] - c->marks[from + 1];
    bool marked = to == c->layers || c->marks[to + 1] > c->marks[to];
    return (marks < cuts || marked) && (marks > cuts || inside == 0);
}

static lk_status costs_make(const lk_model *model, int stages, lk_arena *arena, costs *c)
{
    const lk__net *net = model->net;
    const lk__list *list = &net->list[0];
    c->layers = list->n;
    LK_TRY(lk_arena_alloc(arena, &c->sum, 2 * (c->layers + 1), sizeof *c->sum));
    LK_TRY(lk_arena_alloc(arena, &c->marks, c->layers + 1, sizeof *c->marks));
    LK_TRY(lk_arena_alloc(arena, &c->least, (stages + 1) * (c->layers + 1), sizeof *c->least));
    LK_TRY(lk_arena_alloc(arena, &c->begin, (stages + 1) * (c->layers + 1), sizeof *c->begin));
    c->sent = c->sum + c->layers + 1;
    for (int64_t i = 0; i < c->layers; i++) {
        const lk_layer_instance *l = &net->instance[list->instance[i]];
        c->sum[i + 1] = c->sum[i] + layer_cost(net, list->instance[i]);
        c->marks[i + 1] = c->marks[i] + (i > 0 && model->layer[i].stage);
        /* Before an element-wise layer as much crosses as behind it, and it may go with the one before. */
        int64_t weight = l->reach == LK_REACH_ELEMENT && l->n_lists == 0 ? 2 * SENT : SENT;
        c->sent[i] = i == 0 ? 0 : times(weight, elements_of(l->in));
    }
    return LK_OK;
}

/* The least for the first `s` stages, from those for one fewer: of the dearest; or, where no stage may cost more
 * than `limit`, of all that crosses cuts. */
static void stage_add(int stages, int s, int64_t limit, costs *c)
{
    const int64_t n = c->layers + 1;
    for (int64_t to = s; to < n; to++) {
        int64_t *best = &c->least[s * n + to];
        *best = -1;
        for (int64_t from = s - 1; from < to; from++) {
            int64_t before = s > 1 ? c->least[(s - 1) * n + from] : from == 0 ? 0 : -1;
            int64_t own = c->sum[to] - c->sum[from] + c->sent[from] + c->sent[to];
            if (before < 0 || !is_stage(c, stages - 1, from, to) || (limit >= 0 && own > limit))
                continue;
            int64_t all = limit >= 0 ? before + c->sent[to] : own > before ? own : before;
            if (*best < 0 || all < *best) {
                *best = all;
                c->begin[s * n + to] = from;
            }
        }
    }
}

lk_status lk__stages_cut(const lk_model *model, int stages, int64_t *first)
{
    lk_arena *arena = NULL;
    costs c = {.layers = model->net->list[0].n};
    LK_CHECK(stages <= c.layers, LK_EINVAL,
             "parallel.stages is %d, but the model has %lld layer%s in its list: a stage has at "
             "least one, so take at most %lld",
             stages, (long long)c.layers, c.layers == 1 ? "" : "s", (long long)c.layers);
    LK_TRY(lk_arena_new(&arena));
    lk_status st = costs_make(model, stages, arena, &c);
    for (int s = 1; st == LK_OK && s <= stages; s++)
        stage_add(stages, s, -1, &c);
    int64_t dearest = st == LK_OK ? c.least[(stages + 1) * (c.layers + 1) - 1] : 0;
    for (int s = 1; st == LK_OK && s <= stages; s++)
        stage_add(stages, s, dearest + dearest / SLACK, &c);
    first[stages] = c.layers;
    for (int s = stages; st == LK_OK && s > 0; s--)
        first[s - 1] = c.begin[s * (c.layers + 1) + first[s]];
    lk_arena_free(arena);
    return LK_TRACE(st);
}
