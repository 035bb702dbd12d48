/* What layers do with features of which ranks may have some each: which parameters are cut into blocks, and
 * so what a layer takes and gives.
 *
 * It follows from model and pieces alone.  Building settles it once; holding, plans and trainers ask, on
 * their own threads.
 */
#include "nn/model.h"

bool lk__net_is_cut(const lk__net *net, const lk__owned *owned)
{
    const lk_pieces *p = &net->spec.pieces;
    if (owned->axis < 0)
        return false;
    int64_t n = owned->axes.dim[owned->axis];
    return lk_block_size(n, p->blocks, p->least_block) < n;
}

/* Whether a layer would cut a parameter as it is cut. */
static bool is_as_declared(const lk__net *net, const lk__param_use *use)
{
    const lk__owned *owned = &net->start[use->param].owned;
    int64_t inner = 1;
    for (int d = owned->axis + 1; d < owned->axes.ndim; d++)
        inner *= owned->axes.dim[d];
    return use->cut.n == owned->axes.dim[owned->axis] && use->cut.inner == inner;
}

/* Whether a parameter that a layer would cut is whole, because another shares it that has all of it. */
static bool has_whole(const lk__net *net, const lk_layer_instance *l)
{
    for (int k = 0; k < l->n_params; k++) {
        const lk__param_use *use = &net->use[l->param + k];
        if (use->cut.n > 0 && net->start[use->param].owned.axis < 0)
            return true;
    }
    return false;
}

lk_layer_features lk__layer_features_of(const lk__net *net, const lk_layer_instance *l)
{
    lk_layer_features kind = l->features;
    if (kind != LK_FEATURES_WHOLE && kind != LK_FEATURES_EACH) {
        const lk__param_use *first = &net->use[l->param];
        if (l->n_params == 0 || !lk__net_is_cut(net, &net->start[first->param].owned))
            return LK_FEATURES_WHOLE;
        if (kind == LK_FEATURES_EITHER)
            kind = is_as_declared(net, first) ? LK_FEATURES_OUT : LK_FEATURES_IN;
    }
    return kind != LK_FEATURES_IN && has_whole(net, l) ? LK_FEATURES_WHOLE : kind;
}

/* Leave a parameter whole; *settled: whether it was. */
static void leave_whole(lk__owned *owned, bool *settled)
{
    *settled = *settled && owned->axis < 0;
    owned->axis = -1;
}

/* A layer that needs all of its features has all of its parameters and state; so has, of those behind the
 * first, one whose sums are over what comes in. */
static void layer_settle(lk__net *net, const lk_layer_instance *l, bool *settled)
{
    lk_layer_features kind = lk__layer_features_of(net, l);
    bool own = kind == LK_FEATURES_EACH || kind == LK_FEATURES_OUT;
    for (int k = 0; k < l->n_params; k++) {
        const lk__param_use *use = &net->use[l->param + k];
        lk__owned *owned = &net->start[use->param].owned;
        if (k == 0 && kind == LK_FEATURES_IN &&
            (l->features == LK_FEATURES_EITHER || is_as_declared(net, use)))
            continue;
        if (!own || (owned->axis >= 0 && !is_as_declared(net, use)))
            leave_whole(owned, settled);
    }
    for (int k = 0; k < l->n_state && !own; k++)
        leave_whole(&net->moving[l->state + k].owned, settled);
}

void lk__net_settle_features(lk__net *net)
{
    for (int64_t i = 0; i < net->n_instances; i++) {
        lk_layer_instance *l = &net->instance[i];
        bool each = l->reach == LK_REACH_ELEMENT && l->n_params == 0 && l->n_lists == 0 &&
                    !(l->layer->flags & LK_LAYER_RANDOM) && lk__net_term(net, i) < 0;
        if (l->features == LK_FEATURES_WHOLE && each)
            l->features = LK_FEATURES_EACH;
    }
    for (bool settled = net->spec.pieces.blocks <= 1; !settled;) {
        settled = true;
        for (int64_t i = 0; i < net->n_instances; i++)
            layer_settle(net, &net->instance[i], &settled);
    }
}
