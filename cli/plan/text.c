/* A plan as tables: what each layer runs on, what is sent when, and what it takes. */
#include "layout.h"
#include "plan/show.h"
#include "report.h"

#include <lockstep/op.h>

#include <stdio.h>

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

/* ---- whole samples ---- */

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
        if (l->stage != p->stage)
            continue;
        char samples[48], box[128];
        report_row(&r, (report_cell[]){cell_text(l->name), cell_text(plan_reach_name[l->reach]),
                                       cell_text(plan_domain_name[l->domain]),
                                       cell_text(range_text(l->samples, samples)),
                                       cell_text(box_text(&l->box, box)), cell_int(l->param_bytes),
                                       cell_int(l->value_bytes)});
    }
    report_end(&r);
}

static void print_transfers(const lk_plan *p)
{
    static const report_column columns[] = {{"when", "sent", -8},  {"what", "what", -8},
                                            {"kind", "how", -7},   {"ranks", "ranks", 5},
                                            {"calls", "calls", 5}, {"bytes", "bytes", 10}};
    report r;
    if (p->n_transfers == 0) {
        printf("nothing is sent\n");
        return;
    }
    report_keep(&r, columns, LK_COUNT(columns), false);
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        report_row(&r, (report_cell[]){cell_text(plan_when_name[t->when]), cell_text(t->what),
                                       cell_text(plan_kind_name[t->kind]), cell_int(t->ranks),
                                       cell_int(t->calls), cell_int(t->bytes)});
    }
    report_end(&r);
}

/* ---- tiles ---- */

/* "2+0,0+2": what a layer reads before its tile and behind it, along each axis. */
static const char *margin_text(const lk_plan *p, const lk_layer_plan *l, char out[128])
{
    bool some = false;
    size_t n = 0;
    for (int d = 0; d < p->tiling->ndim && n < 80; d++) {
        some = some || l->margin[d][0] + l->margin[d][1] > 0;
        n += (size_t)snprintf(out + n, 128 - n, "%s%lld+%lld", d ? "," : "",
                              (long long)l->margin[d][0], (long long)l->margin[d][1]);
    }
    return some ? out : "-";
}

/* "1,2,3": the ranks that a layer fetches from, forward or backward, each once. */
static const char *from_text(const lk_plan *p, const lk_layer_plan *l, char out[128])
{
    size_t n = 0;
    for (int r = 0; r < p->tiling->size && n < 100; r++) {
        bool gives = false;
        for (int k = 0; k < PLAN_FETCHES; k++) {
            int64_t bytes;
            int rank;
            lk_box box;
            const lk_fetch *fetch = plan_fetch(l, k, &bytes);
            for (int i = 0; fetch && lk_fetch_part(fetch, i, &rank, &box); i++)
                gives = gives || rank == r;
        }
        if (gives)
            n += (size_t)snprintf(out + n, 128 - n, "%s%d", n > 0 ? "," : "", plan_rank(p, r));
    }
    return n > 0 ? out : "-";
}

static void print_tiles(const lk_plan *p)
{
    static const report_column columns[] = {
        {"layer", "layer", -8}, {"domain", "runs by", -7},        {"samples", "samples", -7},
        {"tile", "tile", -8},   {"margin", "margin", -6},         {"fetched", "fetched", 7},
        {"from", "from", -4},   {"parameters", "parameters", 10}, {"values", "values", 10}};
    report r;
    report_keep(&r, columns, LK_COUNT(columns), false);
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_plan *l = &p->layer[i];
        if (l->stage != p->stage)
            continue;
        char samples[48], tile[128], margin[128], from[128];
        report_row(&r, (report_cell[]){cell_text(l->name), cell_text(plan_domain_name[l->domain]),
                                       cell_text(range_text(l->samples, samples)),
                                       cell_text(box_text(&l->tile, tile)),
                                       cell_text(margin_text(p, l, margin)),
                                       cell_int(plan_fetched(l)), cell_text(from_text(p, l, from)),
                                       cell_int(l->param_bytes), cell_int(l->value_bytes)});
    }
    report_end(&r);
}

/* Which tiles, and whose samples. */
static void print_place(const lk_plan *p)
{
    const lk_tiling *t = p->tiling;
    char grid[LAYOUT_GRID], tiles[LAYOUT_GRID], at[48], samples[48];
    int64_t dim[LK_TILE_AXES];
    for (int d = 0; d < t->ndim; d++)
        dim[d] = t->grid.dim[d];
    printf("tiles %s on a grid %s, of them", layout_grid_text(t->ndim, t->tiles, tiles),
           layout_grid_text(t->ndim, dim, grid));
    for (int d = 0; d < t->ndim; d++)
        printf("%s %s", d > 0 ? " x" : "", range_text(t->held[d], at));
    printf(" here; where layers run by samples, samples %s\n", range_text(p->owned, samples));
}

/* Which blocks of features. */
static void print_blocks(const lk_plan *p)
{
    char held[48];
    printf("blocks %lld on %d ranks along features, of them %s here\n", (long long)p->split->blocks,
           p->split->size, range_text(p->split->held, held));
}

/* Which stage, and how micro-batches go through it. */
static void print_stage(const lk_plan *p)
{
    char layers[48];
    printf("stage %d of %d: layers %s of the model; %lld micro-batch%s of up to %lld samples, "
           "schedule "
           "%s, up to %lld under way\n",
           p->stage, p->stages, range_text(p->layers, layers), (long long)p->microbatches,
           p->microbatches == 1 ? "" : "es", (long long)p->pass_samples,
           lk_pipeline_name(p->pipeline.kind),
           (long long)lk_pipeline_tapes(&p->pipeline, p->stage));
}

void plan_show_text(const lk_plan *p, const char *word, char (*more)[PLAN_NOTE], int n)
{
    char pieces[48], samples[48];
    const lk_plan_memory *m = &p->memory;
    printf("layout %s: rank %d of %d has shards %s of %lld, samples %s of %lld\n", word,
           plan_rank(p, p->tiling ? p->tiling->rank : 0), plan_ranks(p),
           range_text(p->shards, pieces), (long long)p->spec.shards,
           range_text(p->samples, samples), (long long)p->spec.batch);
    if (p->stages > 1)
        print_stage(p);
    if (plan_has_space(p))
        print_place(p);
    if (plan_has_features(p))
        print_blocks(p);
    putchar('\n');
    if (plan_has_space(p))
        print_tiles(p);
    else
        print_layers(p);
    putchar('\n');
    print_transfers(p);
    printf("\na step: %lld calls, %lld bytes\n", (long long)lk_plan_calls(p),
           (long long)lk_plan_bytes(p));
    printf("memory: %lld bytes: parameters %lld, optimizer %lld, gradients %lld, statistics %lld, "
           "samples %lld, exchange %lld, values %lld",
           (long long)lk_plan_memory_sum(m), (long long)m->parameters, (long long)m->optimizer,
           (long long)m->gradients, (long long)m->state, (long long)m->samples,
           (long long)m->exchange, (long long)m->values);
    if (m->filters > 0)
        printf(", filters of others %lld", (long long)m->filters);
    if (m->saving > 0)
        printf(", saving %lld", (long long)m->saving);
    putchar('\n');
    char note[PLAN_NOTE];
    for (int64_t at = 0; plan_note_next(p, &at, note);)
        printf("note: %s\n", note);
    for (int i = 0; i < n; i++)
        printf("note: %s\n", more[i]);
}
