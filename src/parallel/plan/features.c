/* What a plan says of features: which layers have a part of them on each rank, and how values get from one
 * to the next.
 *
 * A value is replicated, or varying along its last axis (features.h).  Which it is follows from model and
 * pieces alone, because it decides bits:
 *
 *     a layer whose units are cut    takes all features, and gives a varying value
 *     one whose inputs are cut       takes a varying value, and gives all
 *     each feature for itself        gives what it takes; where its parameters are cut, a varying value
 *     any other                      takes and gives all
 *
 * Where two do not agree the value changes before the second, by a node; the lists of a layer whose results
 * are added end alike.  All nodes are then checked to go together, values and gradients, before the
 * first pass.  lk_plan_new() calls this, on each rank; it is arithmetic.
 */
#include "parallel/plan/features.h"

#include "base/memory/grow.h"
#include "dist/common/features.h"
#include "nn/model.h"

typedef struct walk {
    lk_plan *plan;
    const lk__net *net;
    lk_feature_step *step;
    int64_t n_steps, max_steps;
} walk;

/* ---- nodes, for the check ---- */

/* One more node, which reads *at and a second value, and becomes *at. */
static lk_status node_add(walk *w, const char *name, const char *kind, int64_t second, int64_t *at)
{
    LK_TRY(lk__grow(&w->step, &w->max_steps, w->n_steps + 1, sizeof *w->step));
    w->step[w->n_steps] = (lk_feature_step){name, kind, {*at, second}};
    *at = w->n_steps++;
    return LK_OK;
}

static lk_status change_add(walk *w, const char *name, lk_feature_change change, int64_t *at)
{
    static const char *const kinds[] = {[LK_FEATURES_GATHER] = "gather",
                                        [LK_FEATURES_GATHER_SUM] = "gather_sum",
                                        [LK_FEATURES_COPY] = "copy",
                                        [LK_FEATURES_TAKE] = "take"};
    if (change != LK_FEATURES_STAY)
        LK_TRY(node_add(w, name, kinds[change], LK_FEATURE_INPUT, at));
    return LK_OK;
}

/* The kind of node that a layer is which works on each feature for itself. */
static const char *each_kind_of(const lk_layer_instance *l, const lk_feature_part *f)
{
    if (l->window.ndim > 0)
        return l->n_params == 0 ? "pool" : f->x ? "conv_groups" : "element_wise";
    if (l->reach == LK_REACH_SAMPLE) /* of all its positions */
        return "pool";
    if (l->layer->flags & LK_LAYER_RANDOM)
        return "dropout";
    return l->reach == LK_REACH_BATCH ? "batch_norm" : "element_wise";
}

/* The kind of node that a layer is. */
static const char *kind_of(const lk_layer_instance *l, const lk_feature_part *f)
{
    bool indices = !lk_dtype_is_real(l->in.dtype), conv = l->window.ndim > 0;
    if (f->kind == LK_FEATURES_WHOLE)
        return "whole";
    if (f->kind == LK_FEATURES_EACH)
        return each_kind_of(l, f);
    if (f->kind == LK_FEATURES_IN)
        return indices ? "embedding_rows" : "linear_in_partial";
    if (indices)
        return "embedding_units";
    if (l->n_carries > 0)
        return f->sum == LK_FEATURE_PARTIAL     ? "recurrent_partial"
               : f->sum == LK_FEATURE_SCATTERED ? "recurrent_scattered"
                                                : "recurrent";
    if (conv)
        return f->sum == LK_FEATURE_PARTIAL ? "conv_partial" : "conv";
    return f->sum == LK_FEATURE_PARTIAL     ? "linear_partial"
           : f->sum == LK_FEATURE_SCATTERED ? "linear_scattered"
                                            : "linear";
}

/* Behind the product of a layer whose inputs are cut, which on the tape is one node with these: sums of blocks
 * are joined, and the bias is added to what they come to, once. */
static lk_status join_add(walk *w, const lk_layer_instance *l, int64_t *at)
{
    LK_TRY(node_add(w, l->name, "join", LK_FEATURE_INPUT, at));
    if (l->n_params > 1)
        LK_TRY(node_add(w, l->name, "bias", LK_FEATURE_INPUT, at));
    return LK_OK;
}

/* ---- one layer ---- */

/* Whether some of a layer's parameters or state are cut. */
static bool has_cut(const lk__net *net, const lk_layer_instance *l)
{
    for (int k = 0; k < l->n_params; k++)
        if (lk__net_is_cut(net, &net->start[net->use[l->param + k].param].owned))
            return true;
    for (int k = 0; k < l->n_state; k++)
        if (lk__net_is_cut(net, &net->moving[l->state + k].owned))
            return true;
    return false;
}

/* How a layer takes a value that is varying, or is not, and what it gives. */
static lk_feature_part part_of(const walk *w, const lk_layer_instance *l, bool varying)
{
    lk_feature_part f = {.split = w->plan->split, .kind = lk__layer_features_of(w->net, l)};
    const lk_layer_part *part = &w->plan->part[l - w->net->instance];
    bool indices = !lk_dtype_is_real(l->in.dtype);
    if (f.kind == LK_FEATURES_EACH) {
        bool takes = has_cut(w->net, l);
        f.before = takes && !varying ? LK_FEATURES_TAKE : LK_FEATURES_STAY;
        f.x = f.y = varying || takes;
    } else if (f.kind == LK_FEATURES_IN && !indices) {
        f.before = varying ? LK_FEATURES_STAY : LK_FEATURES_TAKE;
        f.x = true;
    } else if (f.kind == LK_FEATURES_OUT && !indices) {
        bool scatters = varying && !part->tile && l->layer->flags & LK_LAYER_SCATTERS;
        f.sum = scatters                ? LK_FEATURE_SCATTERED
                : varying || part->tile ? LK_FEATURE_PARTIAL
                                        : LK_FEATURE_JOINED;
        if (f.sum == LK_FEATURE_PARTIAL)
            f.before = varying ? LK_FEATURES_GATHER_SUM : LK_FEATURES_COPY;
        f.x = scatters;
        f.y = true;
    } else {
        f.before = varying ? LK_FEATURES_GATHER : LK_FEATURES_STAY;
        f.y = f.kind == LK_FEATURES_OUT;
    }
    return f;
}

/* ---- lists ---- */

/* Whether a list gives a varying value, that begins with one or not. */
static bool list_ends(const walk *w, int64_t list, bool varying);

/* Whether the lists of a layer that adds them up can stay as they are: all give what the first does. */
static bool lists_agree(const walk *w, const lk_layer_instance *l, bool varying)
{
    for (int k = 1; k < l->n_lists; k++)
        if (list_ends(w, l->list[k], varying) != list_ends(w, l->list[0], varying))
            return false;
    return true;
}

static bool layer_ends(const walk *w, const lk_layer_instance *l, bool varying)
{
    if (l->n_lists == 0)
        return part_of(w, l, varying).y;
    return l->features == LK_FEATURES_EACH && lists_agree(w, l, varying) &&
           list_ends(w, l->list[0], varying);
}

static bool list_ends(const walk *w, int64_t list, bool varying)
{
    const lk__list *layers = &w->net->list[list];
    for (int64_t i = 0; i < layers->n; i++)
        varying = layer_ends(w, &w->net->instance[layers->instance[i]], varying);
    return varying;
}

static lk_status list_plan(walk *w, int64_t list, bool gathers, bool *varying, int64_t *at);

/* A layer with lists: as they are where they agree, otherwise from all features to all features. */
static lk_status lists_plan(walk *w, const lk_layer_instance *l, bool *varying, int64_t *at)
{
    lk_feature_part *f = &w->plan->part[l - w->net->instance].features;
    bool follow = l->layer->flags & LK_LAYER_LISTS_FOLLOW;
    bool stays = l->features == LK_FEATURES_EACH && lists_agree(w, l, *varying), ends = false;
    *f = (lk_feature_part){.split = w->plan->split, .kind = LK_FEATURES_WHOLE};
    if (!stays && *varying)
        f->before = LK_FEATURES_GATHER;
    LK_TRY(change_add(w, l->name, f->before, at));
    f->x = stays && *varying;
    int64_t begin = *at, sum = *at;
    for (int k = 0; k < l->n_lists; k++) {
        int64_t end = follow ? sum : begin;
        ends = f->x;
        LK_TRY(list_plan(w, l->list[k], !stays, &ends, &end));
        if (k > 0 && !follow)
            LK_TRY(node_add(w, l->name, "add", end, &sum));
        else
            sum = end;
    }
    f->y = *varying = ends;
    *at = sum;
    return LK_OK;
}

static lk_status layer_plan(walk *w, int64_t number, bool *varying, int64_t *at)
{
    const lk_layer_instance *l = &w->net->instance[number];
    lk_layer_part *part = &w->plan->part[number];
    if (l->n_lists > 0) {
        return LK_TRACE(lists_plan(w, l, varying, at));
    }
    lk_feature_part f = part_of(w, l, *varying);
    LK_CHECK(f.kind != LK_FEATURES_IN || !part->tile, LK_ENOTSUP,
             "layer %s: what comes in is cut into blocks (cut: in, or a tie) at positions that are "
             "cut into tiles as well: leave out one of both",
             l->name);
    part->features = f;
    LK_TRY(change_add(w, l->name, f.before, at));
    LK_TRY(node_add(w, l->name, kind_of(l, &f), LK_FEATURE_INPUT, at));
    if (f.kind == LK_FEATURES_IN && lk_dtype_is_real(l->in.dtype))
        LK_TRY(join_add(w, l, at));
    *varying = f.y;
    return LK_OK;
}

/* `gathers`: it gives all features. */
static lk_status list_plan(walk *w, int64_t list, bool gathers, bool *varying, int64_t *at)
{
    const lk__list *layers = &w->net->list[list];
    for (int64_t i = 0; i < layers->n; i++)
        LK_TRY(layer_plan(w, layers->instance[i], varying, at));
    if (!gathers || !*varying || layers->n == 0)
        return LK_OK;
    int64_t last = layers->instance[layers->n - 1];
    w->plan->part[last].features.after = LK_FEATURES_GATHER;
    LK_TRY(change_add(w, w->net->instance[last].name, LK_FEATURES_GATHER, at));
    *varying = false;
    return LK_OK;
}

/* ---- all of it ---- */

static lk_status walk_run(walk *w)
{
    lk_plan *p = w->plan;
    int64_t at = LK_FEATURE_INPUT;
    LK_TRY(list_plan(w, 0, !p->spec.splits_loss, &p->out_cut, &at));
    if (p->out_cut)
        LK_TRY(node_add(w, "loss", "cross_entropy", LK_FEATURE_INPUT, &at));
    LK_TRY(lk_feature_tags_check(w->step, w->n_steps, LK_FEATURE_TAG_REPLICATED, NULL));
    p->node = w->step;
    p->n_nodes = w->n_steps;
    w->step = NULL;
    return LK_OK;
}

lk_status lk__features_plan(lk_plan *p, const lk_mesh *mesh, const lk_model *model)
{
    walk w = {.plan = p, .net = model->net};
    const lk_pieces *cut = &model->net->spec.pieces;
    int ranks = mesh->n[LK_AXIS_FEATURES];
    LK_CHECK(ranks <= cut->blocks, LK_EINVAL,
             "parallel.features %d is more than pieces.blocks, %lld: the line `pieces: {blocks: "
             "%d}` allows it, as another run with other bits",
             ranks, (long long)cut->blocks, ranks);
    if (cut->blocks <= 1)
        return LK_OK;
    LK_TRY(lk__feature_split_make(mesh->along[LK_AXIS_FEATURES], mesh->at[LK_AXIS_FEATURES], ranks,
                                  cut->blocks, cut->least_block, &p->split));
    if (!p->part)
        LK_TRY(lk_alloc_zero(&p->part, p->n_layers, sizeof *p->part));
    lk_status st = walk_run(&w);
    lk_free(w.step);
    return LK_TRACE(st);
}

bool lk__plan_varies(const lk_plan *p, int64_t layer)
{
    return p->split && p->part[layer].features.y &&
           p->part[layer].features.after == LK_FEATURES_STAY;
}

lk_range lk__plan_out_features(const lk_plan *p, int64_t layer, int64_t n)
{
    return lk__plan_varies(p, layer) ? lk_feature_range(p->split, p->split->rank, n)
                                     : (lk_range){0, n};
}
