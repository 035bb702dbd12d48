/* lockstep plan: who runs which layer of an experiment on what, what is sent when, and what that takes.
 *
 * It prints the lk_plan that a trainer would run from, for each rank of a layout; nothing is trained.
 */
#include "experiment.h"
#include "layout.h"
#include "plan/draw.h"
#include "plan/fit.h"
#include "verb.h"

#include <lockstep/extra/suggest.h>
#include <lockstep/op.h>

#include <stdio.h>
#include <string.h>

struct plan_options {
    int64_t ranks, rank, micro_batches;
    const char *layout, *draw, *layer, *memory, *phase;
    bool schedule, compare, json;
};

#define FIELD(name) offsetof(struct plan_options, name)

static const lk_option options[] = {
    {"ranks", LK_OPTION_INT, FIELD(ranks), .value = "N", .max = LK_MAX_LOCAL,
     .help = "how many ranks there would be, on one node; by default as many as the layout has"},
    {"layout", LK_OPTION_TEXT, FIELD(layout), .value = "WORD",
     .help = "1, data2, 2x2, features2, stages3, or several joined by dots; by default what the "
             "experiment's `parallel` says"},
    {"rank", LK_OPTION_INT, FIELD(rank), .value = "N", .max = LK_MAX_LOCAL, .help = "whose plan"},
    {"memory", LK_OPTION_TEXT, FIELD(memory), .value = "SIZE",
     .help = "what a rank may take, in bytes, or as 512M or 2G; by default its share of what this "
             "machine has, and not more than ulimit -d"},
    {"draw", LK_OPTION_TEXT, FIELD(draw), .value = "FILE.svg",
     .help = "draw the tiles of a layer, and what is fetched from whom, the features that ranks "
             "have of all layers, or the schedules of --schedule, to a file as well"},
    {"layer", LK_OPTION_TEXT, FIELD(layer), .value = "NAME",
     .help = "which one --draw draws; by default the first that fetches something"},
    {"phase", LK_OPTION_TEXT, FIELD(phase), .value = "NAME",
     .help = "which of the experiment's phases; by default the last"},
    {"schedule", LK_OPTION_FLAG, FIELD(schedule),
     .help = "instead of the plan of a layout with stages, draw what each of them does when"},
    {"compare", LK_OPTION_FLAG, FIELD(compare),
     .help = "let --schedule draw 1f1b, gpipe and zb1p one below the other, not just the "
             "experiment's own"},
    {"micro_batches", LK_OPTION_INT, FIELD(micro_batches), .value = "N",
     .max = PIPELINE_DRAW_MICROBATCHES,
     .help = "how many --schedule draws; by default those of the rank's replica"},
    {"json", LK_OPTION_FLAG, FIELD(json), .help = "print one JSON object"},
    {.name = NULL},
};

/* ---- the plan ---- */

/* The layout that the experiment asks for, or --layout. */
static lk_status shape_read(const struct plan_options *o, const lk_experiment *e,
                            lk_mesh_shape *out)
{
    if (o->layout)
        return lk_mesh_shape_read(o->layout, out);
    *out = layout_of(e);
    if (out->data == 0 && o->ranks == 0)
        out->data = 1;
    return LK_OK;
}

/* Let the job begin with the phase that is asked for. */
static bool phase_choose(lk_experiment *e, const char *name)
{
    int64_t i = e->n_phases - 1;
    while (i >= 0 && name && strcmp(e->phase[i].name, name) != 0)
        i--;
    if (i > 0) {
        lk_phase first = e->phase[0];
        e->phase[0] = e->phase[i];
        e->phase[i] = first;
    }
    return i >= 0 || !name;
}

static int phase_refuse(const lk_experiment *e, const char *name)
{
    lk_suggestion s = {.wanted = name};
    if (e->n_phases == 0)
        return verb_refuse("lockstep plan: option --phase: the experiment has no phases");
    for (int64_t i = 0; i < e->n_phases; i++)
        lk_suggest_consider(&s, e->phase[i].name);
    bool near = lk_suggest_found(&s);
    return verb_refuse("lockstep plan: option --phase: there is no phase \"%s\"%s%s%s", name,
                       near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
}

/* Print a plan; draw the features of one that has them, and no tiles, otherwise the tiles of a layer. */
static int plan_show(const struct plan_options *o, const plan_asked *asked, const lk_job *job,
                     const lk_plan *plan)
{
    char word[LK_MESH_WORD], note[PLAN_FIT_NOTES][PLAN_NOTE];
    lk_mesh_shape named = asked->shape;
    if (named.data == 0)
        named.data = plan->ranks;
    lk_mesh_shape_text(&named, word);
    bool features = plan_has_features(plan) && !plan_has_space(plan) && !o->layer;
    int status = LK_EXIT_DONE;
    if (o->draw)
        status = features ? plan_draw_features(plan, lk_trainer_model(lk_job_trainer(job)), word,
                                               o->draw)
                          : plan_draw(plan, word, o->layer, o->draw);
    if (status != LK_EXIT_DONE)
        return status;
    int notes = plan_fit_notes(asked, job, plan, note);
    const lk_phase *phase = lk_job_phase(job);
    if (phase && !o->json)
        printf("phase %s\n", phase->name);
    if (o->json)
        plan_show_json(plan, word, note, notes);
    else
        plan_show_text(plan, word, note, notes);
    return LK_EXIT_DONE;
}

/* Draw its schedule. */
static int pipeline_print(const struct plan_options *o, const lk_plan *plan)
{
    lk_pipeline_spec spec = plan->pipeline;
    if (o->micro_batches > 0)
        spec.microbatches = o->micro_batches;
    if (spec.stages > PIPELINE_DRAW_STAGES || spec.microbatches > PIPELINE_DRAW_MICROBATCHES)
        return verb_refuse("lockstep plan: option --schedule: %d stages with %lld micro-batches "
                           "are too many to draw: up to %d and %d (--micro-batches) can be",
                           spec.stages, (long long)spec.microbatches, PIPELINE_DRAW_STAGES,
                           PIPELINE_DRAW_MICROBATCHES);
    return pipeline_draw(&spec, o->compare, o->draw, o->json);
}

static int plan_print(const struct plan_options *o, lk_experiment *e, const plan_asked *asked)
{
    int64_t ranks = o->ranks > 0 ? o->ranks : layout_ranks(&asked->shape);
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    char word[LK_MESH_WORD];
    if (o->schedule && asked->shape.stages <= 1)
        return verb_refuse("lockstep plan: option --schedule: layout %s has one stage: "
                           "`parallel.stages` or --layout cuts the model into some, as stages4 "
                           "does",
                           lk_mesh_shape_text(&asked->shape, word));
    lk_status st = plan_make(e, NULL, &asked->shape, (int)ranks, (int)o->rank, &job, &plan);
    int status;
    if (st != LK_OK)
        status = experiment_failed(e, st);
    else if (o->schedule)
        status = pipeline_print(o, plan);
    else
        status = plan_show(o, asked, job, plan);
    lk_plan_free(plan);
    lk_job_free(job);
    return status;
}

/* Options that say something of another one which is not given. */
static int options_check(const struct plan_options *o)
{
    if (o->layer && (!o->draw || o->schedule))
        return verb_refuse("lockstep plan: option --layer: it says what --draw draws%s",
                           o->schedule ? " of a plan, and --schedule draws none"
                                       : ", which is not given");
    if ((o->micro_batches > 0 || o->compare) && !o->schedule)
        return verb_refuse("lockstep plan: option --%s: it says what --schedule draws, which is "
                           "not given",
                           o->compare ? "compare" : "micro-batches");
    return LK_EXIT_DONE;
}

static int plan_run(const void *given, int n, char **operand)
{
    const struct plan_options *o = given;
    lk_experiment *e = NULL;
    plan_asked asked = {.n = n, .operand = operand};
    if (o->memory && !plan_size_read(o->memory, &asked.memory))
        return verb_refuse("lockstep plan: option --memory: \"%s\" is no size: a number of bytes, "
                           "or of K, M, G or T, as 512M",
                           o->memory);
    int status = options_check(o);
    if (status == LK_EXIT_DONE)
        status = experiment_open(n, operand, &e);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = shape_read(o, e, &asked.shape);
    if (!phase_choose(e, o->phase))
        status = phase_refuse(e, o->phase);
    else if (st == LK_OK)
        status = plan_print(o, e, &asked);
    else
        status = verb_refuse("lockstep plan: option --layout: %s", lk_error_message());
    lk_experiment_free(e);
    return status;
}

const lk__verb lk__verb_plan = {
    .name = "plan",
    .summary = "who runs which layer of an experiment, and what is sent when",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Prints the plan of a rank in a layout, without training: for each layer which samples it "
        "runs on, which box of each it holds and the bytes of parameters and values; what is sent "
        "in a step, when, in how many calls and bytes that the rank gives to them; and the memory "
        "that it takes. Where samples are cut into tiles it also says which layers run by tiles, "
        "the tile, how far beyond it a layer reads, and how many bytes of that it fetches from "
        "which ranks. Of an experiment with phases it is the plan of one: layers that do not run "
        "in it have no values. Layouts that are not there yet are refused with the reason.\n"
        "Where a rank takes more memory than it may, notes say so, and which finer grid, smaller "
        "batch, parallel.recompute of stages or train.recompute fits, and of a model that is most "
        "of it how many stages or ranks along features. Planning itself takes next to none.\n"
        "--draw writes a picture of it, as SVG: the tiles of a layer's values, whose they are, "
        "what this rank reads of them, and from whom it gets how many bytes; of a layout with "
        "features and no tiles, which features of each layer lie on which rank, and where they are "
        "gathered or joined.\n"
        "--schedule draws the pipeline of the layout's stages by the experiment's "
        "parallel.schedule, lag and micro_batch, with --compare by 1f1b, gpipe and zb1p: what each "
        "stage computes when, how long a step takes, its bubble and the tapes of each stage. Times "
        "are not measured: forward and each half of backward are taken to be equal on all stages, "
        "and messages to take none.\n"
        "JSON: an object with layers, transfers, calls, bytes, memory and notes; with --schedule "
        "an object a schedule.",
    .options = options,
    .options_size = sizeof(struct plan_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .run = plan_run,
};
