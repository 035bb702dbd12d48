/* An lk_plan as one JSON object on stdout, its keys in a fixed order.  The verb plan calls it for --json, in
 * place of the tables of text.c.
 */
#include "plan/show.h"
#include "report.h"

#include <stdio.h>

static void json_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    report_json_text(text);
}

static void json_range(const char *key, lk_range r)
{
    printf(",\"%s\":[%lld,%lld]", key, (long long)r.first, (long long)r.n);
}

static void json_box(const char *key, const lk_box *box)
{
    printf(",\"%s\":[", key);
    for (int i = 0; i < box->ndim; i++)
        printf("%s[%lld,%lld]", i ? "," : "", (long long)box->first[i], (long long)box->n[i]);
    putchar(']');
}

/* What a layer that runs by tiles has, reads beyond it, and gets from whom. */
static void json_tile(const lk_plan *p, const lk_layer_plan *l)
{
    int n = 0;
    json_box("tile", &l->tile);
    printf(",\"margin\":[");
    for (int d = 0; d < p->tiling->ndim; d++)
        printf("%s[%lld,%lld]", d ? "," : "", (long long)l->margin[d][0],
               (long long)l->margin[d][1]);
    printf("],\"fetched\":%lld,\"fetches\":[", (long long)plan_fetched(l));
    for (int k = 0; k < PLAN_FETCHES; k++) {
        int64_t bytes;
        int rank;
        lk_box box;
        const lk_fetch *fetch = plan_fetch(l, k, &bytes);
        for (int i = 0; fetch && lk_fetch_part(fetch, i, &rank, &box); i++) {
            printf("%s{", n++ ? "," : "");
            json_text("when", plan_when_name[k == 0 ? LK_IN_FORWARD : LK_IN_BACKWARD]);
            putchar(',');
            json_text("what", plan_fetch_name[k]);
            printf(",\"rank\":%d", plan_rank(p, rank));
            json_box("box", &box);
            printf(",\"bytes\":%lld}", (long long)(bytes * lk_box_count(&box)));
        }
    }
    printf("],\"filters\":%lld", (long long)l->filter_bytes);
}

/* The grid of the ranks that share samples. */
static void json_space(const lk_plan *p)
{
    const lk_tiling *t = p->tiling;
    printf(",\"grid\":[");
    for (int d = 0; d < t->ndim; d++)
        printf("%s%d", d ? "," : "", t->grid.dim[d]);
    printf("],\"tiles\":[");
    for (int d = 0; d < t->ndim; d++)
        printf("%s%lld", d ? "," : "", (long long)t->tiles[d]);
    printf("],\"tiles_held\":[");
    for (int d = 0; d < t->ndim; d++)
        printf("%s[%lld,%lld]", d ? "," : "", (long long)t->held[d].first, (long long)t->held[d].n);
    putchar(']');
    json_range("samples_owned", p->owned);
}

static void json_layer(const lk_plan *p, const lk_layer_plan *l)
{
    putchar('{');
    json_text("layer", l->name);
    putchar(',');
    json_text("type", l->type);
    putchar(',');
    json_text("reach", plan_reach_name[l->reach]);
    putchar(',');
    json_text("domain", plan_domain_name[l->domain]);
    json_range("samples", l->samples);
    json_box("box", &l->box);
    if (plan_has_space(p) && l->domain == LK_BY_TILE)
        json_tile(p, l);
    printf(",\"parameters\":%lld,\"values\":%lld}", (long long)l->param_bytes,
           (long long)l->value_bytes);
}

void plan_show_json(const lk_plan *p, const char *word, char (*more)[PLAN_NOTE], int n)
{
    const lk_plan_memory *m = &p->memory;
    putchar('{');
    json_text("layout", word);
    printf(",\"rank\":%d,\"ranks\":%d,\"shards\":%lld,\"batch\":%lld",
           plan_rank(p, p->tiling ? p->tiling->rank : 0), plan_ranks(p), (long long)p->spec.shards,
           (long long)p->spec.batch);
    json_range("shards_held", p->shards);
    json_range("samples", p->samples);
    if (p->stages > 1)
        printf(",\"stage\":%d,\"stages\":%d,\"schedule\":\"%s\",\"micro_batches\":%lld,"
               "\"under_way\":%lld",
               p->stage, p->stages, lk_pipeline_name(p->pipeline.kind), (long long)p->microbatches,
               (long long)lk_pipeline_tapes(&p->pipeline, p->stage));
    if (plan_has_space(p))
        json_space(p);
    if (plan_has_features(p)) {
        printf(",\"blocks\":%lld", (long long)p->split->blocks);
        json_range("blocks_held", p->split->held);
    }
    printf(",\"layers\":[");
    const char *comma = "";
    for (int64_t i = 0; i < p->n_layers; i++) {
        if (p->layer[i].stage != p->stage)
            continue;
        fputs(comma, stdout);
        json_layer(p, &p->layer[i]);
        comma = ",";
    }
    printf("],\"transfers\":[");
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        printf("%s{", i ? "," : "");
        json_text("when", plan_when_name[t->when]);
        putchar(',');
        json_text("what", t->what);
        putchar(',');
        json_text("how", plan_kind_name[t->kind]);
        printf(",\"ranks\":%d,\"calls\":%lld,\"bytes\":%lld}", t->ranks, (long long)t->calls,
               (long long)t->bytes);
    }
    printf("],\"calls\":%lld,\"bytes\":%lld,\"memory\":{\"parameters\":%lld,\"optimizer\":%lld,"
           "\"gradients\":%lld,\"statistics\":%lld,\"samples\":%lld,\"exchange\":%lld,"
           "\"values\":%lld,\"filters\":%lld,\"saving\":%lld,\"sum\":%lld}",
           (long long)lk_plan_calls(p), (long long)lk_plan_bytes(p), (long long)m->parameters,
           (long long)m->optimizer, (long long)m->gradients, (long long)m->state,
           (long long)m->samples, (long long)m->exchange, (long long)m->values,
           (long long)m->filters, (long long)m->saving, (long long)lk_plan_memory_sum(m));
    char note[PLAN_NOTE];
    printf(",\"notes\":[");
    int64_t at = 0, told = 0;
    for (; plan_note_next(p, &at, note); told++) {
        printf("%s", told > 0 ? "," : "");
        report_json_text(note);
    }
    for (int i = 0; i < n; i++, told++) {
        printf("%s", told > 0 ? "," : "");
        report_json_text(more[i]);
    }
    printf("]}\n");
}
