/* Experiment and model of a neon recipe: what is trained, on which loss, for how long. */
#include "neon/neon.h"

#include <string.h>

#define MODEL_KEYS                                                                                 \
    "backend num_epochs num_pretrain_epochs num_initial_epochs batch_size learning_rate "          \
    "learning_rule pretraining sparsity pretrain_learning_rate tied_weights visualize spot_check " \
    "momentum pretrain_cost cost serialized_path layers dist_mode"

/* The class of a cost; false if there is none that is known. */
static bool cost_read(neon_recipe *r, const lk_recipe_node *model, const char *key,
                      bool *is_entropy)
{
    const lk_recipe_node *node = neon_map(r, model, key);
    if (!node)
        return false;
    const char *name = neon_class(r, node);
    *is_entropy = strcmp(name, "CrossEntropy") == 0;
    if (!*is_entropy && strcmp(name, "SumSquaredDiffs") != 0) {
        neon_issue(r, node->line, node->column,
                   "class %s is not known as a cost; CrossEntropy and SumSquaredDiffs are",
                   node->class_name ? node->class_name : "(none)");
        return false;
    }
    neon_keys(r, node, name, "");
    return true;
}

static void cost_take(neon_recipe *r, const lk_recipe_node *model)
{
    const lk_recipe_entry *e = lk_recipe_find(model, "cost");
    const neon_layer *last = r->n_layers > 0 ? &r->layer[r->n_layers - 1] : NULL;
    neon_need(r, model, "the model", "cost");
    if (!cost_read(r, model, "cost", &r->cross_entropy) || !last)
        return;
    if (r->classes > 0 && last->out.h > 0 &&
        (last->type != NEON_LINEAR || last->out.c != r->classes))
        neon_issue(r, last->node->line, last->node->column,
                   "the last layer must be a Layer or LayerWithNoBias with %lld outputs, one for "
                   "each class",
                   (long long)r->classes);
    if (r->cross_entropy && last->act != NEON_ACT_LOGISTIC)
        neon_issue(r, e->line, e->column,
                   "CrossEntropy is converted where the last layer is Logistic, and it is not");
    if (r->cross_entropy && r->rule.adadelta)
        neon_issue(
            r, e->line, e->column,
            "CrossEntropy with AdaDelta: the gradients here are those of the mean over the "
            "outputs, and eps is added to their squares, so that no eps gives the same steps");
    if (r->cross_entropy)
        neon_note(r,
                  "neon's gradient of CrossEntropy is that of the sum over the outputs, the loss "
                  "here is their mean: the rate is %lld times the recipe's. The last Logistic "
                  "is part of the loss.",
                  (long long)r->classes);
}

/* Batches: of data-parallel neon each process has a share, whose gradients are added up. */
static void batch_take(neon_recipe *r, const lk_recipe_node *model)
{
    int64_t own = 0;
    const lk_recipe_entry *e = lk_recipe_find(model, "batch_size");
    neon_need(r, model, "the model", "batch_size");
    if (!neon_whole(r, model, "batch_size", 1, &own))
        return;
    r->batch = own;
    for (int64_t i = 0; i < r->n_layers; i++) {
        int64_t given;
        const lk_recipe_entry *at = lk_recipe_find(r->layer[i].node, "batch_size");
        if (neon_whole(r, r->layer[i].node, "batch_size", 1, &given) && given != own)
            neon_issue(r, at->line, at->column,
                       "value %lld of key \"batch_size\": the model has %lld", (long long)given,
                       (long long)own);
    }
    if (r->mode != NEON_DATAPAR) {
        if (r->set_batch && r->set_batch != own)
            neon_issue(r, e->line, e->column, "value %lld of key \"batch_size\": the set has %lld",
                       (long long)own, (long long)r->set_batch);
        return;
    }
    if (r->set_batch < own || r->set_batch % own != 0) {
        neon_issue(r, e->line, e->column,
                   "value %lld of key \"batch_size\": with datapar the set's, %lld, must be a "
                   "multiple of it",
                   (long long)own, (long long)r->set_batch);
        return;
    }
    r->batch = r->set_batch;
    r->processes = r->batch / own;
    r->rule.rate *= (double)r->processes;
    if (r->processes > 1)
        neon_note(r,
                  "datapar: the batch is the set's. neon adds up the gradients of %lld "
                  "processes, each for the mean of its %lld samples; here it is the mean over "
                  "all %lld, so the rate is also taken %lld times.",
                  (long long)r->processes, (long long)own, (long long)r->batch,
                  (long long)r->processes);
    if (r->processes > 1 && r->rule.adadelta)
        neon_issue(r, e->line, e->column, "AdaDelta with datapar: no eps gives the same steps");
}

/* What pretraining of a GB model is made of. */
static void pretrain_take(neon_recipe *r, const lk_recipe_node *model)
{
    bool tied = true, entropy = false;
    const lk_recipe_entry *e = lk_recipe_find(model, "tied_weights");
    if (neon_flag(r, model, "tied_weights", &tied) && !tied)
        neon_issue(r, e->line, e->column,
                   "value False of key \"tied_weights\": there defiltering begins with a copy of "
                   "the filter's weights, which cannot be said here");
    e = lk_recipe_find(model, "pretrain_cost");
    if (cost_read(r, model, "pretrain_cost", &entropy) && entropy)
        neon_issue(r, e->line, e->column,
                   "value CrossEntropy of key \"pretrain_cost\": reconstruction is by "
                   "SumSquaredDiffs");
    neon_need(r, model, "the model", "num_pretrain_epochs");
    (void)neon_whole(r, model, "num_pretrain_epochs", 1, &r->pretrain_epochs);
    (void)neon_real(r, model, "sparsity", 0, &r->sparsity);
    if (!r->rule.pretrains)
        neon_issue(r, model->line, model->column,
                   "the model has no key \"pretrain_learning_rate\"");
    if (r->rule.is_given && (r->rule.adadelta || r->rule.momentum > 0))
        neon_issue(r, model->line, model->column,
                   "pretraining is by GradientDescent or GradientDescentPretrain");
    int64_t filters = 0;
    for (int64_t i = 0; i < r->n_layers; i++) {
        const neon_layer *l = &r->layer[i];
        if (l->type != NEON_LOCAL)
            continue;
        filters++;
        if (l->act != NEON_ACT_NONE || i + 1 == r->n_layers || r->layer[i + 1].type != NEON_L2POOL)
            neon_issue(r, l->node->line, l->node->column,
                       "a layer that is pretrained must be linear and have L2 pooling behind it");
    }
    if (filters == 0)
        neon_issue(r, model->line, model->column, "pretraining of a model without local filtering");
    neon_note(r,
              "pretraining: neon updates the weights twice for each batch, once from defiltering "
              "and once from filtering and sparsity; here it is one update from the sum of both "
              "(docs/guide/porting.md).");
}

static void epochs_take(neon_recipe *r, const lk_recipe_node *model)
{
    const lk_recipe_entry *e = lk_recipe_find(model, "num_initial_epochs");
    neon_need(r, model, "the model", "num_epochs");
    (void)neon_whole(r, model, "num_epochs", 1, &r->epochs);
    if (neon_whole(r, model, "num_initial_epochs", 0, &r->initial_epochs) && r->epochs > 0 &&
        r->initial_epochs > r->epochs)
        neon_issue(r, e->line, e->column,
                   "value %lld of key \"num_initial_epochs\": num_epochs is %lld",
                   (long long)r->initial_epochs, (long long)r->epochs);
    if (r->initial_epochs > 0 && strcmp(neon_class(r, model), "GB") != 0)
        neon_issue(r, e->line, e->column, "key \"num_initial_epochs\": only GB has it");
    bool changes = r->initial_epochs > 0 && r->initial_epochs < r->epochs;
    if (changes && (r->rule.adadelta || r->rule.momentum > 0))
        neon_issue(r, e->line, e->column,
                   "key \"num_initial_epochs\" with momentum or AdaDelta: what they remember "
                   "begins anew with a phase");
}

/* What changes nothing that is trained. */
static void extras_take(neon_recipe *r, const lk_recipe_node *model)
{
    static const char *const shown[] = {"visualize", "spot_check"};
    const char *path;
    for (int i = 0; i < 2; i++) {
        bool on = false;
        if (neon_flag(r, model, shown[i], &on) && on)
            neon_note(r, "%s shows features and is left out.", shown[i]);
    }
    if (neon_text(r, model, "serialized_path", &path))
        neon_note(r,
                  "serialized_path %s of the model is left out: train.output=FOLDER keeps "
                  "weights.safetensors, metrics and checkpoints.",
                  path);
}

static void model_take(neon_recipe *r, const lk_recipe_node *model)
{
    const char *name = neon_class(r, model);
    bool gb = strcmp(name, "GB") == 0;
    if (!gb && strcmp(name, "Convnet") != 0 && strcmp(name, "MLP") != 0) {
        neon_issue(r, model->line, model->column,
                   "class %s is not known as a model; MLP, Convnet and GB are",
                   model->class_name ? model->class_name : "(none)");
        return;
    }
    neon_keys(r, model, "the model", MODEL_KEYS);
    neon_take_backend(r, model);
    neon_take_layers(r, model);
    neon_take_rule(r, model);
    const lk_recipe_entry *e = lk_recipe_find(model, "pretraining");
    (void)neon_flag(r, model, "pretraining", &r->pretrains);
    if (r->pretrains && !gb)
        neon_issue(r, e->line, e->column, "key \"pretraining\" of %s: only GB has it", name);
    cost_take(r, model);
    batch_take(r, model);
    if (r->pretrains)
        pretrain_take(r, model);
    epochs_take(r, model);
    extras_take(r, model);
}

void neon_take(neon_recipe *r, const lk_recipe_node *root)
{
    const char *name = root->type == LK_RECIPE_MAP ? neon_class(r, root) : "";
    r->predicts = strcmp(name, "FitPredictErrorExperiment") == 0;
    if (strcmp(name, "GradientChecker") == 0) {
        neon_issue(r, root->line, root->column,
                   "class %s trains nothing: gradients are checked by \"lockstep gradcheck\"",
                   root->class_name);
        return;
    }
    if (!r->predicts && strcmp(name, "FitExperiment") != 0) {
        neon_issue(r, root->line, root->column,
                   "class %s is not known as an experiment; FitExperiment and "
                   "FitPredictErrorExperiment are",
                   root->class_name ? root->class_name : "(none)");
        return;
    }
    bool flag;
    neon_keys(r, root, "the experiment", "dist_flag backend datasets dataset model logging");
    (void)neon_flag(r, root, "dist_flag", &flag);
    neon_take_backend(r, root);
    neon_take_data(r, root);
    neon_need(r, root, "the experiment", "model");
    const lk_recipe_node *model = neon_map(r, root, "model");
    if (model)
        model_take(r, model);
    neon_note(r,
              "Initial values, the choice of samples and their order depend on the seed, but are "
              "not NumPy's. data.shuffle=false takes samples in the order of the file.");
    if (lk_recipe_find(root, "logging"))
        neon_note(r, "logging is left out: lockstep train reports its progress.");
}
