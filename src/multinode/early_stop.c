/* lk_early_stop_trigger: says when what all ranks observe gets no better.  A program with a loop of its own
 * has one on each rank; the rule of patience is also that of runs.
 */
#include "base/fpenv.h"
#include "coll/agree.h"
#include "coll/traits.h"
#include "data/period.h"
#include "multinode/aggregate.h"
#include "multinode/patience.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <math.h>
#include <string.h>

#define FIELD(member) offsetof(lk_early_stop_trigger_options, member)
static const lk_option trigger_options[] = {
    {"monitor", LK_OPTION_TEXT, FIELD(monitor), .value = "NAME", .def = "loss",
     .help = "the name of what is observed"},
    {"mode", LK_OPTION_CHOICE, FIELD(mode), .def = "auto", .choices = "auto min max",
     .help = "whether less is better, or more; auto: as the name says"},
    {"patience", LK_OPTION_INT, FIELD(patience), .def = "3", .min = 1, .max = 1e9,
     .help = "checks without progress after which to stop"},
    {"change", LK_OPTION_REAL, FIELD(change), .def = "0", .min = 0, .max = 1e30,
     .help = "what counts as progress must be better by more than this"},
    {"check", LK_OPTION_TEXT, FIELD(check_text), .value = "PERIOD", .def = "1 epoch",
     .help = "how often to look: \"1 epoch\", \"500 steps\""},
    {"max", LK_OPTION_TEXT, FIELD(max_text), .value = "PERIOD", .def = "100 epochs",
     .help = "when to stop in any case, or never"},
    {0}};

const lk_descriptor lk_early_stop_trigger_descriptor = {
    "early_stop_trigger", "stopping when nothing improves on any rank", NULL, trigger_options,
    sizeof(lk_early_stop_trigger_options)};

enum { BEST = LK_AGGREGATOR_NUMBERS, WITHOUT, N_NUMBERS };

struct lk_early_stop_trigger {
    lk_aggregator *aggregator;
    bool lower; /* is better */
    int64_t patience;
    double change;
    lk_period max;
    double best; /* NaN: none yet */
    int64_t without;
    int64_t state[N_NUMBERS];
};

bool lk__patience_update(double value, bool lower, double change, double *best, int64_t *without)
{
    bool better = isnan(*best) || (lower ? value < *best - change : value > *best + change);
    if (!better || isnan(value)) {
        ++*without;
        return false;
    }
    *without = 0;
    *best = value;
    return true;
}

/* ---- making one ---- */

/* Whether less of what has this name is better; NULL: the loss. */
static bool is_lower_better(const char *monitor)
{
    if (!monitor)
        return true;
    for (int i = 0; lk_metrics[i]; i++)
        if (strcmp(lk_metrics[i]->descriptor.name, monitor) == 0)
            return lk_metrics[i]->lower_is_better;
    return !strstr(monitor, "accuracy");
}

static bool is_lower(const lk_early_stop_trigger_options *o)
{
    return o->mode == LK_STOP_AUTO ? is_lower_better(o->monitor) : o->mode == LK_STOP_MIN;
}

static lk_status options_check(const lk_early_stop_trigger_options *o)
{
    LK_CHECK(o->mode >= LK_STOP_AUTO && o->mode <= LK_STOP_MAX, LK_EINVAL, "%d is no mode",
             o->mode);
    LK_CHECK(o->patience >= 1, LK_EINVAL, "a patience of %lld checks", (long long)o->patience);
    return LK_OK;
}

/* All ranks look at the same time, and by the same rule. */
static lk_status options_compare(lk_comm *comm, const lk_early_stop_trigger_options *o)
{
    int64_t change;
    memcpy(&change, &o->change, sizeof change);
    const lk__trait trait[] = {{"check", o->check.n, .is_hash = false},
                               {"whether check is of steps", o->check.steps, .is_hash = false},
                               {"max", o->max.n, .is_hash = false},
                               {"whether max is of steps", o->max.steps, .is_hash = false},
                               {"patience", o->patience, .is_hash = false},
                               {"another change", change, .is_hash = true},
                               {"whether less is better", is_lower(o), .is_hash = false}};
    return LK_TRACE(lk__traits_compare(comm, trait, sizeof trait / sizeof *trait, LK_ESTATE,
                                       "give the same options"));
}

/* `read` is what became of reading the options. */
static lk_status trigger_new(lk_comm *comm, const lk_early_stop_trigger_options *o, lk_status read,
                             lk_early_stop_trigger **out)
{
    lk_early_stop_trigger *t;
    lk_status st;
    LK_TRY(lk_agree(comm, read == LK_OK ? options_check(o) : read));
    LK_TRY(options_compare(comm, o));
    LK_TRY(lk__agree_alloc(comm, &t, sizeof *t));
    t->lower = is_lower(o);
    t->patience = o->patience;
    t->change = o->change;
    t->max = o->max;
    t->best = (double)NAN;
    LK_TRY_TO(fail, lk_aggregator_new(comm, o->check, NULL, NULL, &t->aggregator));
    *out = t;
    return LK_OK;
fail:
    lk_early_stop_trigger_free(t);
    return st;
}

lk_status lk_early_stop_trigger_new_options(lk_comm *comm,
                                            const lk_early_stop_trigger_options *options,
                                            lk_early_stop_trigger **out)
{
    *out = NULL;
    return LK_TRACE(trigger_new(comm, options, LK_OK, out));
}

static lk_status period_read(const char *option, const char *text, lk_period *out)
{
    LK_CHECK(lk__period_read(text, out), LK_EINVAL,
             "%s: \"%s\" is no period, such as \"1 epoch\", \"500 steps\" or \"never\"", option,
             text);
    return LK_OK;
}

static lk_status options_read(const char *text, lk_arena *arena, lk_early_stop_trigger_options *out)
{
    LK_TRY(lk_options_parse(&lk_early_stop_trigger_descriptor, text, arena, out));
    LK_TRY(period_read("check", out->check_text, &out->check));
    return LK_TRACE(period_read("max", out->max_text, &out->max));
}

lk_status lk_early_stop_trigger_new(lk_comm *comm, const char *options, lk_early_stop_trigger **out)
{
    LK_FP_GUARD();
    lk_arena *arena = NULL;
    lk_early_stop_trigger_options read = {0};
    *out = NULL;
    lk_status st = lk_arena_new(&arena);
    if (st == LK_OK)
        st = options_read(options, arena, &read);
    st = trigger_new(comm, &read, st, out);
    lk_arena_free(arena);
    return LK_TRACE(st);
}

void lk_early_stop_trigger_free(lk_early_stop_trigger *t)
{
    if (!t)
        return;
    lk_aggregator_free(t->aggregator);
    lk_free(t);
}

/* ---- what it says ---- */

lk_status lk_early_stop_trigger_observe(lk_early_stop_trigger *t, const lk_position *at,
                                        const double *value, bool *stop)
{
    LK_FP_GUARD();
    double mean = 0;
    bool due = false;
    *stop = false;
    LK_TRY(lk_aggregator_observe(t->aggregator, at, value, &mean, &due));
    if (due)
        (void)lk__patience_update(mean, t->lower, t->change, &t->best, &t->without);
    *stop = (due && t->without >= t->patience) || lk_period_is_due(t->max, at);
    return LK_OK;
}

double lk_early_stop_trigger_best(const lk_early_stop_trigger *t)
{
    return t->best;
}

lk_status lk_early_stop_trigger_state(lk_early_stop_trigger *t, const char *name,
                                      lk_state_tensor *tensor)
{
    LK_TRY(lk__aggregator_save(t->aggregator, t->state));
    memcpy(&t->state[BEST], &t->best, sizeof t->best);
    t->state[WITHOUT] = t->without;
    *tensor = (lk_state_tensor){
        .name = name, .dtype = LK_I64, .shape = LK_SHAPE(N_NUMBERS), .data = t->state};
    return LK_OK;
}

lk_status lk_early_stop_trigger_restore(lk_early_stop_trigger *t)
{
    LK_CHECK(t->state[WITHOUT] >= 0, LK_EINVAL, "the state has %lld checks without progress",
             (long long)t->state[WITHOUT]);
    LK_TRY(lk__aggregator_load(t->aggregator, t->state));
    memcpy(&t->best, &t->state[BEST], sizeof t->best);
    t->without = t->state[WITHOUT];
    return LK_OK;
}
