/* lockstep plan --schedule: schedules of a pipeline one below the other, a column being a unit of time. */
#include "plan/draw.h"
#include "plan/svg.h"
#include "report.h"
#include "verb.h"

#include <lockstep/op.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* That train, in the order of LK_PIPELINE_CHOICES. */
enum { SCHEDULES = LK_PIPELINE_FORWARD };

typedef struct drawn_schedule {
    lk_pipeline *pipeline;
    lk_pipeline_times *times;
} drawn_schedule;

/* Those that are drawn. */
typedef struct drawn_schedules {
    int n;
    drawn_schedule each[SCHEDULES];
} drawn_schedules;

static lk_status schedule_make(const lk_pipeline_spec *spec, drawn_schedule *out)
{
    lk_stage_times each[PIPELINE_DRAW_STAGES];
    for (int s = 0; s < spec->stages; s++)
        each[s] = (lk_stage_times){
            .forward = 1, .backward = 2, .backward_input = 1, .backward_weights = 1};
    LK_TRY(lk_pipeline_new(spec, &out->pipeline));
    return LK_TRACE(lk_pipeline_times_new(out->pipeline, each, false, &out->times));
}

/* ---- as text ---- */

/* The longest: each stage computes three units of each micro-batch, and waits for the others. */
enum { LINE = 3 * (PIPELINE_DRAW_STAGES + PIPELINE_DRAW_MICROBATCHES) + 1 };

static void stage_line(const drawn_schedule *d, int s, char out[LINE])
{
    const lk_pipeline_stage *list = &d->pipeline->stage[s];
    memset(out, '.', (size_t)d->times->total);
    out[d->times->total] = 0;
    for (int64_t i = 0; i < list->n; i++) {
        lk_action a = list->action[i];
        lk_action_span at = d->times->span[s][i];
        char sign = (char)('a' + a.microbatch % 26);
        if (a.kind == LK_ACTION_FORWARD)
            sign = (char)('0' + a.microbatch % 10);
        else if (a.kind == LK_ACTION_BACKWARD_WEIGHTS)
            sign = (char)('A' + a.microbatch % 26);
        if (a.kind < LK_ACTION_SEND)
            memset(out + at.begin, sign, (size_t)(at.end - at.begin));
    }
}

static void schedules_print(const drawn_schedules *all)
{
    const drawn_schedule *d = all->each;
    int stages = d->pipeline->stages, width = stages > 10 ? 2 : 1;
    char line[LINE];
    printf("%d stages, %lld micro-batches; a column is the time of a forward, and of each half of "
           "a backward:\n"
           "digits are forwards, small letters backwards or those of the input, capitals the "
           "gradients of weights\n",
           stages, (long long)d->pipeline->microbatches);
    for (int k = 0; k < all->n; k++) {
        printf("\n%s\n", lk_pipeline_name(d[k].pipeline->kind));
        for (int s = 0; s < stages; s++) {
            stage_line(&d[k], s, line);
            printf("  stage %*d |%s|\n", width, s, line);
        }
    }
    putchar('\n');
}

/* "4 3 2 1". */
static const char *tapes_text(const lk_pipeline *p, char out[8 * PIPELINE_DRAW_STAGES])
{
    size_t n = 0;
    for (int s = 0; s < p->stages; s++)
        n += (size_t)snprintf(out + n, 8, "%s%lld", s > 0 ? " " : "", (long long)p->stage[s].tapes);
    return out;
}

static void table_print(const drawn_schedules *all, bool json)
{
    static const report_column columns[] = {
        {"schedule", "schedule", -8},
        {"stages", NULL, 0},
        {"microbatches", NULL, 0},
        {"time", "time", 5},
        {"busy", "busy", 5},
        {"bubble", "bubble", 6},
        {"tapes", "tapes by stage", -14},
    };
    report r;
    report_keep(&r, columns, LK_COUNT(columns), json);
    for (int k = 0; k < all->n; k++) {
        const lk_pipeline *p = all->each[k].pipeline;
        const lk_pipeline_times *t = all->each[k].times;
        char tapes[8 * PIPELINE_DRAW_STAGES];
        report_row(&r,
                   (report_cell[]){cell_text(lk_pipeline_name(p->kind)), cell_int(p->stages),
                                   cell_int(p->microbatches), cell_int(t->total), cell_int(t->busy),
                                   cell_real(t->bubble, 3), cell_text(tapes_text(p, tapes))});
    }
    report_end(&r);
}

/* ---- as SVG ---- */

enum {
    BORDER = 24 * SVG_PIXEL,
    HEADING = 34 * SVG_PIXEL,
    SUBHEADING = 26 * SVG_PIXEL,
    LABEL = 62 * SVG_PIXEL,
    UNIT = 16 * SVG_PIXEL,
    ROW = 20 * SVG_PIXEL,
    BETWEEN = 22 * SVG_PIXEL,
    LEGEND = 30 * SVG_PIXEL
};

/* What a computation is called, and its colour. */
static const struct {
    const char *kind, *text;
} colours[] = {
    [LK_ACTION_FORWARD] = {"c5", "forward"},
    [LK_ACTION_BACKWARD] = {"c3", "backward"},
    [LK_ACTION_BACKWARD_INPUT] = {"c1", "backward of the input"},
    [LK_ACTION_BACKWARD_WEIGHTS] = {"c0", "gradients of weights"},
};

static void action_draw(svg *to, int s, lk_action a, lk_action_span at, svg_length y)
{
    svg_length x = (svg_length)BORDER + LABEL + at.begin * UNIT, w = (at.end - at.begin) * UNIT;
    char title[128], number[24], text[LK_ACTION_TEXT];
    snprintf(title, sizeof title, "stage %d: %s, from %lld to %lld", s, lk_action_text(a, text),
             (long long)at.begin, (long long)at.end);
    snprintf(number, sizeof number, "%lld", (long long)a.microbatch);
    svg_rect(to, colours[a.kind].kind, (svg_place){x, y, w - SVG_PIXEL, ROW - 2 * SVG_PIXEL},
             title);
    svg_text(to, "box-mid", x + w / 2, y + 13 * SVG_PIXEL, number);
}

static void schedule_draw(svg *to, const drawn_schedule *d, svg_length y)
{
    const lk_pipeline *p = d->pipeline;
    char text[128];
    snprintf(text, sizeof text, "%s: time %lld, of which the busiest stage computes %lld",
             lk_pipeline_name(p->kind), (long long)d->times->total, (long long)d->times->busy);
    svg_text(to, "sub", BORDER, y + 13 * SVG_PIXEL, text);
    y += SUBHEADING;
    for (int s = 0; s < p->stages; s++, y += ROW) {
        snprintf(text, sizeof text, "stage %d", s);
        svg_text(to, "tick", BORDER, y + 13 * SVG_PIXEL, text);
        svg_rect(to, "tile",
                 (svg_place){BORDER + LABEL, y, d->times->total * UNIT, ROW - 2 * SVG_PIXEL}, NULL);
        for (int64_t i = 0; i < p->stage[s].n; i++)
            if (p->stage[s].action[i].kind < LK_ACTION_SEND)
                action_draw(to, s, p->stage[s].action[i], d->times->span[s][i], y);
    }
}

static void legend_draw(svg *to, svg_length y)
{
    svg_length x = BORDER;
    for (int k = 0; k < LK_COUNT(colours); k++) {
        svg_rect(to, colours[k].kind, (svg_place){x, y, UNIT, UNIT}, NULL);
        svg_text(to, "tick", x + 22 * SVG_PIXEL, y + 12 * SVG_PIXEL, colours[k].text);
        x += (36 + 6 * (svg_length)strlen(colours[k].text)) * SVG_PIXEL;
    }
}

static int schedules_draw(const drawn_schedules *all, const char *path)
{
    const drawn_schedule *d = all->each;
    int stages = d->pipeline->stages;
    svg_length width = 480 * SVG_PIXEL, each = SUBHEADING + (svg_length)stages * ROW + BETWEEN;
    char title[128];
    svg s;
    for (int k = 0; k < all->n; k++)
        if (width < LABEL + d[k].times->total * UNIT)
            width = LABEL + d[k].times->total * UNIT;
    snprintf(title, sizeof title, "%d stages, %lld micro-batches: what each computes when", stages,
             (long long)d->pipeline->microbatches);
    if (!svg_open(&s, path, width + (svg_length)2 * BORDER,
                  (svg_length)2 * BORDER + HEADING + all->n * each + LEGEND, title))
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(errno));
    svg_text(&s, "head", BORDER, BORDER + 14 * SVG_PIXEL, title);
    for (int k = 0; k < all->n; k++)
        schedule_draw(&s, &d[k], BORDER + HEADING + k * each);
    legend_draw(&s, BORDER + HEADING + all->n * each);
    int failed = svg_close(&s);
    if (failed)
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(failed));
    return LK_EXIT_DONE;
}

/* ---- both ---- */

static int schedules_show(const drawn_schedules *d, const char *path, bool json)
{
    int status = path ? schedules_draw(d, path) : LK_EXIT_DONE;
    if (status != LK_EXIT_DONE)
        return status;
    if (!json)
        schedules_print(d);
    table_print(d, json);
    return LK_EXIT_DONE;
}

int pipeline_draw(const lk_pipeline_spec *given, bool compare, const char *path, bool json)
{
    drawn_schedules d = {.n = compare ? SCHEDULES : 1};
    lk_pipeline_spec spec = *given;
    lk_status st = LK_OK;
    for (int k = 0; k < d.n && st == LK_OK; k++) {
        if (compare)
            spec.kind = (lk_pipeline_kind)k;
        st = schedule_make(&spec, &d.each[k]);
    }
    int status = st == LK_OK ? schedules_show(&d, path, json) : verb_failed();
    for (int k = 0; k < d.n; k++) {
        lk_pipeline_times_free(d.each[k].times);
        lk_pipeline_free(d.each[k].pipeline);
    }
    return status;
}
