/* Terms: losses that layers add to that of what comes out of the model.
 *
 * A layer declares its term when it is built, and in forward gives the pass what the loss is taken of.
 * lk_model_build() and lk_model_forward() call this by way of the layers, trainers ask which layers run;
 * on the thread of the tape.
 */
#include "base/fpenv.h"
#include "nn/model.h"

#include <math.h>
#include <string.h>

/* ---- building ---- */

/* The loss, its options filled in, and its parts. */
static lk_status term_loss(lk__net *net, const lk_term *as, lk__term *out)
{
    lk_config filled;
    if (!as->loss)
        return LK_OK;
    LK_TRY(lk_config_with_defaults(as->loss, net->arena, &filled));
    out->loss = (const lk_loss *)(const void *)filled.descriptor;
    out->options = filled.options;
    LK_TRY(out->loss->check(out->options, as->of, as->of));
    out->parts = out->loss->parts ? out->loss->parts(as->of) : 1;
    return LK_OK;
}

lk_status lk_build_term(lk_build *build, const lk_term *term)
{
    LK_FP_GUARD();
    lk__net *net = build->net;
    const lk_layer_instance *instance = &net->instance[build->instance];
    lk__term own = {.instance = build->instance,
                    .layer = net->layer,
                    .of = term->of,
                    .weight = term->weight,
                    .parts = 1,
                    .lists = term->lists};
    LK_CHECK(lk__net_term(net, build->instance) < 0, LK_EINVAL, "a second term");
    LK_CHECK(strcmp(instance->name, "loss") != 0, LK_EINVAL,
             "its term is named after the layer, and \"loss\" is that of the experiment: give the "
             "layer another name");
    LK_CHECK(isfinite(term->weight), LK_EINVAL, "the weight of its term is %g", term->weight);
    LK_CHECK(term->lists >= 0 && term->lists <= instance->n_lists, LK_EINVAL,
             "a term of %d lists, and the layer has %d", term->lists, instance->n_lists);
    LK_TRY(term_loss(net, term, &own));
    LK_TRY(lk__grow(&net->term, &net->max_terms, net->n_terms + 1, sizeof *net->term));
    int64_t at = net->n_terms++; /* behind those of layers before it, which may be built later */
    for (; at > 0 && net->term[at - 1].instance > own.instance; at--)
        net->term[at] = net->term[at - 1];
    net->term[at] = own;
    return LK_OK;
}

int64_t lk__net_term(const lk__net *net, int64_t instance)
{
    for (int64_t i = 0; i < net->n_terms; i++)
        if (net->term[i].instance == instance)
            return i;
    return -1;
}

int64_t lk_model_terms(const lk_model *model)
{
    return model->net ? model->net->n_terms : 0;
}

lk_status lk_model_term(const lk_model *model, int64_t i, lk_term_info *out)
{
    LK_CHECK(i >= 0 && i < lk_model_terms(model), LK_EINVAL, "term %lld of %lld", (long long)i,
             (long long)lk_model_terms(model));
    const lk__term *term = &model->net->term[i];
    *out = (lk_term_info){model->net->instance[term->instance].name, term->instance, term->weight,
                          term->parts};
    return LK_OK;
}

/* ---- which layers run ---- */

/* Layers of the model's list that run. */
static int64_t layers_run(const lk__net *net, const bool *counts, bool loss)
{
    int64_t n = loss ? net->list[0].n : 0;
    for (int64_t i = 0; i < net->n_terms; i++)
        if (counts[i] && net->term[i].layer >= n)
            n = net->term[i].layer + 1;
    return n;
}

static void list_mark(const lk__net *net, const bool *counts, int64_t list, int64_t n, bool *runs)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t number = net->list[list].instance[k], term = lk__net_term(net, number);
        const lk_layer_instance *instance = &net->instance[number];
        int lists = instance->n_lists;
        if (term >= 0 && !counts[term])
            lists -= net->term[term].lists;
        runs[number] = true;
        for (int i = 0; i < lists; i++)
            list_mark(net, counts, instance->list[i], net->list[instance->list[i]].n, runs);
    }
}

void lk__model_runs(const lk_model *model, const bool *counts, bool loss, bool *runs)
{
    const lk__net *net = model->net;
    memset(runs, 0, (size_t)net->n_instances * sizeof *runs);
    list_mark(net, counts, 0, layers_run(net, counts, loss), runs);
}

/* ---- a pass ---- */

lk_status lk__terms_begin(const lk_model *model, const lk_pass *pass, lk_range *layers)
{
    const lk__net *net = model->net;
    const lk_pass_terms *terms = pass->terms;
    bool some = false;
    *layers = (lk_range){0, net->list[0].n};
    if (!terms)
        return LK_OK;
    LK_CHECK(net->n_terms == 0 || (terms->counts && terms->value && terms->leaves >= 1), LK_EINVAL,
             "terms without room for them");
    for (int64_t i = 0; i < net->n_terms; i++)
        some = some || terms->counts[i];
    for (int64_t i = 0; i < net->n_terms * terms->leaves; i++)
        terms->value[i] = LK_NO_VAR;
    LK_CHECK(!some || pass->recompute <= 1, LK_ENOTSUP,
             "layers whose terms count are not run again in segments: leave out recompute");
    layers->n = layers_run(net, terms->counts, !terms->only);
    return LK_OK;
}

lk_status lk__terms_end(const lk_model *model, const lk_pass *pass)
{
    const lk__net *net = model->net;
    const lk_pass_terms *terms = pass->terms;
    for (int64_t i = 0; terms && i < net->n_terms; i++)
        LK_CHECK(!terms->counts[i] ||
                     (pass->layers.n > 0 && !lk__range_has(pass->layers, net->term[i].layer)) ||
                     lk_is_var(terms->value[i * terms->leaves]),
                 LK_ESTATE, "layer %s has a term, and gave none in the pass",
                 net->instance[net->term[i].instance].name);
    return LK_OK;
}

/* The number of a layer's term, if it is wanted; otherwise -1. */
static int64_t wanted(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk__net *net = pass->run->model->net;
    int64_t term = pass->terms ? lk__net_term(net, instance - net->instance) : -1;
    return term >= 0 && pass->terms->counts[term] ? term : -1;
}

bool lk_pass_counts(const lk_pass *pass, const lk_layer_instance *instance)
{
    return wanted(pass, instance) >= 0;
}

lk_status lk__box_take(lk_var x, const lk_box *box, const lk_box *part, lk_var *out)
{
    *out = x;
    for (int d = 0; d < box->ndim; d++) {
        int64_t first = part->n[d] > 0 ? part->first[d] - box->first[d] : 0;
        LK_TRY(lk_slice(*out, d + 1, first, first + part->n[d], 1, out));
    }
    return LK_OK;
}

/* The loss of a leaf; tile NULL: of all. */
static lk_status leaf_loss(const lk__term *term, const lk_tile *tile, int64_t leaf, lk_var value,
                           lk_var target, lk_var *out)
{
    if (tile) {
        LK_TRY(lk__box_take(value, &tile->x.box, &tile->x_leaf[leaf], &value));
        LK_TRY(lk_contiguous(value, &value));
    }
    if (!term->loss) {
        return LK_TRACE(lk_sum(value, NULL, out));
    }
    if (tile) {
        LK_TRY(lk__box_take(target, &tile->x.box, &tile->x_leaf[leaf], &target));
        LK_TRY(lk_contiguous(target, &target));
    }
    return LK_TRACE(term->loss->apply(term->options, value, target, out));
}

lk_status lk_pass_term(const lk_pass *pass, const lk_layer_instance *instance, lk_var value,
                       lk_var target)
{
    LK_FP_GUARD();
    const lk__net *net = pass->run->model->net;
    int64_t number = wanted(pass, instance);
    if (number < 0)
        return LK_OK;
    const lk__term *term = &net->term[number];
    const lk_tile *tile = pass->parts ? pass->parts->layer[term->instance].term : NULL;
    const lk_pass_terms *terms = pass->terms;
    LK_CHECK(!tile || tile->leaves <= terms->leaves, LK_EINVAL,
             "%lld tiles, and terms have room for %lld", (long long)(tile ? tile->leaves : 1),
             (long long)terms->leaves);
    LK_CHECK(lk_is_var(target) == (term->loss != NULL), LK_EINVAL, "a term %s",
             term->loss ? "without a target" : "with a target, but without a loss");
    lk_shape got = lk_shape_of(value), of = term->of.shape, want = {of.ndim + 1, {got.dim[0]}};
    memcpy(&want.dim[1], of.dim, (size_t)of.ndim * sizeof of.dim[0]);
    LK_CHECK(tile || lk_shape_is_equal(got, want), LK_ESHAPE, "a term of %s, declared for %s",
             lk_shape_text(got).s, lk_shape_text(want).s);
    for (int64_t i = 0; i < (tile ? tile->leaves : 1); i++) {
        lk_var *loss = &terms->value[number * terms->leaves + i];
        LK_TRY(leaf_loss(term, tile, i, value, target, loss));
        LK_TRY(lk__pass_outlive(pass, *loss));
    }
    return LK_OK;
}
