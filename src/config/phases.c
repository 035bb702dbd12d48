/* The phases of an experiment: parts of its training, one behind the other, as the list `phases` of a file.
 * experiment.c reads them with the other sections, on any thread; jobs run them (src/train/phases.c).
 */
#include "config/bind.h"
#include "config/sections.h"

#include <lockstep/optim.h>

#include <string.h>

#define FIELD(member) offsetof(lk_phase, member)
static const lk_option phase_options[] = {
    {"name", LK_OPTION_TEXT, FIELD(name), .flags = LK_OPTION_REQUIRED,
     .help = "what it is called in progress, metrics and reports"},
    {"epochs", LK_OPTION_INT, FIELD(epochs), .flags = LK_OPTION_REQUIRED | LK_OPTION_NO_HASH,
     .min = 0, .max = 1e9, .help = "how long it takes; 0: it is left out"},
    {"losses", LK_OPTION_NAMES, FIELD(losses), .value = "NAME,...", .flags = LK_OPTION_ONCE,
     .help = "losses that count: `loss` is that of the experiment, others are layers that add one "
             "(autoencoder, penalty), by their names; none given: all"},
    {"layers", LK_OPTION_NAMES, FIELD(layers), .value = "NAME,...", .flags = LK_OPTION_ONCE,
     .help = "layers whose parameters move, with all within them; the others stay as they are, "
             "running statistics too; none given: all move"},
    {"optimizer", LK_OPTION_CONFIG, FIELD(optimizer), .registry = &lk_registry_optimizer,
     .help = "how they follow their gradients; otherwise the experiment's optimizer"},
    {0}};
#undef FIELD

const lk_descriptor lk__section_phase = {
    "phases", "parts of the training, one behind the other: each item of the list",
    "Steps, epochs and the order of samples go on across phases. Each begins with an optimizer of "
    "its own, whose schedules count from the phase's first step; early stopping ends the phase, "
    "not the run, and the best evaluation is that of the phase. train.epochs is then their sum, "
    "and is not given.",
    phase_options, sizeof(lk_phase)};

/* Names tell phases apart. */
static lk_status name_check(const lk_experiment *e, int64_t n, const lk__yaml_node *node)
{
    const lk__yaml_node *name = lk__node_find(node, "name");
    LK_CHECK_AT(e->phase[n].name[0] && strlen(e->phase[n].name) < 64, &name->place,
                "the name of a phase has 1 to 63 bytes");
    for (int64_t i = 0; i < n; i++)
        LK_CHECK_AT(strcmp(e->phase[i].name, e->phase[n].name) != 0, &name->place,
                    "phases %lld and %lld are both called \"%s\"; rename one", (long long)i + 1,
                    (long long)n + 1, e->phase[n].name);
    return LK_OK;
}

/* Phases of 0 epochs are left out; of a training of 0 epochs the last one stays. */
static void idle_drop(lk_experiment *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_phases; i++)
        if (e->phase[i].epochs > 0 || (e->train.epochs == 0 && i == e->n_phases - 1))
            e->phase[n++] = e->phase[i];
    e->n_phases = n;
}

lk_status lk__bind_phases(lk_experiment *e, const lk__yaml_node *node, const lk__yaml_node *train)
{
    char text[LK_WHERE];
    if (!node)
        return LK_OK;
    const lk__yaml_node *epochs = train ? lk__node_find(train, "epochs") : NULL;
    LK_CHECK_AT(!epochs, &epochs->key_place,
                "epochs of train: the phases say how long each takes; leave it out");
    LK_CHECK_AT(node->type == LK__YAML_LIST && node->n > 0, &node->place,
                "phases must be a list of maps, each with a name and epochs, not %s",
                node->type == LK__YAML_LIST ? "an empty one" : lk__node_text(node, text));
    LK_TRY(lk_arena_alloc(e->arena, &e->phase, node->n, sizeof *e->phase));
    e->train.epochs = 0;
    for (const lk__yaml_node *item = node->first; item; item = item->next) {
        lk_phase *phase = &e->phase[e->n_phases];
        const lk__binding part = {&lk__section_phase, phase, NULL};
        LK_CHECK_AT(item->type == LK__YAML_MAP, &item->place, "a phase must be a map, not %s",
                    lk__node_text(item, text));
        LK_TRY(lk__bind_map(item, &item->place, "phases", false, &part, 1, e->arena));
        LK_TRY(name_check(e, e->n_phases, item));
        e->train.epochs += phase->epochs;
        e->n_phases++;
    }
    idle_drop(e);
    return LK_OK;
}

lk_status lk__phases_hash(const lk_experiment *e, lk_hash *h)
{
    for (int64_t i = 0; i < e->n_phases; i++) {
        lk_phase phase = e->phase[i]; /* a copy, because choices point to what may change */
        bool open = i == e->n_phases - 1 && !lk_experiment_uses_end(e);
        lk_hash_add_text(h, "phase");
        LK_TRY(
            lk_config_hash(&(lk_config){.descriptor = &lk__section_phase, .options = &phase}, h));
        lk_hash_add_i64(h, open ? -1 : phase.epochs);
    }
    return LK_OK;
}
