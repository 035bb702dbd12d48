/* Learning rules and momentum of a neon recipe.
 *
 * In October 2014 the model has a rate and a momentum, which only layers with a bias heed; later each layer has
 * a rule: a class, or a map with a type and lr_params.  An experiment has one optimizer, so all must be equal.
 */
#include "neon/neon.h"

#include <string.h>

static void monotone_read(neon_recipe *r, const lk_recipe_node *map, neon_rule *rule)
{
    static const char *const needed[] = {"initial_coef", "saturated_coef", "start_epoch",
                                         "saturate_epoch"};
    const lk_recipe_entry *e = lk_recipe_find(map, "start_epoch");
    int64_t start = 0;
    for (int i = 0; i < 4; i++)
        neon_need(r, map, "linear_monotone", needed[i]);
    neon_keys(r, map, "linear_monotone",
              "type initial_coef saturated_coef start_epoch saturate_epoch");
    rule->monotone = true;
    (void)neon_real(r, map, "initial_coef", 0, &rule->momentum);
    (void)neon_real(r, map, "saturated_coef", 0, &rule->saturated);
    (void)neon_whole(r, map, "saturate_epoch", 1, &rule->saturate);
    if (neon_whole(r, map, "start_epoch", 0, &start) && start > 0)
        neon_issue(r, e->line, e->column,
                   "value %lld of key \"start_epoch\": neon takes saturated_coef before it, and no "
                   "schedule here does",
                   (long long)start);
}

/* {type: constant, coef: 0.9} or {type: linear_monotone, ...}. */
static void momentum_read(neon_recipe *r, const lk_recipe_node *map, neon_rule *rule)
{
    const lk_recipe_entry *e = lk_recipe_find(map, "type");
    const char *type = "";
    neon_need(r, map, "the momentum", "type");
    if (!neon_text(r, map, "type", &type))
        return;
    if (strcmp(type, "linear_monotone") == 0) {
        monotone_read(r, map, rule);
    } else if (strcmp(type, "constant") == 0) {
        bool is_old = lk_recipe_find(map, "initial_coef") && !lk_recipe_find(map, "coef");
        neon_keys(r, map, "the momentum", is_old ? "type initial_coef" : "type coef");
        neon_need(r, map, "the momentum", is_old ? "initial_coef" : "coef");
        (void)neon_real(r, map, is_old ? "initial_coef" : "coef", 0, &rule->momentum);
    } else {
        neon_issue(r, e->line, e->column,
                   "value \"%.100s\" of key \"type\" of the momentum is not known; constant and "
                   "linear_monotone are",
                   type);
    }
    if (rule->momentum >= 1 || rule->saturated >= 1)
        neon_issue(r, map->line, map->column, "a momentum of 1 or more never forgets");
}

enum { PLAIN, PRETRAIN, MOMENTUM, ADADELTA, N_RULES };

/* Which rule a class or a type names; N_RULES: none. */
static int rule_find(neon_recipe *r, const lk_recipe_node *node, const char **name)
{
    static const char *const classes[] = {"GradientDescent", "GradientDescentPretrain",
                                          "GradientDescentMomentum", "AdaDelta"};
    static const char *const types[] = {"gradient_descent", "gradient_descent_pretrain",
                                        "gradient_descent_momentum", "adadelta"};
    int i = 0;
    *name = neon_class(r, node);
    if (!node->class_name)
        (void)neon_text(r, node, "type", name);
    while (i < N_RULES && strcmp(*name, node->class_name ? classes[i] : types[i]) != 0)
        i++;
    return i;
}

/* False after an issue that leaves nothing to compare. */
static bool rule_read(neon_recipe *r, const lk_recipe_node *node, neon_rule *rule)
{
    static const char *const keys[] = {
        "type lr_params learning_rate", "type lr_params learning_rate pretrain_learning_rate",
        "type lr_params learning_rate momentum_params", "type lr_params rho eps epsilon"};
    const char *name;
    int kind = rule_find(r, node, &name);
    if (kind == N_RULES) {
        neon_issue(r, node->line, node->column,
                   "\"%.100s\" is not known as a learning rule; GradientDescent, "
                   "GradientDescentPretrain, GradientDescentMomentum and AdaDelta are",
                   node->class_name ? node->class_name : name);
        return false;
    }
    neon_keys(r, node, name, keys[kind]);
    const lk_recipe_node *inner = neon_map(r, node, "lr_params"), *map = inner ? inner : node;
    if (inner)
        neon_keys(r, inner, name, keys[kind]);
    rule->adadelta = kind == ADADELTA;
    (void)neon_real(r, map, "learning_rate", 0, &rule->rate);
    if (neon_real(r, map, "pretrain_learning_rate", 0, &rule->pretrain_rate))
        rule->pretrains = true;
    if (kind == MOMENTUM) {
        const lk_recipe_node *momentum = neon_map(r, map, "momentum_params");
        neon_need(r, map, name, "momentum_params");
        if (momentum)
            momentum_read(r, momentum, rule);
    }
    (void)neon_real(r, map, "rho", 0, &rule->rho);
    if (!neon_real(r, map, "eps", 0, &rule->eps))
        (void)neon_real(r, map, "epsilon", 0, &rule->eps);
    if (rule->rho >= 1 || rule->eps <= 0 || rule->eps > 1)
        neon_issue(r, map->line, map->column,
                   "AdaDelta: rho must be below 1, eps above 0 and at most 1");
    return true;
}

static bool rule_is_equal(const neon_rule *a, const neon_rule *b)
{
    return a->adadelta == b->adadelta && a->rate == b->rate &&
           a->pretrain_rate == b->pretrain_rate && a->momentum == b->momentum &&
           a->monotone == b->monotone && a->saturated == b->saturated &&
           a->saturate == b->saturate && a->rho == b->rho && a->eps == b->eps;
}

/* The rule of a model or a layer, if it has one; the first is the experiment's. */
static void rule_take(neon_recipe *r, const lk_recipe_node *map, const char *key,
                      const neon_rule *before)
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    const lk_recipe_node *node = neon_map(r, map, key);
    neon_rule rule = *before;
    if (!node)
        return;
    rule.is_given = true;
    if (!rule_read(r, node, &rule))
        return;
    if (!r->rule.is_given)
        r->rule = rule;
    else if (!rule_is_equal(&rule, &r->rule))
        neon_issue(r, e->line, e->column,
                   "another learning rule than one before it: all layers have one here");
}

/* Rates that layers give themselves. */
static void rates_compare(neon_recipe *r)
{
    for (int64_t i = 0; i < r->n_layers; i++) {
        double rate;
        const lk_recipe_entry *e = lk_recipe_find(r->layer[i].node, "learning_rate");
        if (neon_real(r, r->layer[i].node, "learning_rate", 0, &rate) && rate != r->rule.rate)
            neon_issue(r, e->line, e->column,
                       "value %g of key \"learning_rate\": the model has %g, and all layers have "
                       "one here",
                       rate, r->rule.rate);
    }
}

/* The model's momentum, which layers without a bias do not heed. */
static void momentum_take(neon_recipe *r, const lk_recipe_node *model)
{
    const lk_recipe_entry *e = lk_recipe_find(model, "momentum");
    const lk_recipe_node *map = neon_map(r, model, "momentum");
    neon_rule rule = {.rate = 0};
    int64_t with = 0, without = 0;
    if (!map)
        return;
    momentum_read(r, map, &rule);
    for (int64_t i = 0; i < r->n_layers; i++) {
        neon_layer_type type = r->layer[i].type;
        if (type == NEON_CONV || type == NEON_LOCAL || type == NEON_LINEAR)
            *(r->layer[i].bias ? &with : &without) += 1;
    }
    if (with > 0 && without > 0) {
        neon_issue(r, e->line, e->column,
                   "key \"momentum\": neon heeds it in Layer, not in layers without a bias, and "
                   "this model has both; all layers have one here");
    } else if (with == 0) {
        neon_note(r, "momentum is left out: in October 2014 layers without a bias ignore it, and "
                     "this model has no others.");
    } else {
        r->rule.momentum = rule.momentum;
        r->rule.monotone = rule.monotone;
        r->rule.saturated = rule.saturated;
        r->rule.saturate = rule.saturate;
    }
}

void neon_take_rule(neon_recipe *r, const lk_recipe_node *model)
{
    neon_rule rule = {.rate = -1, .pretrain_rate = 0, .rho = 0.95, .eps = 1e-8};
    (void)neon_real(r, model, "learning_rate", 0, &rule.rate);
    rule.pretrains = neon_real(r, model, "pretrain_learning_rate", 0, &rule.pretrain_rate);
    rule_take(r, model, "learning_rule", &rule);
    for (int64_t i = 0; i < r->n_layers; i++)
        rule_take(r, r->layer[i].node, "learning_rule", &rule);
    if (!r->rule.is_given) {
        r->rule = rule;
        momentum_take(r, model);
    } else if (lk_recipe_find(model, "momentum")) {
        const lk_recipe_entry *e = lk_recipe_find(model, "momentum");
        neon_issue(r, e->line, e->column, "key \"momentum\" besides a learning rule");
    }
    if (r->rule.rate < 0 && !r->rule.adadelta)
        neon_issue(r, model->line, model->column, "the model has no key \"learning_rate\"");
    rates_compare(r);
}
