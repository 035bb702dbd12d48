/* Which losses of a trainer count: that of the experiment, and terms of layers (nn.h).
 *
 * The loss of a step is their sum in this order: the experiment's, then terms in the order of their layers.
 * Each is added up over shards, tiles and ranks for itself, so that its bits are those of a run in which
 * nothing else counts.  lk_trainer_new() makes them, on each rank; step and evaluation take the sum.
 */
#include "nn/model.h"
#include "parallel/pipeline/stages.h"
#include "train/pass.h"

#include <stdio.h>
#include <string.h>

/* ---- which ---- */

/* "loss, features0, sparse0". */
static void names_text(const lk_model *model, char *out, size_t size)
{
    lk_term_info term;
    size_t at = (size_t)snprintf(out, size, "loss");
    for (int64_t i = 0; model && at < size && i < lk_model_terms(model); i++)
        if (lk_model_term(model, i, &term) == LK_OK)
            at += (size_t)snprintf(out + at, size - at, ", %s", term.name);
}

/* Whether `name` counts: all do where nothing is said. */
static bool is_wanted(const lk_option_names *names, const char *name)
{
    bool wanted = names->n == 0;
    for (int i = 0; i < names->n; i++)
        wanted = wanted || strcmp(names->item[i], name) == 0;
    return wanted;
}

/* Every name is that of a loss. */
static lk_status names_check(const lk_trainer *t)
{
    const lk_option_names *names = &t->options.losses;
    const lk_model *model = t->spec.model;
    lk_term_info term;
    for (int i = 0; i < names->n; i++) {
        bool found = strcmp(names->item[i], "loss") == 0;
        for (int64_t k = 0; model && !found && k < lk_model_terms(model); k++) {
            LK_TRY(lk_model_term(model, k, &term));
            found = strcmp(names->item[i], term.name) == 0;
        }
        char known[512];
        names_text(model, known, sizeof known);
        LK_CHECK(found, LK_EINVAL,
                 "losses: \"%s\" is none of this model, which has %s: a layer that adds a loss, "
                 "such as autoencoder or penalty, is meant by its name",
                 names->item[i], known);
    }
    return LK_OK;
}

/* The models of a chain have no terms: no rank would add them up. */
static lk_status chain_check(const lk_trainer *t)
{
    const lk_chain *chain = t->spec.chain;
    lk_term_info term = {.name = ""};
    for (int64_t k = 0; k < lk_chain_components(chain); k++) {
        const lk_model *model = lk_chain_model(chain, k);
        if (model && lk_model_terms(model) > 0)
            LK_TRY(lk_model_term(model, 0, &term));
        LK_CHECK(!term.name[0], LK_ENOTSUP,
                 "layer %s of component %lld adds a loss, which a chain list does not take: train "
                 "it in a model",
                 term.name, (long long)k);
    }
    return LK_OK;
}

static void summand_add(lk_trainer *t, lk__summand summand)
{
    t->summand[t->n_summands++] = summand;
}

/* Whether terms can be had, of which `name` is the first that counts. */
static lk_status terms_check(const lk_trainer *t, const char *name)
{
    const lk_parallel_model *p = t->spec.parallel_model;
    bool devices = p &&
                   (!lk_parallel_model_is_serial(p) || lk_model_has_weight_reuse(t->spec.model));
    LK_CHECK(!devices, LK_ENOTSUP,
             "the loss of layer %s counts, which a model on several devices does not have: leave "
             "parallel.devices out, or `losses` without it",
             name);
    LK_CHECK(t->spec.recompute <= 1, LK_ENOTSUP,
             "the loss of layer %s counts, and train.recompute %lld would run it again: leave "
             "recompute out, or `losses` without it",
             name, (long long)t->spec.recompute);
    return LK_OK;
}

/* Layers whose terms count run: not one that another's term alone needs, which does not. */
static lk_status runs_check(const lk_trainer *t, const bool *counts)
{
    const lk_model *model = t->spec.model;
    bool *runs = NULL;
    LK_TRY(lk_arena_alloc(t->arena, &runs, lk_model_layers(model), sizeof *runs));
    lk__model_runs(model, counts, t->counts_loss, runs);
    for (int64_t i = 0; i < lk_model_terms(model); i++) {
        lk_term_info term;
        LK_TRY(lk_model_term(model, i, &term));
        LK_CHECK(!counts[i] || runs[term.layer], LK_EINVAL,
                 "losses: the layer of \"%s\" runs only for the loss of the one that it is "
                 "within, which does not count: name that too",
                 term.name);
    }
    return LK_OK;
}

/* The terms that count. */
static lk_status terms_choose(lk_trainer *t)
{
    const lk_model *model = t->spec.model;
    int64_t n = lk_model_terms(model);
    bool *counts = NULL;
    LK_TRY(lk_arena_alloc(t->arena, &counts, n, sizeof *counts));
    for (int64_t i = 0; i < n; i++) {
        lk_term_info term;
        LK_TRY(lk_model_term(model, i, &term));
        counts[i] = is_wanted(&t->options.losses, term.name);
        if (!counts[i])
            continue;
        LK_TRY(terms_check(t, term.name));
        summand_add(t,
                    (lk__summand){
                        .name = term.name, .term = i, .weight = term.weight, .parts = term.parts});
    }
    t->terms.counts = counts;
    t->terms.only = !t->counts_loss;
    return LK_TRACE(runs_check(t, counts));
}

lk_status lk__losses_choose(lk_trainer *t)
{
    int64_t most = 1 + (t->spec.model ? lk_model_terms(t->spec.model) : 0);
    LK_TRY(names_check(t));
    LK_TRY(lk_arena_alloc(t->arena, &t->summand, most, sizeof *t->summand));
    t->counts_loss = is_wanted(&t->options.losses, "loss");
    if (t->counts_loss)
        summand_add(t, (lk__summand){.name = "loss", .term = -1, .weight = 1});
    if (t->spec.chain)
        LK_TRY(chain_check(t));
    else
        LK_TRY(terms_choose(t));
    lk__counts *counts[] = {&t->step_counts, &t->train_counts, &t->eval_counts};
    for (int i = 0; i < 3; i++) {
        LK_TRY(lk_arena_alloc(t->arena, &counts[i]->each, most, sizeof(double)));
        LK_TRY(lk_arena_alloc(t->arena, &counts[i]->mean, most, sizeof(double)));
    }
    return LK_TRACE(lk_arena_alloc(t->arena, &t->joined, most, sizeof *t->joined));
}

/* ---- room ---- */

lk_status lk__losses_make(lk_trainer *t)
{
    int64_t leaves = t->plan->tiling ? lk_tiling_leaves(t->plan->tiling) : 1;
    int64_t most = 0;
    if (t->plan->stages > 1)
        LK_TRY(lk__plan_most_microbatches(t->plan, &most));
    most = most > LK_MAX_SUBTREES ? most : LK_MAX_SUBTREES;
    lk_dtype dtype = lk_tensor_dtype(t->seed);
    for (int64_t i = 0; i < t->n_summands; i++) {
        lk__summand *s = &t->summand[i];
        LK_TRY(lk_arena_alloc(t->arena, &s->own, leaves * most, sizeof *s->own));
        LK_TRY(lk_tensor_zeros(dtype, LK_SCALAR, &s->seed));
    }
    if (t->n_summands == t->counts_loss)
        return LK_OK; /* no term */
    t->terms.leaves = leaves;
    return LK_TRACE(lk_arena_alloc(t->arena, &t->terms.value,
                                   lk_model_terms(t->spec.model) * leaves, sizeof *t->terms.value));
}

void lk__losses_free(lk_trainer *t)
{
    for (int64_t i = 0; i < t->n_summands; i++)
        lk_tensor_free(t->summand[i].seed);
}

/* ---- of a batch ---- */

lk_status lk__losses_exchange(lk_trainer *t, lk_status st)
{
    lk_range range[LK_MAX_SUBTREES];
    bool none = lk__groups_microbatches(t->groups, range) == 0;
    for (int64_t i = 0; i < t->n_summands; i++) {
        const lk__summand *s = &t->summand[i];
        t->joined[i] = (lk__loss_sum){.deal = lk__groups_deal(t->groups, lk__pass_is_tiled(t, s)),
                                      .own = s->own};
        if (none) /* in fast mode each rank gives one */
            memset(s->own, 0, (size_t)lk__pass_leaves(t, s) * sizeof *s->own);
    }
    lk__control_vote(t->control, LK__VOTE_FAILED, st != LK_OK);
    LK_TRY(lk__control_exchange(t->control, t->joined, t->n_summands));
    if (lk__control_votes(t->control, LK__VOTE_FAILED) > 0)
        LK_TRY(lk_agree(lk__trainer_comm(t), st));
    return st;
}

static double joined_loss(const lk_trainer *t, int64_t i)
{
    const lk__summand *s = &t->summand[i];
    return s->weight * t->joined[i].total / (double)s->parts;
}

double lk__losses_sum(const lk_trainer *t, double *each)
{
    double sum = 0;
    for (int64_t i = 0; i < t->n_summands; i++) {
        each[i] = joined_loss(t, i);
        sum = i == 0 ? each[i] : sum + each[i];
    }
    return sum;
}

void lk__losses_add(const lk_trainer *t, double *each)
{
    for (int64_t i = 0; i < t->n_summands; i++)
        each[i] += joined_loss(t, i);
}

/* Rounded after each operation. */
static double seed_of(const lk__summand *s, int64_t samples, lk_dtype dtype)
{
    double per_sample = 1 / (double)samples, per_part = 1 / (double)s->parts;
    if (dtype == LK_F32)
        return (double)((float)s->weight * ((float)per_sample * (float)per_part));
    return s->weight * (per_sample * per_part);
}

/* What backward starts from: one over the samples of the batch, times one over the parts of each, times the
 * weight. */
lk_status lk__seed_fill(const lk_trainer *t, int64_t samples)
{
    lk_dtype dtype = lk_tensor_dtype(t->seed);
    lk__summand own = {.weight = 1, .parts = t->parts};
    LK_TRY(lk_tensor_fill_f64(t->seed, seed_of(&own, samples, dtype)));
    for (int64_t i = 0; !t->chained && i < t->n_summands; i++)
        LK_TRY(lk_tensor_fill_f64(t->summand[i].seed, seed_of(&t->summand[i], samples, dtype)));
    return LK_OK;
}

const char *lk_trainer_loss(const lk_trainer *t, int64_t i)
{
    return i >= 0 && i < t->n_summands ? t->summand[i].name : NULL;
}
