/* lockstep gradcheck --layout: a few steps of a model on one rank, then under random layouts, and whether each
 * step leaves the same bytes: parameters, gradients, statistics and loss.  The main thread draws and compares;
 * the ranks of a layout are threads.
 */
#include "gradcheck/random_layouts.h"

#include "experiment.h"
#include "gradcheck/draw.h"
#include "gradcheck/nets.h"
#include "gradcheck/node_kinds.h"
#include "gradcheck/train.h"
#include "layout.h"
#include "ranks.h"
#include "term.h"
#include "verb.h"
#include "verify/compare.h"
#include "verify/snapshot.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/log.h>
#include <lockstep/op.h>
#include <lockstep/thread.h>

#include <string.h>

#define COMMAND "lockstep gradcheck"

static const char one_rank[] = "{data: 1}"; /* parallel of what all is compared with */

enum { FAILURE = SNAPSHOT_TEXT + 64 };

typedef struct check {
    const gradcheck_layout_options *o;
    int64_t layouts; /* of all models, */
    int64_t differing,
        untrained; /* and of them those with other bits, and those that ended in an error */
    int64_t nodes[GRADCHECK_KINDS]; /* of all layouts */
    bool *met;                      /* types of layers, by their numbers in lk_layers */
    int64_t models, model;          /* how many there are, and which this is */
    report out;
    progress progress;
} check;

static const report_column columns[] = {
    {"model", "model", -12},        {"layout", "layout", -30}, {"ranks", "ranks", 5},
    {"schedule", "schedule", -8},   {"lag", "lag", -4},        {"micro_batch", "micro-batch", 11},
    {"recompute", "recompute", -9}, {"nodes", "nodes", 6},     {"pass", "result", -6},
    {"failure", NULL, 0},
};

static const report_column kind_columns[] = {
    {"kind", "kind", -8},
    {"nodes", "nodes", 8},
    {"forward", "forward", -8},
    {"backward", "backward", -8},
};

/* ---- one layout ---- */

/* Compare what a trial left with what one rank did; the first difference is written to `why`, "": none. */
static lk_status trial_compare(const gradcheck_trial *one, const gradcheck_trial *t,
                               char why[FAILURE])
{
    why[0] = '\0';
    for (int64_t i = 0; i < t->steps && !*why; i++) {
        char text[SNAPSHOT_TEXT];
        int differ;
        LK_TRY(snapshot_compare(one->state[i], t->state[i], &differ, text));
        if (differ > 0)
            snprintf(why, FAILURE, "after step %lld %s", (long long)i + 1, text);
        for (int64_t r = 0; r < t->ranks && !*why; r++) {
            double loss = t->loss[r * t->steps + i];
            if (!bits_are_equal(loss, one->loss[i]))
                snprintf(why, FAILURE, "after step %lld the loss is %.17g and on rank %lld %.17g",
                         (long long)i + 1, one->loss[i], (long long)r, loss);
        }
    }
    return LK_OK;
}

static void layout_row(check *c, const char *model, const gradcheck_layout *l, int64_t nodes,
                       const char *why)
{
    bool pass = !*why, stages = l->schedule != NULL;
    report_row(&c->out, (report_cell[]){
                            cell_text(model),
                            cell_text(l->word),
                            cell_int(l->ranks),
                            stages ? cell_text(l->schedule) : cell_none(),
                            l->lag ? cell_text(l->lag) : cell_none(),
                            stages ? cell_int(l->micro_batch) : cell_none(),
                            stages ? cell_bool(l->recompute, l->recompute ? "yes" : "no", NULL)
                                   : cell_none(),
                            cell_int(nodes),
                            cell_bool(pass, pass ? "ok" : "FAIL", pass ? TERM_GREEN : TERM_RED),
                            pass ? cell_none() : cell_text(why),
                        });
    if (!pass)
        fprintf(stderr, "error: %s, layout %s: %s\n  with parallel=%s\n", model, l->word, why,
                l->parallel);
}

/* Train a layout.  One that cannot be trained has failed as well, as a plan could be made for it; not where
 * memory or the disk is full.  LK_ESTATE: copies of what several ranks have are not the same. */
static lk_status layout_train(check *c, gradcheck_trial *t, char why[FAILURE])
{
    lk_status st = gradcheck_train(t);
    if (st == LK_OK || st == LK_ENOMEM || st == LK_EIO)
        return st;
    snprintf(why, FAILURE, "%s", lk_error_message());
    lk_error_clear();
    c->differing += st == LK_ESTATE;
    c->untrained += st != LK_ESTATE;
    return LK_OK;
}

static lk_status layout_check(check *c, const gradcheck_trial *one, const gradcheck_layout *l)
{
    gradcheck_trial t = *one;
    char why[FAILURE] = "";
    int64_t nodes = 0;
    t.parallel = l->parallel;
    t.ranks = l->ranks;
    lk_status st = layout_train(c, &t, why);
    if (st == LK_OK && !*why) {
        for (int64_t i = 0; i < (int64_t)t.ranks * GRADCHECK_KINDS; i++) {
            c->nodes[i % GRADCHECK_KINDS] += t.nodes[i];
            nodes += t.nodes[i];
        }
        st = trial_compare(one, &t, why);
        c->differing += *why != '\0';
    }
    gradcheck_trial_free(&t);
    progress_clear(&c->progress);
    LK_TRY(st);
    layout_row(c, one->model->name, l, nodes, why);
    c->layouts++;
    return LK_OK;
}

/* ---- one model ---- */

static void layers_note(check *c, const lk_job *job)
{
    const lk_plan *plan = lk_trainer_plan(lk_job_trainer(job));
    for (int64_t k = 0; k < plan->n_layers; k++)
        for (int i = 0; lk_layers[i]; i++)
            if (strcmp(lk_layers[i]->descriptor.name, plan->layer[k].type) == 0)
                c->met[i] = true;
}

/* All of its layouts, which `job`, of one rank, draws. */
static lk_status layouts_run(check *c, const gradcheck_model *m, const lk_job *job)
{
    gradcheck_layout *layout = NULL;
    gradcheck_trial one = {.model = m, .parallel = one_rank, .ranks = 1, .steps = c->o->steps};
    int64_t n = 0;
    lk_status st = lk_alloc(&layout, c->o->count, sizeof *layout);
    if (st == LK_OK)
        st = gradcheck_draw(job, c->o->seed, m->name, c->o->count, layout, &n);
    if (st == LK_OK && n == 0)
        st = LK_RAISE(LK_ENOTSUP,
                      "its shards, pieces and layers allow no layout of 2 to %d ranks: more "
                      "data.shards do",
                      GRADCHECK_RANKS);
    if (st == LK_OK)
        st = gradcheck_train(&one);
    if (st == LK_OK && c->model == 0) {
        report_begin(&c->out, columns, LK_COUNT(columns), c->o->json);
        progress_begin(&c->progress);
    }
    for (int64_t i = 0; i < n && st == LK_OK; i++) {
        progress_show(&c->progress, ((double)c->model + (double)i / (double)n) / (double)c->models,
                      "%s, layout %s", m->name, layout[i].word);
        st = layout_check(c, &one, &layout[i]);
    }
    gradcheck_trial_free(&one);
    lk_free(layout);
    return LK_TRACE(st);
}

/* Axes that layouts of the experiment leave whole. */
static void pieces_note(const check *c, const lk_experiment *e)
{
    const lk_pieces *cut = &e->pieces.cut;
    FILE *to = c->o->json ? stderr : stdout; /* JSON has stdout for itself */
    if (cut->tile[0] <= 1 && cut->tile[1] <= 1 && cut->tile[2] <= 1)
        fprintf(to, "pieces.tiles is 1: no layout cuts samples\n");
    if (cut->blocks <= 1)
        fprintf(to, "pieces.blocks is 1: no layout cuts features\n");
}

/* Whether each rank has files of its own. */
static bool data_is_of_rank(const lk_config *data)
{
    for (const lk_option *o = data->descriptor->options; o && o->name; o++) {
        const char *const *text = (const char *const *)(void *)((char *)data->options + o->offset);
        if (o->type == LK_OPTION_TEXT && *text && strchr(*text, '{'))
            return true;
    }
    return false;
}

/* Open the training set of an experiment, for all ranks of all layouts: each would open, or generate, all of it
 * to read a few batches. */
static lk_status set_open(const lk_experiment *e, gradcheck_model *m)
{
    if (m->set || data_is_of_rank(&e->data))
        return LK_OK;
    return LK_TRACE(lk_dataset_open_config(&e->data, LK_TRAIN, &m->set));
}

/* Opens the set of the model if it has none; the caller frees it. */
static int model_run(check *c, gradcheck_model *m)
{
    lk_job_spec spec = {0};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_status st = gradcheck_model_read(m, one_rank, &e);
    if (st == LK_ENOMEM)
        return verb_failed();
    if (st != LK_OK && !m->path)
        return verb_refuse(COMMAND ": KEY=VALUE goes to each of its models, also to %s: %s",
                           m->name, lk_error_message());
    if (st != LK_OK)
        return verb_refuse("%s", lk_error_message());
    int64_t phases = phases_trained(e);
    int status = LK_EXIT_DONE;
    if (c->o->steps < phases)
        status = verb_refuse(COMMAND ": option --steps: %lld for %lld phases: give at least %lld, "
                                     "so that each is trained",
                             (long long)c->o->steps, (long long)phases, (long long)phases);
    spec.experiment = e;
    if (status == LK_EXIT_DONE)
        st = set_open(e, m);
    spec.set[LK_TRAIN] = m->set;
    if (status == LK_EXIT_DONE && st == LK_OK)
        st = lk_job_new_spec(&spec, &job);
    if (status == LK_EXIT_DONE && st == LK_OK) {
        lk_log_set_level(LK_LOG_ERROR); /* other ranks have the same to say */
        layers_note(c, job);
        if (m->path)
            pieces_note(c, e);
        st = layouts_run(c, m, job);
    }
    if (st != LK_OK)
        status = experiment_failed(e, st);
    lk_job_free(job);
    lk_experiment_free(e);
    c->model++;
    return status;
}

static int net_run(check *c, const gradcheck_net *net, int n, char **assignment)
{
    gradcheck_model m = {.name = net->name, .text = net->text, .n = n, .assignment = assignment};
    if (net->takes_words && gradcheck_words(&m.set) != LK_OK)
        return verb_failed();
    int status = model_run(c, &m);
    lk_dataset_free(m.set);
    return status;
}

/* ---- all of it ---- */

static void kinds_print(const check *c)
{
    gradcheck_kind kind;
    report r;
    if (!c->o->json)
        putchar('\n');
    report_keep(&r, kind_columns, LK_COUNT(kind_columns), c->o->json);
    for (int i = 0; gradcheck_kind_at(i, &kind); i++)
        report_row(&r, (report_cell[]){cell_text(kind.name), cell_int(c->nodes[i]),
                                       *kind.ahead ? cell_text(kind.ahead) : cell_none(),
                                       *kind.back ? cell_text(kind.back) : cell_none()});
    report_end(&r);
}

/* Of the command's own models: kinds and types that none has met.  Returns how many. */
static int unmet_print(const check *c)
{
    gradcheck_kind kind;
    int unmet = 0;
    for (int i = 0; gradcheck_kind_at(i, &kind); i++)
        if (c->nodes[i] == 0 && ++unmet)
            fprintf(stderr,
                    "error: no layout had a node of the kind %s: a larger --count may have\n",
                    kind.name);
    for (int i = 0; lk_layers[i]; i++)
        if (!c->met[i] && ++unmet)
            fprintf(stderr, "error: no model has a layer of the type %s\n",
                    lk_layers[i]->descriptor.name);
    return unmet;
}

static int summary(const check *c, bool own)
{
    kinds_print(c);
    int unmet = own ? unmet_print(c) : 0;
    bool pass = c->differing == 0 && c->untrained == 0;
    if (c->differing > 0)
        fprintf(stderr, "error: " COMMAND ": %lld of %lld layouts %s other bits than one rank\n",
                (long long)c->differing, (long long)c->layouts, c->differing == 1 ? "has" : "have");
    if (c->untrained > 0)
        fprintf(stderr, "error: " COMMAND ": %lld of %lld layouts could not be trained\n",
                (long long)c->untrained, (long long)c->layouts);
    if (pass && !c->o->json)
        printf("\n%lld layout%s, %lld step%s each: the bytes of one rank\n", (long long)c->layouts,
               plural(c->layouts), (long long)c->o->steps, plural(c->o->steps));
    return !pass || unmet > 0 ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

/* A file is called by its name without folders. */
static int file_run(check *c, int n, char **operand)
{
    const char *slash = strrchr(operand[0], '/');
    gradcheck_model m = {.name = slash ? slash + 1 : operand[0],
                         .path = operand[0],
                         .n = n - 1,
                         .assignment = operand + 1};
    c->models = 1;
    int status = model_run(c, &m);
    lk_dataset_free(m.set);
    return status;
}

static int nets_run(check *c, int n, char **assignment)
{
    int status = LK_EXIT_DONE;
    while (gradcheck_nets[c->models].name)
        c->models++;
    for (int64_t i = 0; i < c->models && status == LK_EXIT_DONE; i++)
        status = net_run(c, &gradcheck_nets[i], n, assignment);
    return status;
}

static int models_run(check *c, int n, char **operand)
{
    bool file = n > 0 && !strchr(operand[0], '=');
    int types = 0;
    while (lk_layers[types])
        types++;
    lk_status st = lk_threads_set(1); /* of each rank */
    if (st == LK_OK)
        st = lk_alloc_zero(&c->met, types, sizeof *c->met);
    if (st != LK_OK)
        return verb_failed();
    int status = file ? file_run(c, n, operand) : nets_run(c, n, operand);
    return status == LK_EXIT_DONE ? summary(c, !file) : status;
}

int gradcheck_layout_run(const gradcheck_layout_options *o, int n, char **operand)
{
    check c = {.o = o};
    if (ranks_launched())
        return verb_refuse(COMMAND ": --layout starts its ranks itself, as threads: run it without "
                                   "a launcher");
    int status = models_run(&c, n, operand);
    lk_free(c.met);
    return status;
}
