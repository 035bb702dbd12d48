/* lockstep plan: who runs which layer of an experiment on what, what is sent when, and what that takes.
 *
 * It prints the lk_plan that a trainer would run from, for each rank of a layout; nothing is trained.
 */
#include "experiment.h"
#include "job.h"
#include "layout.h"
#include "report.h"
#include "verb.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/op.h>
#include <lockstep/train.h>

#include <stdio.h>

struct plan_options {
    int64_t ranks, rank;
    const char *layout;
    bool json;
};

#define FIELD(name) offsetof(struct plan_options, name)

static const lk_option options[] = {
    {.name = "ranks",
     .type = LK_OPTION_INT,
     .offset = FIELD(ranks),
     .value = "N",
     .max = LK_MAX_LOCAL,
     .help = "how many ranks there would be, on one node; by default as many as the layout has"},
    {.name = "layout",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(layout),
     .value = "WORD",
     .help = "1, data2, 2x2, features2, stages3, or several joined by dots; by default what the "
             "experiment's `parallel` says"},
    {.name = "rank",
     .type = LK_OPTION_INT,
     .offset = FIELD(rank),
     .value = "N",
     .max = LK_MAX_LOCAL,
     .help = "whose plan"},
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "print one JSON object"},
    {.name = NULL},
};

static const char *const reach_name[] = {"sample", "element", "position", "window", "batch"};
static const char *const domain_name[] = {"samples", "tiles"};
static const char *const when_name[] = {"in forward", "in backward", "before the update",
                                        "after the update"};

/* "0-3", or "none". */
static const char *range_text(lk_range r, char out[48])
{
    if (r.n == 0)
        snprintf(out, 48, "none");
    else if (r.n == 1)
        snprintf(out, 48, "%lld", (long long)r.first);
    else
        snprintf(out, 48, "%lld-%lld", (long long)r.first, (long long)(r.first + r.n - 1));
    return out;
}

/* "[0-4,0-4,0-3]". */
static const char *box_text(const lk_box *b, char out[128])
{
    size_t n = (size_t)snprintf(out, 128, "[");
    for (int i = 0; i < b->ndim && n < 100; i++) {
        char range[48];
        n += (size_t)snprintf(out + n, 128 - n, "%s%s", i ? "," : "",
                              range_text((lk_range){b->first[i], b->n[i]}, range));
    }
    snprintf(out + n, 128 - n, "]");
    return out;
}

static int64_t memory_sum(const lk_plan_memory *m)
{
    return m->parameters + m->optimizer + m->gradients + m->state + m->samples + m->values;
}

/* ---- as text ---- */

static void print_layers(const lk_plan *p)
{
    static const report_column columns[] = {
        {"layer", "layer", -8},     {"reach", "reach", -8},       {"domain", "runs by", -8},
        {"samples", "samples", -8}, {"box", "holds of each", -8}, {"parameters", "parameters", 10},
        {"values", "values", 10}};
    report r;
    report_keep(&r, columns, LK_COUNT(columns), false);
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_plan *l = &p->layer[i];
        char samples[48], box[128];
        report_row(&r, (report_cell[]){cell_text(l->name), cell_text(reach_name[l->reach]),
                                       cell_text(domain_name[l->domain]),
                                       cell_text(range_text(l->samples, samples)),
                                       cell_text(box_text(&l->box, box)), cell_int(l->param_bytes),
                                       cell_int(l->value_bytes)});
    }
    report_end(&r);
}

static void print_transfers(const lk_plan *p)
{
    static const report_column columns[] = {{"when", "sent", -8},
                                            {"what", "what", -8},
                                            {"ranks", "ranks", 5},
                                            {"calls", "calls", 5},
                                            {"bytes", "bytes", 10}};
    report r;
    if (p->n_transfers == 0) {
        printf("nothing is sent\n");
        return;
    }
    report_keep(&r, columns, LK_COUNT(columns), false);
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        report_row(&r, (report_cell[]){cell_text(when_name[t->when]), cell_text(t->what),
                                       cell_int(t->ranks), cell_int(t->calls), cell_int(t->bytes)});
    }
    report_end(&r);
}

static void print_text(const lk_plan *p, const char *word)
{
    char pieces[48], samples[48];
    const lk_plan_memory *m = &p->memory;
    printf("layout %s: rank %d of %d has shards %s of %lld, samples %s of %lld\n\n", word, p->rank,
           p->ranks, range_text(p->shards, pieces), (long long)p->spec.shards,
           range_text(p->samples, samples), (long long)p->spec.batch);
    print_layers(p);
    putchar('\n');
    print_transfers(p);
    printf("\na step: %lld calls, %lld bytes\n", (long long)lk_plan_calls(p),
           (long long)lk_plan_bytes(p));
    printf("memory: %lld bytes: parameters %lld, optimizer %lld, gradients %lld, statistics %lld, "
           "samples %lld, values %lld\n",
           (long long)memory_sum(m), (long long)m->parameters, (long long)m->optimizer,
           (long long)m->gradients, (long long)m->state, (long long)m->samples,
           (long long)m->values);
}

/* ---- as JSON ---- */

static void json_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    report_json_text(text);
}

static void json_range(const char *key, lk_range r)
{
    printf(",\"%s\":[%lld,%lld]", key, (long long)r.first, (long long)r.n);
}

static void json_layer(const lk_layer_plan *l)
{
    putchar('{');
    json_text("layer", l->name);
    putchar(',');
    json_text("type", l->type);
    putchar(',');
    json_text("reach", reach_name[l->reach]);
    putchar(',');
    json_text("domain", domain_name[l->domain]);
    json_range("samples", l->samples);
    printf(",\"box\":[");
    for (int i = 0; i < l->box.ndim; i++)
        printf("%s[%lld,%lld]", i ? "," : "", (long long)l->box.first[i], (long long)l->box.n[i]);
    printf("],\"parameters\":%lld,\"values\":%lld}", (long long)l->param_bytes,
           (long long)l->value_bytes);
}

static void print_json(const lk_plan *p, const char *word)
{
    const lk_plan_memory *m = &p->memory;
    putchar('{');
    json_text("layout", word);
    printf(",\"rank\":%d,\"ranks\":%d,\"shards\":%lld,\"batch\":%lld", p->rank, p->ranks,
           (long long)p->spec.shards, (long long)p->spec.batch);
    json_range("shards_held", p->shards);
    json_range("samples", p->samples);
    printf(",\"layers\":[");
    for (int64_t i = 0; i < p->n_layers; i++) {
        if (i > 0)
            putchar(',');
        json_layer(&p->layer[i]);
    }
    printf("],\"transfers\":[");
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        printf("%s{", i ? "," : "");
        json_text("when", when_name[t->when]);
        putchar(',');
        json_text("what", t->what);
        printf(",\"ranks\":%d,\"calls\":%lld,\"bytes\":%lld}", t->ranks, (long long)t->calls,
               (long long)t->bytes);
    }
    printf(
        "],\"calls\":%lld,\"bytes\":%lld,\"memory\":{\"parameters\":%lld,\"optimizer\":%lld,"
        "\"gradients\":%lld,\"statistics\":%lld,\"samples\":%lld,\"values\":%lld,\"sum\":%lld}}\n",
        (long long)lk_plan_calls(p), (long long)lk_plan_bytes(p), (long long)m->parameters,
        (long long)m->optimizer, (long long)m->gradients, (long long)m->state,
        (long long)m->samples, (long long)m->values, (long long)memory_sum(m));
}

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

static int plan_print(const struct plan_options *o, lk_experiment *e, const lk_mesh_shape *shape)
{
    int64_t ranks = o->ranks > 0 ? o->ranks : layout_ranks(shape);
    char word[LK_MESH_WORD];
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    e->parallel.data = 0; /* this process is alone, whatever is planned */
    e->parallel.spatial.n = 0;
    e->parallel.features = e->parallel.stages = 1;
    int status = job_make(e, NULL, &job);
    if (status == LK_EXIT_DONE) {
        lk_status st = lk_trainer_plan_of(lk_job_trainer(job), shape, (int)ranks, (int)o->rank,
                                          &plan);
        if (st == LK_OK)
            st = lk_trainer_rehearse(lk_job_trainer(job), plan);
        if (st != LK_OK)
            status = experiment_failed(e, st);
    }
    if (plan) {
        lk_mesh_shape named = *shape;
        if (named.data == 0)
            named.data = plan->ranks;
        lk_mesh_shape_text(&named, word);
        if (o->json)
            print_json(plan, word);
        else
            print_text(plan, word);
    }
    lk_plan_free(plan);
    lk_job_free(job);
    return status;
}

static int plan_run(const void *given, int n, char **operand)
{
    const struct plan_options *o = given;
    lk_experiment *e = NULL;
    lk_mesh_shape shape;
    int status = experiment_open(n, operand, &e);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = shape_read(o, e, &shape);
    if (st == LK_OK)
        status = plan_print(o, e, &shape);
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
        "that it takes. Layouts that are not there yet are refused with the reason.\n"
        "JSON: an object with layers, transfers, calls, bytes and memory.",
    .options = options,
    .options_size = sizeof(struct plan_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .run = plan_run,
};
