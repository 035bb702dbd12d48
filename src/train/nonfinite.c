/* Which tensor was not finite first, a parameter or the output of a layer: for the message of a step whose
 * loss is not finite.  All ranks call it together.
 */
#include "train/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOTHING INT64_MAX /* found on this rank: comes behind all else */

/* The first element of a real tensor that is not finite, -1 if all are. */
static int64_t first_bad(const lk_tensor *t)
{
    const void *data = lk_tensor_data(t);
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        if (!isfinite(lk_tensor_dtype(t) == LK_F32 ? (double)((const float *)data)[i]
                                                   : ((const double *)data)[i]))
            return i;
    return -1;
}

/* The first slice with such an element, and which; *at is -1 if there is none. */
static lk_status slab_search(const lk_slab *slab, lk_slab_slice *slice, int64_t *number,
                             int64_t *at)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    *at = -1;
    for (int64_t i = 0; *at < 0 && i < lk_slab_layout_slices(layout); i++) {
        lk_tensor *tensor = NULL;
        *number = i;
        LK_TRY(lk_slab_layout_slice(layout, i, slice));
        LK_TRY(lk_slab_tensor(slab, i, &tensor));
        *at = first_bad(tensor);
        lk_tensor_free(tensor);
        if (*at >= 0)
            *at = lk_slab_slice_place(slice, *at);
    }
    return LK_OK;
}

/* The same in the state of the model, or of this rank's models of a chain, with its name there. */
static lk_status state_search(const lk_trainer *t, char *name, size_t size, int64_t *at)
{
    lk_slab_slice slice = {.name = ""};
    int64_t k = 0, number;
    *at = -1;
    if (!t->chained)
        LK_TRY(slab_search(lk_model_state(t->spec.model), &slice, &number, at));
    for (; t->chained && *at < 0 && k < lk_chain_components(t->spec.chain); k++)
        if (lk_chain_model(t->spec.chain, k))
            LK_TRY(
                slab_search(lk_model_state(lk_chain_model(t->spec.chain, k)), &slice, &number, at));
    if (t->chained)
        snprintf(name, size, "%d.%lld.%s", lk__trainer_rank(t), (long long)k - 1, slice.name);
    else
        snprintf(name, size, "%s", slice.name);
    return LK_OK;
}

/* Whether what this rank found, key [n], comes first of what all did. */
static lk_status is_first(lk_comm *comm, const int64_t *key, int n, bool *out)
{
    *out = true;
    for (int i = 0; comm && i < n; i++) {
        int64_t least = *out ? key[i] : NOTHING;
        LK_TRY(lk_allreduce(comm, NULL, &least, 1, LK_I64, LK_REDUCE_MIN, "what is not finite"));
        *out = *out && key[i] == least;
    }
    return LK_OK;
}

static lk_status nonfinite_error(const lk_trainer *t, const char *name, int64_t at,
                                 const char *what, double loss)
{
    LK_CHECK(at < 0 || t->step > 0, LK_ENAN,
             "step 0: the loss is %g, because %s %s is not finite at element %lld to begin with",
             loss, what, name, (long long)at);
    LK_CHECK(at < 0, LK_ENAN,
             "step %lld: the loss is %g, because %s %s is not finite at element %lld since the "
             "update of step %lld; a smaller rate or clip_norm may help",
             (long long)t->step, loss, what, name, (long long)at, (long long)t->step - 1);
    return LK_OK;
}

lk_status lk__state_check(const lk_trainer *t)
{
    char name[320];
    int64_t at;
    LK_TRY(state_search(t, name, sizeof name, &at));
    LK_CHECK(at < 0, LK_ENAN,
             "after step %lld: %s, which evaluation uses, is not finite at element %lld: what its "
             "layer gets is too large, or not finite",
             (long long)t->step - 1, name, (long long)at);
    return LK_OK;
}

/* The name of the layer, or of the component of a chain, whose output is the first that is not finite, in a
 * pass that all ranks with samples make; "" if all are. */
static lk_status layer_find(lk_trainer *t, const lk_batch *batch, char *name, size_t size)
{
    lk_var x, y, out;
    char layer[240] = "";
    lk_tape_reset(t->tape);
    if (t->chained) {
        return LK_TRACE(lk__chained_find_nonfinite(t, batch, name, size));
    }
    if (t->pipeline) {
        LK_TRY(lk__pipeline_find_nonfinite(t, batch, layer, sizeof layer));
        snprintf(name, size, "%s%s", layer[0] ? "layer " : "", layer);
        return LK_OK;
    }
    lk_pass pass = lk__pass_of(t, batch, NULL, &t->room);
    LK_TRY(lk__pass_enter(t, t->tape, pass.parts, batch, &x, &y));
    LK_TRY(lk_model_find_nonfinite(t->spec.model, &pass, x, layer, sizeof layer, &out));
    snprintf(name, size, "%s%s", layer[0] ? "layer " : "", layer);
    return LK_OK;
}

/* What a rank finds in its samples: the data, or a layer. */
struct suspect {
    int64_t order;    /* -1: the data; else by when a layer ends; NOTHING */
    int64_t position; /* of the batch, and the element of its x; NOTHING */
    int64_t element;
    char name[256];
};

/* Which position of the batch element `at` of this rank's x is of, and its number in the whole sample. */
static lk_status element_find(const lk_trainer *t, const lk_batch *batch, int64_t at,
                              struct suspect *out)
{
    int64_t held = lk_tensor_count(batch->x) / batch->n;
    out->position = batch->first + at / held;
    out->element = at % held;
    if (!t->chained && t->plan && t->plan->in == LK_BY_TILE) {
        lk_layer_info info;
        LK_TRY(lk_model_layer(t->spec.model, 0, &info));
        lk_slab_slice x = {.box_of = info.in.shape, .box = t->plan->x.box};
        for (int d = x.box.ndim; d < x.box_of.ndim; d++)
            x.box.n[d] = x.box_of.dim[d];
        x.box.ndim = x.box_of.ndim;
        out->element = lk_slab_slice_place(&x, out->element);
    }
    return LK_OK;
}

/* By when layer i ends: one that has layers within it does so behind them. */
static lk_status layer_end(const lk_model *model, int64_t i, int64_t *out)
{
    lk_layer_info info, next;
    LK_TRY(lk_model_layer(model, i, &info));
    int64_t end = i;
    for (; end + 1 < lk_model_layers(model); end++) {
        LK_TRY(lk_model_layer(model, end + 1, &next));
        if (next.depth <= info.depth)
            break;
    }
    *out = end - info.depth;
    return LK_OK;
}

lk_status lk__layer_order(const lk_model *model, const char *name, int64_t *out)
{
    lk_layer_info info;
    *out = lk_model_layers(model);
    for (int64_t i = 0; i < lk_model_layers(model); i++) {
        LK_TRY(lk_model_layer(model, i, &info));
        if (strcmp(info.name, name) == 0)
            LK_TRY(layer_end(model, i, out));
    }
    return LK_OK;
}

/* Ranks that share samples see one fault in other layers, those of a chain have layers of their own. */
static lk_status samples_search(lk_trainer *t, const lk_batch *batch, struct suspect *out)
{
    bool real = batch->x && lk_dtype_is_real(lk_tensor_dtype(batch->x));
    int64_t at = real ? first_bad(batch->x) : -1;
    LK_TRY(layer_find(t, batch, out->name, sizeof out->name));
    if (at >= 0) {
        LK_TRY(element_find(t, batch, at, out));
        out->order = -1;
    } else if (out->name[0] && t->chained) {
        out->order = 0;
    } else if (out->name[0]) {
        LK_TRY(lk__layer_order(t->spec.model, out->name + strlen("layer "), &out->order));
    }
    return LK_OK;
}

static lk_status samples_check(const lk_trainer *t, const lk_batch *batch,
                               const struct suspect *found, double loss)
{
    LK_CHECK(found->order >= 0, LK_ENAN,
             "step %lld: the loss is %g, because the data is not finite: element %lld of x, sample "
             "%lld of the set",
             (long long)t->step, loss, (long long)found->element,
             (long long)batch->index[found->position - batch->first]);
    LK_CHECK(!found->name[0], LK_ENAN,
             "step %lld: the loss is %g: the first tensor that is not finite is the output of %s",
             (long long)t->step, loss, found->name);
    return LK_OK;
}

/* A parameter: of one whose positions ranks share, its first element of all ranks. */
static lk_status params_check(const lk_trainer *t, double loss)
{
    lk_comm *comm = lk__trainer_comm(t);
    lk_slab_slice slice = {.name = ""};
    int64_t number = 0, at = -1;
    bool ours;
    LK_TRY(lk_agree(comm, slab_search(lk__trainer_params(t), &slice, &number, &at)));
    int64_t key[2] = {at < 0 ? NOTHING : number, at < 0 ? NOTHING : at};
    LK_TRY(is_first(comm, key, 2, &ours));
    return LK_TRACE(
        lk_agree(comm, ours ? nonfinite_error(t, slice.name, at, "parameter", loss) : LK_OK));
}

static lk_status state_check(const lk_trainer *t, double loss)
{
    char name[320];
    int64_t at;
    LK_TRY(state_search(t, name, sizeof name, &at));
    return LK_TRACE(nonfinite_error(t, name, at, "state", loss));
}

/* The first of the losses that is not finite, if it is a term; otherwise NULL. */
static const char *bad_term(const lk_trainer *t)
{
    for (int64_t i = 0; i < t->n_summands; i++)
        if (!isfinite(t->step_counts.each[i]))
            return t->summand[i].term < 0 ? NULL : t->summand[i].name;
    return NULL;
}

lk_status lk__nonfinite_report(lk_trainer *t, const lk_batch *batch, double loss)
{
    if (isnan(loss))
        loss = (double)NAN; /* without a sign, which printf() would print */
    lk_comm *comm = lk__trainer_comm(t);
    LK_TRY(params_check(t, loss));
    LK_TRY(lk_agree(comm, state_check(t, loss)));
    struct suspect found = {.order = NOTHING, .position = NOTHING, .element = NOTHING};
    lk_status st = batch ? samples_search(t, batch, &found) : LK_OK;
    bool ours;
    if (st != LK_OK)
        LK_TRY(lk__pass_failed(t, st));
    LK_TRY(is_first(comm, (int64_t[]){found.order, found.position, found.element}, 3, &ours));
    LK_TRY(lk_agree(comm, ours && batch ? samples_check(t, batch, &found, loss) : LK_OK));
    const char *term = bad_term(t);
    LK_CHECK(
        !term, LK_ENAN,
        "step %lld: the loss is %g: the output of all layers is finite, the loss that layer %s "
        "adds is not",
        (long long)t->step, loss, term);
    return LK_RAISE(LK_ENAN,
                    "step %lld: the loss is %g: the output of the model is finite, the loss of it "
                    "is not",
                    (long long)t->step, loss);
}
