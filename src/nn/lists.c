/* Lists of layers, the model's own and those within a layer: each layer is applied to what the one before gave.
 *
 * Where the tape records, values wait for backward.  Where it does not, none is read again: what a layer
 * makes goes at its end, and what it gives as soon as the next layer has run.
 *
 * lk_model_forward() runs the model's, layers run theirs by lk_pass_layers(), a segment runs a part of one;
 * on the thread of the tape.
 */
#include "autograd/tape_access.h"
#include "base/failure.h"
#include "base/fpenv.h"
#include "nn/layers.h"
#include "nn/model.h"

#include <math.h>
#include <stdio.h>

/* Say which layer failed, unless a layer within it has said so. */
static void layer_failed(const lk_pass *pass, const lk_layer_instance *instance)
{
    if (!pass->run->named)
        lk__error_prefix("layer %s: ", instance->name);
    pass->run->named = true;
}

/* What the rank itself has of a layer's output, in f64: of a held box the tile. */
static lk_status own_part(const lk_pass *pass, const lk_layer_instance *instance,
                          const lk_tensor *y, lk_tensor **out)
{
    lk_tensor *part = NULL, *next = NULL;
    const lk_layer_part *of = lk__pass_part(pass, instance);
    bool tiles = of && of->by_tile && lk_tensor_shape(y).ndim > 2;
    const lk_held *held = tiles ? &of->tile->y : NULL;
    lk_status st = lk_tensor_slice(y, 0, 0, lk_tensor_shape(y).dim[0], 1, &part);
    for (int d = 0; st == LK_OK && tiles && d < held->box.ndim; d++) {
        int64_t first = held->tile.first[d] - held->box.first[d];
        bool none = held->tile.n[d] == 0;
        st = lk_tensor_slice(part, d + 1, none ? 0 : first, none ? 0 : first + held->tile.n[d], 1,
                             &next);
        lk_tensor_free(part);
        part = next;
        next = NULL;
    }
    if (st == LK_OK)
        st = lk_tensor_clone(part, LK_F64, out);
    lk_tensor_free(part);
    return LK_TRACE(st);
}

/* Note the layer if its output is not finite, and no layer before was. */
static lk_status layer_check_finite(const lk_pass *pass, const lk_layer_instance *instance,
                                    lk_var y)
{
    struct lk__pass_run *run = pass->run;
    const lk_tensor *t = NULL;
    lk_tensor *flat = NULL;
    if (!run->bad || run->bad[0] || !lk_dtype_is_real(lk_dtype_of(y)))
        return LK_OK;
    LK_TRY(lk_value(y, &t));
    LK_TRY(own_part(pass, instance, t, &flat));
    const double *value = lk_tensor_data(flat);
    for (int64_t i = 0; i < lk_tensor_count(flat) && !run->bad[0]; i++)
        if (!isfinite(value[i]))
            snprintf(run->bad, run->bad_size, "%s", instance->name);
    lk_tensor_free(flat);
    return LK_OK;
}

/* Whether the layer can apply the activation `act` behind it, or before it. */
static bool can_fuse(const lk_layer *layer, lk_act act, bool after)
{
    unsigned relu = after ? LK_LAYER_FUSES_RELU_AFTER : LK_LAYER_FUSES_RELU_BEFORE;
    unsigned any = after ? LK_LAYER_FUSES_ACT_AFTER : 0;
    return act != LK_ACT_NONE && act <= LK_ACT_TANH &&
           layer->flags & (act == LK_ACT_RELU ? relu | any : any);
}

/* An activation goes with the layer behind it, or else with the one before, where these can. */
void lk__list_fuse(const lk__net *net, lk__list *list)
{
    const lk_layer *next = NULL;
    for (int64_t i = list->n - 1; i >= 0; i--) {
        const lk_layer *layer = net->instance[list->instance[i]].layer;
        list->fusion[i] = LK__APART;
        if (next && can_fuse(next, layer->act, false))
            list->fusion[i] = LK__ACT_BEFORE;
        else if (next && can_fuse(layer, next->act, true) && list->fusion[i + 1] == LK__APART)
            list->fusion[i] = LK__ACT_AFTER;
        next = layer;
    }
}

/* Whether the value changes, between tiles and samples or along features, before a layer, or behind it. */
static bool changes_before(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    return part && (part->before != LK_STAY || part->features.before != LK_FEATURES_STAY);
}

static bool changes_after(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    return part && (part->after != LK_STAY || part->features.after != LK_FEATURES_STAY);
}

int64_t lk__layers_at_once(const lk_pass *pass, const lk__list *list, int64_t i, int64_t end,
                           const lk_layer_instance **instance, lk_act *act)
{
    const lk_layer_instance *all = pass->run->model->net->instance, *of = &all[list->instance[i]];
    *instance = of;
    *act = LK_ACT_NONE;
    if (list->fusion[i] == LK__APART || i + 1 == end || pass->run->bad)
        return 1;
    const lk_layer_instance *next = &all[list->instance[i + 1]];
    bool before = list->fusion[i] == LK__ACT_BEFORE;
    if (changes_after(pass, of) || changes_before(pass, next) ||
        (before ? changes_before(pass, of) : changes_after(pass, next)))
        return 1;
    *instance = before ? next : of;
    *act = before ? of->layer->act : next->layer->act;
    return 2;
}

/* Along features, before a layer: what ranks have of x becomes what the layer takes.  A value without a gradient
 * is not sent back. */
static lk_status features_change(const lk_layer_instance *l, const lk_feature_part *f, lk_var *x)
{
    int64_t n = l->in.shape.ndim > 0 ? l->in.shape.dim[l->in.shape.ndim - 1] : 1,
            of = l->out.shape.ndim > 0 ? l->out.shape.dim[l->out.shape.ndim - 1] : 1;
    if (!lk_needs_grad(*x) && f->before == LK_FEATURES_COPY)
        return LK_OK;
    if (!lk_needs_grad(*x) && f->before == LK_FEATURES_TAKE) {
        lk_range own = lk_feature_range(f->split, f->split->rank, n);
        return LK_TRACE(lk_slice(*x, lk_shape_of(*x).ndim - 1, own.first, own.first + own.n, 1, x));
    }
    if (f->before != LK_FEATURES_STAY && f->split->size == 1) {
        /* by a node, as on several ranks: what reads the value behind it says one sum about it */
        return LK_TRACE(lk_reshape(*x, lk_shape_of(*x), x));
    }
    switch (f->before) {
    case LK_FEATURES_GATHER: return lk_dist_feature_gather(f->split, *x, n, l->name, x);
    case LK_FEATURES_GATHER_SUM: return lk_dist_feature_gather_sum(f->split, *x, n, of, l->name, x);
    case LK_FEATURES_COPY: return lk_dist_feature_copy(f->split, *x, of, l->name, x);
    case LK_FEATURES_TAKE: return lk_dist_feature_take(f->split, *x, n, l->name, x);
    case LK_FEATURES_STAY: break;
    }
    return LK_OK;
}

/* And behind the last of a list: all features of what it gives. */
static lk_status features_end(const lk_layer_instance *l, const lk_feature_part *f, lk_var *out)
{
    if (f->after == LK_FEATURES_GATHER && f->split->size == 1)
        LK_TRY(lk_reshape(*out, lk_shape_of(*out), out));
    else if (f->after == LK_FEATURES_GATHER)
        LK_TRY(lk_dist_feature_gather(f->split, *out, l->out.shape.dim[l->out.shape.ndim - 1],
                                      l->name, out));
    return LK_OK;
}

/* From tiles to whole samples, or back, at an end of a layer, and along features. */
static lk_status change(const lk_pass *pass, const lk_layer_instance *instance, bool before,
                        lk_var *x)
{
    const lk_pass_parts *parts = pass->parts;
    const lk_layer_part *part = lk__pass_part(pass, instance);
    if (!part)
        return LK_OK;
    lk_change what = before ? part->before : part->after;
    const lk_tile *at = before ? part->before_at : part->after_at;
    if (what == LK_TO_SAMPLES)
        LK_TRY(lk_dist_tiles_to_samples(at, *x, parts->samples, instance->name, x));
    else if (what == LK_TO_TILES)
        LK_TRY(lk_dist_samples_to_tiles(at, *x, parts->samples, instance->name, x));
    return LK_TRACE(before ? features_change(instance, &part->features, x)
                           : features_end(instance, &part->features, x));
}

/* What of a layer's output is left to do. */
static lk_status layer_end(const lk_pass *pass, const lk_layer_instance *instance, lk_var *out)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    if (part && part->by_tile) /* a margin is fetched once, into the array that all read */
        LK_TRY(lk_contiguous(*out, out));
    return LK_TRACE(change(pass, instance, false, out));
}

/* *out = the layer of x.  One over windows that runs by tiles has to ask which tile it has: the plain op would
 * take the margin of its input, which was not fetched, for values. */
static lk_status layer_run(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                           lk_var *out)
{
    struct lk__pass_run *run = pass->run;
    bool around = run->asked; /* by the layer whose list this one is in */
    LK_TRY(change(pass, instance, true, &x));
    run->asked = false;
    LK_TRY(instance->layer->forward(pass, instance, x, out));
    bool asked = run->asked;
    run->asked = around;
    LK_CHECK(
        asked || instance->window.ndim == 0 || !lk__pass_by_tile(pass, instance), LK_EINVAL,
        "a %s goes over windows (lk_build_window()) and runs by tiles here, but its forward "
        "did not ask for its tile, so its values at the borders of tiles would be wrong: call "
        "lk_pass_tile() and compute with lk_dist_tile_*(), or leave out lk_build_window(), and "
        "it works by samples",
        instance->layer->descriptor.name);
    return LK_TRACE(layer_end(pass, instance, out));
}

static lk_status lists_run(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                           lk_var *out)
{
    LK_TRY(change(pass, instance, true, &x));
    for (int k = 0; k < instance->n_lists; k++)
        LK_TRY(lk_pass_layers(pass, instance, k, x, &out[k]));
    return LK_OK;
}

lk_status lk__layer_run_lists(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                              lk_var *out)
{
    lk_status st = lists_run(pass, instance, x, out);
    if (st != LK_OK)
        layer_failed(pass, instance);
    return LK_TRACE(st);
}

lk_status lk__layer_join(const lk_pass *pass, const lk_layer_instance *instance, const lk_var *of,
                         lk_var *out)
{
    lk_status st = instance->layer->join(instance, of, out);
    if (st == LK_OK)
        st = layer_end(pass, instance, out);
    if (st != LK_OK)
        layer_failed(pass, instance);
    return LK_TRACE(st);
}

/* A layer and its input, for lk__scope_run(). */
typedef struct applied {
    const lk_pass *pass;
    const lk_layer_instance *instance;
    lk_var x;
} applied;

static lk_status applied_run(lk_tape *tape, void *arg, lk_var *out)
{
    const applied *a = arg;
    (void)tape;
    return layer_run(a->pass, a->instance, a->x, out);
}

/* *x = the layer of it, where nothing is recorded.  *own: whether a layer of this list has made it, so that
 * no caller knows it. */
static lk_status layer_run_unrecorded(const lk_pass *pass, const lk_layer_instance *instance,
                                      lk_var *x, bool *own)
{
    bool made;
    lk_var y;
    LK_TRY(lk__scope_run(pass->tape, applied_run, &(applied){pass, instance, *x}, &y, &made));
    if (y.serial == x->serial) /* the layer has left it as it was */
        return LK_OK;
    if (*own)
        lk__var_drop(*x);
    *x = y;
    *own = made;
    return LK_OK;
}

lk_status lk__list_run(const lk_pass *pass, const lk__list *list, lk_range layers, lk_var x,
                       lk_var *out)
{
    int64_t end = layers.first + layers.n;
    lk_act around = pass->run->act; /* of the layer whose list this is */
    bool own = false;
    for (int64_t i = layers.first, n; i < end; i += n) {
        const lk_layer_instance *instance;
        n = lk__layers_at_once(pass, list, i, end, &instance, &pass->run->act);
        lk_status st = lk_tape_is_recording(pass->tape)
                           ? layer_run(pass, instance, x, &x)
                           : layer_run_unrecorded(pass, instance, &x, &own);
        if (st != LK_OK)
            layer_failed(pass, instance);
        LK_TRY(st);
        LK_TRY(layer_check_finite(pass, instance, x));
    }
    pass->run->act = around;
    *out = x;
    return LK_OK;
}

lk_status lk_pass_layers(const lk_pass *pass, const lk_layer_instance *instance, int list, lk_var x,
                         lk_var *out)
{
    LK_FP_GUARD();
    const lk__list *layers = &pass->run->model->net->list[instance->list[list]];
    lk_range all = {0, layers->n};
    if (pass->run->most > 0 && lk_tape_is_recording(pass->tape))
        LK_TRY(lk__segments_run(pass, layers, all, x, out));
    else
        LK_TRY(lk__list_run(pass, layers, all, x, out));
    return LK_OK;
}

lk_status lk__pass_layers_but_last(const lk_pass *pass, const lk_layer_instance *instance, int list,
                                   lk_var x, const lk_layer_instance **last, lk_var *out)
{
    const lk__net *net = pass->run->model->net;
    const lk__list *layers = &net->list[instance->list[list]];
    *last = &net->instance[layers->instance[layers->n - 1]];
    if (pass->run->bad || pass->run->most > 0 || changes_before(pass, *last) ||
        changes_after(pass, *last)) {
        *last = NULL;
        return LK_TRACE(lk_pass_layers(pass, instance, list, x, out));
    }
    return LK_TRACE(lk__list_run(pass, layers, (lk_range){0, layers->n - 1}, x, out));
}
