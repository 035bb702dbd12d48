/* lockstep plan --draw of a layout with features: which of each layer's lie on which rank, and what travels.
 *
 * A row is a layer, with layers behind it that do the same; a column is a rank along features.  In it the
 * layer's output is a bar, cut into blocks: those that the rank has are in its colour, and where all ranks have
 * all of them the whole bar is.  Lines go from the row above to what is made of it: each rank's to its own
 * where nothing travels, all to all where something does.  Layers within a layer stand before it.
 */
#include "plan/draw.h"
#include "plan/show.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/op.h>

#include <errno.h>
#include <string.h>

enum {
    BORDER = 24 * SVG_PIXEL,
    HEADING = 62 * SVG_PIXEL, /* the title, and the ranks */
    LABEL = 100 * SVG_PIXEL,  /* for names, or more */
    LETTER = 660,
    DEEPER = 10 * SVG_PIXEL,
    ALL_COLUMNS = 600 * SVG_PIXEL, /* shared by the ranks, but not below NARROW each */
    NARROW = 110 * SVG_PIXEL,
    BETWEEN = 26 * SVG_PIXEL, /* columns */
    TEXT = 230 * SVG_PIXEL,
    BAR = 20 * SVG_PIXEL,
    QUIET = 16 * SVG_PIXEL, /* above a row where nothing travels, */
    BUSY = 44 * SVG_PIXEL,  /* and where something does */
    LINE = 14 * SVG_PIXEL,
    KEY = 16 * SVG_PIXEL,
    LEGEND = 70 * SVG_PIXEL,
    NAMES = 64,
    COLOURS = 8,
    MOST_RANKS = 16
};

typedef struct row {
    char names[NAMES];
    int64_t layer, n; /* n: features of what it gives; layer -1: the loss */
    int depth;
    bool varies;         /* ranks have some of them each */
    bool follows;        /* it takes what the row above gives */
    const char *cut;     /* what of its parameters */
    lk_transfer sent[4]; /* of the layer: forward, then backward */
    int n_sent;
    svg_length y; /* where its bars begin */
} row;

typedef struct picture {
    const lk_plan *plan;
    const lk_model *model;
    row *row;
    int64_t n_rows;
    const char *
        entered; /* a layer with layers of which none has a row yet, and what goes in changes; NULL */
    svg_length label, column; /* widths: of the names, and of each rank */
} picture;

/* ---- rows ---- */

/* Whether two layers are in the same list: their names have the same beginning. */
static bool same_list(const char *a, const char *b)
{
    const char *a_end = strrchr(a, '.'), *b_end = strrchr(b, '.');
    size_t n = a_end ? (size_t)(a_end - a) : 0;
    return n == (b_end ? (size_t)(b_end - b) : 0) && strncmp(a, b, n) == 0;
}

/* What the layer, or the loss, sends along features. */
static void sent_find(const lk_plan *p, const char *name, row *r)
{
    for (int64_t i = 0; i < p->n_transfers && r->n_sent < 4; i++) {
        const lk_transfer *t = &p->transfer[i];
        bool in_pass = t->when == LK_IN_FORWARD || t->when == LK_IN_BACKWARD;
        if (in_pass && (t->kind == LK_GATHERED || t->kind == LK_JOINED) &&
            strcmp(t->what, name) == 0)
            r->sent[r->n_sent++] = *t;
    }
}

static const char *cut_text(const lk_layer_plan *l, const lk_feature_part *f, int64_t params)
{
    if (params == 0)
        return "";
    switch (f->kind) {
    case LK_FEATURES_OUT: return strcmp(l->type, "conv") == 0 ? "filters cut" : "units cut";
    case LK_FEATURES_IN: return strcmp(l->type, "embedding") == 0 ? "rows cut" : "inputs cut";
    case LK_FEATURES_EACH: return f->y ? "channels cut" : "the same on all";
    default: return "the same on all";
    }
}

/* Whether a layer does the same as the row above and sends nothing: it is named there. */
static bool is_joined_to(const picture *p, const row *r)
{
    const row *above = &p->row[p->n_rows - 1];
    const lk_layer_plan *l = &p->plan->layer[r->layer];
    const lk_feature_part *f = &p->plan->part[r->layer].features;
    bool has_filters = l->reach == LK_REACH_WINDOW && l->param_bytes > 0;
    return r->follows && r->depth == above->depth && f->kind == LK_FEATURES_EACH &&
           r->n_sent == 0 && !has_filters && above->n == r->n && above->varies == r->varies;
}

static void row_name(row *r, const char *name)
{
    size_t n = strlen(r->names);
    if (n + strlen(name) + 2 < NAMES)
        snprintf(r->names + n, NAMES - n, "%s%s", n > 0 ? ", " : "", name);
}

static bool has_layers(const lk_plan *p, int64_t layer)
{
    return layer + 1 < p->n_layers && p->layer[layer + 1].depth > p->layer[layer].depth;
}

static lk_status row_add(picture *p, int64_t layer)
{
    const lk_plan *plan = p->plan;
    const lk_layer_plan *l = &plan->layer[layer];
    const lk_feature_part *f = &plan->part[layer].features;
    lk_layer_info info;
    LK_TRY(lk_model_layer(p->model, layer, &info));
    row *r = &p->row[p->n_rows], *above = p->n_rows > 0 ? r - 1 : NULL;
    int last = info.out.shape.ndim - 1;
    *r = (row){.layer = layer, .n = last >= 0 ? info.out.shape.dim[last] : 1, .depth = l->depth};
    r->varies = f->y && f->after == LK_FEATURES_STAY;
    r->follows = !above || above->depth != l->depth ||
                 same_list(plan->layer[above->layer].name, l->name);
    r->cut = cut_text(l, f, info.params);
    if (p->entered)
        sent_find(plan, p->entered, r);
    p->entered = NULL;
    if (f->kind == LK_FEATURES_OUT || f->kind == LK_FEATURES_IN || f->after != LK_FEATURES_STAY ||
        (f->before != LK_FEATURES_STAY && !has_layers(plan, layer)))
        sent_find(plan, l->name, r);
    if (above && is_joined_to(p, r)) {
        row_name(above, strrchr(l->name, '.') ? strrchr(l->name, '.') + 1 : l->name);
        return LK_OK;
    }
    row_name(r, l->name);
    p->n_rows++;
    return LK_OK;
}

/* The layers from *at on that are `depth` deep or deeper, each behind those within it. */
static lk_status rows_add(picture *p, int depth, int64_t *at)
{
    const lk_plan *plan = p->plan;
    while (*at < plan->n_layers && plan->layer[*at].depth >= depth) {
        int64_t own = (*at)++;
        if (has_layers(plan, own) && plan->part[own].features.before != LK_FEATURES_STAY)
            p->entered = plan->layer[own].name;
        LK_TRY(rows_add(p, depth + 1, at));
        if (plan->layer[own].stage == plan->stage && plan->runs[own])
            LK_TRY(row_add(p, own));
    }
    return LK_OK;
}

static lk_status rows_make(picture *p)
{
    int64_t at = 0;
    LK_TRY(lk_alloc_zero(&p->row, p->plan->n_layers + 1, sizeof *p->row));
    LK_TRY(rows_add(p, 0, &at));
    row loss = {.layer = -1, .n = 1, .follows = true, .cut = ""};
    sent_find(p->plan, "loss", &loss);
    row_name(&loss, "loss");
    if (loss.n_sent > 0 && p->plan->stage == p->plan->stages - 1)
        p->row[p->n_rows++] = loss;
    svg_length y = BORDER + HEADING;
    p->label = LABEL;
    for (int64_t i = 0; i < p->n_rows; i++) {
        row *r = &p->row[i];
        svg_length width = (svg_length)strlen(r->names) * LETTER + (svg_length)r->depth * DEEPER +
                           BETWEEN;
        p->label = width > p->label ? width : p->label;
        y += r->n_sent == 0 ? QUIET : r->n_sent < 3 ? BUSY : BUSY + 2 * LINE;
        r->y = y;
        y += BAR;
    }
    return LK_OK;
}

/* ---- places ---- */

static svg_length column_x(const picture *p, int rank)
{
    return BORDER + p->label + rank * (p->column + BETWEEN);
}

/* The number among all ranks of one along features. */
static int rank_number(const lk_plan *p, int rank)
{
    return plan_rank(p, p->tiling ? p->tiling->rank : 0) - p->split->rank + rank;
}

static lk_range held_of(const picture *p, const row *r, int rank)
{
    return r->varies ? lk_feature_range(p->plan->split, rank, r->n) : (lk_range){0, r->n};
}

/* Features from `first` on in the bar of a rank. */
static svg_place part_place(const picture *p, const row *r, int rank, lk_range part)
{
    svg_length from = part.first * p->column / r->n, to = (part.first + part.n) * p->column / r->n;
    return (svg_place){column_x(p, rank) + from, r->y, to - from, BAR};
}

/* The middle of what a rank has of a row. */
static svg_length middle_x(const picture *p, const row *r, int rank)
{
    lk_range held = held_of(p, r, rank);
    svg_place at = part_place(p, r, rank, held.n > 0 ? held : (lk_range){0, r->n});
    return at.x + at.w / 2;
}

/* ---- drawing ---- */

/* Which features a rank has, in the part of the bar or beside it. */
static void held_write(const picture *p, svg *to, const row *r, int rank, svg_place part)
{
    lk_range held = held_of(p, r, rank);
    long long first = (long long)held.first, last = first + (long long)held.n - 1;
    svg_length x = column_x(p, rank), y = r->y + 14 * SVG_PIXEL;
    char text[48];
    if (r->layer < 0)
        snprintf(text, sizeof text, "all");
    else if (!r->varies)
        snprintf(text, sizeof text, "all %lld", (long long)r->n);
    else if (held.n > 0)
        snprintf(text, sizeof text, "%lld-%lld", first, last);
    else
        snprintf(text, sizeof text, "none");
    svg_length room = (svg_length)(6 * strlen(text) + 6) * SVG_PIXEL;
    if (held.n == 0)
        svg_text(to, "tick-mid", x + p->column / 2, y, text);
    else if (part.w >= room)
        svg_text(to, r->varies ? "box-mid" : "rank-mid", part.x + part.w / 2, y, text);
    else if (part.x + part.w + room <= x + p->column)
        svg_text(to, "tick", part.x + part.w + 4 * SVG_PIXEL, y, text);
    else
        svg_text(to, "tick-end", part.x - 4 * SVG_PIXEL, y, text);
}

static void bar_draw(const picture *p, svg *to, const row *r, int rank)
{
    const lk_feature_split *split = p->plan->split;
    bool cut = r->layer >= 0 && r->varies && lk_feature_is_cut(split, r->n);
    int64_t size = cut ? lk_block_size(r->n, split->blocks, split->least_block) : r->n;
    lk_range held = held_of(p, r, rank);
    char kind[16] = "own", title[192];
    if (r->varies)
        snprintf(kind, sizeof kind, "block c%d", rank % COLOURS);
    for (int64_t first = 0; first < r->n; first += size) {
        lk_range block = {first, size < r->n - first ? size : r->n - first};
        bool has = first >= held.first && first < held.first + held.n;
        snprintf(title, sizeof title, "%s: features %lld-%lld, rank %d %s", r->names,
                 (long long)first, (long long)(first + block.n - 1), rank_number(p->plan, rank),
                 has ? "has them" : "has them not");
        svg_rect(to, has ? kind : "tile", part_place(p, r, rank, block), title);
    }
    held_write(p, to, r, rank, part_place(p, r, rank, held));
}

/* Lines of a kind from all ranks to all, so far to the right. */
static void fan_draw(const picture *p, svg *to, const char *kind, svg_length right,
                     const row *above, const row *r)
{
    int size = p->plan->split->size;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            svg_line(to, kind, middle_x(p, above, a) + right, above->y + BAR,
                     middle_x(p, r, b) + right, r->y);
}

/* What travels to a row, and back. */
static void gap_draw(const picture *p, svg *to, const row *above, const row *r)
{
    bool travels[2] = {false, false};
    svg_length x = column_x(p, p->plan->split->size - 1) + p->column + 18 * SVG_PIXEL;
    svg_length y = r->y - (svg_length)LINE * (r->n_sent > 1 ? r->n_sent - 1 : 0) - 18 * SVG_PIXEL;
    for (int i = 0; i < r->n_sent; i++) {
        const lk_transfer *t = &r->sent[i];
        bool back = t->when == LK_IN_BACKWARD;
        char text[96];
        travels[back] = true;
        snprintf(text, sizeof text, "%s: %s, %lld bytes", back ? "backward" : "forward",
                 plan_kind_name[t->kind], (long long)t->bytes);
        svg_text(to, back ? "back" : "ahead", x, y + (svg_length)i * LINE, text);
    }
    if (!above || !r->follows)
        return;
    for (int rank = 0; !travels[0] && rank < p->plan->split->size; rank++)
        svg_line(to, "flow", middle_x(p, above, rank), above->y + BAR, middle_x(p, r, rank), r->y);
    svg_length apart = travels[0] && travels[1] ? 5 * SVG_PIXEL : 0;
    if (travels[0])
        fan_draw(p, to, "flow-ahead", -apart, above, r);
    if (travels[1])
        fan_draw(p, to, "flow-back", apart, above, r);
}

static void row_draw(const picture *p, svg *to, const row *r)
{
    svg_length indent = (svg_length)r->depth * DEEPER, y = r->y + 14 * SVG_PIXEL;
    svg_length x = column_x(p, p->plan->split->size - 1) + p->column + 18 * SVG_PIXEL;
    svg_text(to, "legend", BORDER + indent, y, r->names);
    for (int rank = 0; rank < p->plan->split->size; rank++)
        bar_draw(p, to, r, rank);
    if (r->cut[0])
        svg_text(to, "tick", x, y, r->cut);
}

static void legend_draw(const picture *p, svg *to, svg_length y)
{
    static const struct {
        const char *kind, *text;
        bool line;
    } keys[] = {{"block c0", "a rank's own features", false},
                {"own", "all of them, the same bits on all ranks", false},
                {"flow-ahead", "travels in forward", true},
                {"flow-back", "travels in backward", true}};
    char text[96];
    svg_length x = BORDER;
    for (int k = 0; k < LK_COUNT(keys); k++) {
        if (keys[k].line)
            svg_line(to, keys[k].kind, x, y + KEY / 2, x + KEY, y + KEY / 2);
        else
            svg_rect(to, keys[k].kind, (svg_place){x, y, KEY, KEY}, NULL);
        svg_text(to, "tick", x + 22 * SVG_PIXEL, y + 12 * SVG_PIXEL, keys[k].text);
        x += (44 + 5 * (svg_length)strlen(keys[k].text)) * SVG_PIXEL;
    }
    snprintf(text, sizeof text, "bytes are those that rank %d gives in a step",
             rank_number(p->plan, p->plan->split->rank));
    svg_text(to, "tick", BORDER, y + 34 * SVG_PIXEL, text);
}

static int picture_write(const picture *p, const char *word, const char *path)
{
    int size = p->plan->split->size;
    char title[256], text[32];
    svg s;
    const row *last = &p->row[p->n_rows - 1];
    svg_length bottom = last->y + BAR + BETWEEN;
    snprintf(title, sizeof title, "Layout %s: which features of each layer lie on which rank",
             word);
    if (!svg_open(&s, path, column_x(p, size) + TEXT, bottom + LEGEND, title))
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(errno));
    svg_text(&s, "head", BORDER, BORDER + 14 * SVG_PIXEL, title);
    for (int rank = 0; rank < size; rank++) {
        snprintf(text, sizeof text, "rank %d", rank_number(p->plan, rank));
        svg_text(&s, "rank-mid", column_x(p, rank) + p->column / 2, BORDER + 52 * SVG_PIXEL, text);
    }
    for (int64_t i = 0; i < p->n_rows; i++)
        gap_draw(p, &s, i > 0 ? &p->row[i - 1] : NULL, &p->row[i]);
    for (int64_t i = 0; i < p->n_rows; i++)
        row_draw(p, &s, &p->row[i]);
    legend_draw(p, &s, bottom);
    int failed = svg_close(&s);
    if (failed)
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(failed));
    return LK_EXIT_DONE;
}

int plan_draw_features(const lk_plan *plan, const lk_model *model, const char *word,
                       const char *path)
{
    picture p = {.plan = plan, .model = model};
    int size = plan->split->size;
    if (size > MOST_RANKS)
        return verb_refuse("lockstep plan: option --draw: %d ranks along features are too many to "
                           "draw: up to %d can be",
                           size, MOST_RANKS);
    p.column = (ALL_COLUMNS - (size - 1) * (svg_length)BETWEEN) / size;
    if (p.column < NARROW)
        p.column = NARROW;
    int status;
    if (rows_make(&p) != LK_OK)
        status = verb_failed();
    else if (p.n_rows == 0)
        status = verb_refuse("lockstep plan: option --draw: rank %d runs no layer",
                             rank_number(plan, plan->split->rank));
    else
        status = picture_write(&p, word, path);
    lk_free(p.row);
    return status;
}
